//! Detection of formats, and chats as users have them: logs, lines, dumps of SDKs, broken characters, paused turns.

use pannier_chat::{ChatInput, LogFormat, Provider, Transcript};
use pannier_core::ContextBudget;
use pannier_policy::PolicyRegistry;
use pannier_tokens::BytesOverFour;
use serde_json::{Value, json};

fn detect(value: &Value) -> Provider {
    ChatInput::open(&value.to_string(), None, None).unwrap().provider()
}

/// Returns what is sent, and the problems of the repairs.
fn send(provider: Provider, text: &str, tokens: i64) -> (String, Vec<String>) {
    let transcript = Transcript::read(provider, text, &BytesOverFour).unwrap();
    let registry = PolicyRegistry::default();
    let policy = registry.policy("transcript").unwrap();
    let trimmer = transcript.trimmer(&registry, policy, None).unwrap();
    let json = trimmer.trim(&ContextBudget::new(tokens, tokens).unwrap()).unwrap().json();
    (json, transcript.repairs().iter().map(|repair| repair.problem.clone()).collect())
}

#[test]
fn providers_are_detected_by_shape() {
    let user = json!({ "role": "user", "content": "Hi" });
    let with = |field: &str, value: Value| json!({ "messages": [user], field: value });
    let says = |message: Value| json!([user, message]);
    let part = |part: Value| says(json!({ "role": "assistant", "content": [part] }));
    let cases = [
        (json!([user]), Provider::OpenAi),
        (with("model", json!("claude-sonnet-4-5")), Provider::Anthropic),
        (with("model", json!("gpt-5")), Provider::OpenAi),
        (with("system", json!("Be brief.")), Provider::Anthropic),
        (with("tools", json!([{ "name": "f", "input_schema": {} }])), Provider::Anthropic),
        (with("tools", json!([{ "type": "function", "function": {} }])), Provider::OpenAi),
        (with("max_completion_tokens", json!(9)), Provider::OpenAi),
        (
            part(json!({ "type": "tool_use", "id": "1", "name": "f", "input": {} })),
            Provider::Anthropic,
        ),
        (part(json!({ "type": "thinking", "thinking": "hm" })), Provider::Anthropic),
        (part(json!({ "type": "image_url", "image_url": {} })), Provider::OpenAi),
        (part(json!({ "type": "output_text", "text": "x" })), Provider::Responses),
        (says(json!({ "role": "assistant", "tool_calls": [] })), Provider::OpenAi),
        (
            says(json!({ "role": "assistant", "tool_calls": null, "content": "x" })),
            Provider::OpenAi,
        ),
        (says(json!({ "type": "reasoning", "id": "rs_1", "summary": [] })), Provider::Responses),
        (
            says(json!({ "type": "custom_tool_call", "call_id": "1", "input": "x" })),
            Provider::Responses,
        ),
        (json!({ "input": "Hi", "model": "gpt-5" }), Provider::Responses),
        (json!({ "contents": [] }), Provider::Gemini),
        (json!([{ "role": "user", "parts": [{ "text": "Hi" }] }]), Provider::Gemini),
        (user.clone(), Provider::OpenAi),
    ];
    for (value, provider) in cases {
        assert_eq!(detect(&value), provider, "{value}");
    }
}

#[test]
fn roles_of_openai_are_signs_whatever_the_model() {
    let request =
        |messages: Value| json!({ "model": "anthropic/claude-sonnet-4.5", "messages": messages });
    let text = |role: &str| json!({ "role": role, "content": "Be brief." });
    for role in ["system", "developer"] {
        let value = request(json!([text(role), text("user")]));
        assert_eq!(detect(&value), Provider::OpenAi, "{role}");
        ChatInput::open(&value.to_string(), None, None).unwrap().read(&BytesOverFour).unwrap();
    }
    let value = request(json!([text("user"), text("assistant"), text("developer")]));
    assert_eq!(detect(&value), Provider::OpenAi);
    // Anthropic takes instructions between messages, and its blocks are stronger signs.
    let value = request(json!([text("user"), text("system"), text("assistant")]));
    assert_eq!(detect(&value), Provider::Anthropic);
    let call = json!({ "type": "tool_use", "id": "1", "name": "f", "input": {} });
    let call = json!({ "role": "assistant", "content": [call] });
    assert_eq!(detect(&request(json!([text("system"), text("user"), call]))), Provider::Anthropic);
}

#[test]
fn signs_of_two_providers_are_an_error() {
    let call = json!({ "type": "tool_use", "id": "1", "name": "f", "input": {} });
    let value = json!([
        { "role": "user", "content": "Hi" },
        { "role": "assistant", "tool_calls": [] },
        { "role": "assistant", "content": [call] },
    ]);
    let error = ChatInput::open(&value.to_string(), None, None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the request: it may be for openai (`tool_calls` in messages[1]) or for anthropic (`tool_use` in messages[2]); \
         name the provider"
    );
    let text = value.to_string();
    let named = ChatInput::open(&text, Some(Provider::Anthropic), None).unwrap();
    assert_eq!(named.provider(), Provider::Anthropic);
    let two = json!({ "messages": [], "input": "x" }).to_string();
    let error = ChatInput::open(&two, None, None).unwrap_err().to_string();
    assert!(error.contains("`messages` in the request"), "{error}");
}

#[test]
fn one_message_on_each_line_is_a_list() {
    let text = "\u{feff}{\"role\":\"user\",\"content\":\"Hi\"}\r\n\n{\"role\":\"assistant\",\"content\":\"Hello!\"}\n";
    let input = ChatInput::open(text, None, None).unwrap();
    assert_eq!(input.read(&BytesOverFour).unwrap().items().len(), 2);
    let error = ChatInput::open("{\"role\":\"user\"}\n{\"a\":1}", None, None).unwrap_err();
    assert!(error.to_string().starts_with("line 2, column 1: "), "{error}");
    assert!(ChatInput::open("", None, None).is_err());
    assert!(ChatInput::open("3", None, None).is_err());
}

#[test]
fn logs_are_detected() {
    let line = |kind: &str, content: Value| json!({ "type": kind, "uuid": kind, "message": { "role": kind, "content": content } });
    let text = json!([{ "type": "text", "text": "Hello!" }]);
    let log = format!("{}\n{}\n{{\"cut", line("user", json!("Hi")), line("assistant", text));
    let input = ChatInput::open(&log, None, None).unwrap();
    assert_eq!((input.log(), input.provider()), (Some(LogFormat::ClaudeCode), Provider::Anthropic));
    assert_eq!((input.skipped_lines(), input.read(&BytesOverFour).unwrap().items().len()), (1, 2));
    let error = ChatInput::open(&log, Some(Provider::Gemini), None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the claude-code log: its requests are for anthropic, not gemini"
    );
}

#[test]
fn the_output_limit_of_a_request_is_known() {
    let limit =
        |value: Value| ChatInput::open(&value.to_string(), None, None).unwrap().max_output_tokens();
    assert_eq!(limit(json!({ "messages": [], "max_tokens": 1024 })), Some(1024));
    assert_eq!(limit(json!({ "messages": [], "max_completion_tokens": 7 })), Some(7));
    assert_eq!(limit(json!({ "input": "x", "max_output_tokens": 8 })), Some(8));
    assert_eq!(
        limit(json!({ "contents": [], "generationConfig": { "maxOutputTokens": 9 } })),
        Some(9)
    );
    for none in [
        json!({ "messages": [], "max_tokens": null }),
        json!([]),
        json!({ "input": "x", "max_output_tokens": 0 }),
    ] {
        assert_eq!(limit(none), None);
    }
}

#[test]
fn lone_surrogates_are_replaced_and_reported() {
    let texts = [
        (Provider::OpenAi, r#"[{"role":"user","content":"a\ud83d"}]"#),
        (Provider::Anthropic, r#"[{"role":"user","content":[{"type":"text","text":"a\ud83d"}]}]"#),
        (Provider::Responses, r#"{"input":"a\ud83d"}"#),
        (Provider::Gemini, r#"{"contents":[{"parts":[{"text":"a\ud83d"}]}]}"#),
    ];
    for (provider, text) in texts {
        let (sent, repairs) = send(provider, text, 100);
        assert_eq!(sent, text.replace("\\ud83d", "\\ufffd"));
        assert_eq!(repairs, ["a lone surrogate is replaced by U+FFFD"]);
    }
}

#[test]
fn empty_and_blank_last_messages_are_dropped() {
    let question = json!({ "role": "user", "content": "Hi" });
    for (provider, last) in [
        (Provider::OpenAi, json!({ "role": "user", "content": "" })),
        (Provider::OpenAi, json!({ "role": "assistant", "content": null })),
        (Provider::Anthropic, json!({ "role": "user", "content": " \n" })),
        (Provider::Anthropic, json!({ "role": "assistant", "content": [] })),
        (
            Provider::Responses,
            json!({ "role": "user", "content": [{ "type": "input_text", "text": "" }] }),
        ),
    ] {
        let text = json!([question, last]).to_string();
        assert_eq!(
            send(provider, &text, 100).0,
            json!([question]).to_string(),
            "{provider} {last}"
        );
    }
    let gemini = |text: &str| json!({ "role": "user", "parts": [{ "text": text }] });
    let text = json!([gemini("Hi"), gemini("")]).to_string();
    assert_eq!(send(Provider::Gemini, &text, 100).0, json!([gemini("Hi")]).to_string());
}

/// Dumps of SDKs have fields without values, and unknown fields and parts pass through.
#[test]
fn dumps_and_unknown_content_are_sent_as_they_are() {
    let openai = r#"[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello!","refusal":null,"annotations":[],"audio":null,"function_call":null,"tool_calls":null,"x":{"big":123456789012345678901234567890}}]"#;
    let responses = r#"{"x":1.50,"input":[{"role":"user","content":"Hi"},{"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search","query":"x"}},{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"Hello!"},{"type":"new_part","y":1}]},{"type":"new_item","z":[1,2]}]}"#;
    let anthropic = r#"[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"text","text":"Hello!","citations":null},{"type":"new_block","y":1}]}]"#;
    let gemini = r#"{"contents":[{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[{"text":"Hello!"},{"newPart":{"y":1}}]}],"safetySettings":[]}"#;
    for (provider, text) in [
        (Provider::OpenAi, openai),
        (Provider::Responses, responses),
        (Provider::Anthropic, anthropic),
        (Provider::Gemini, gemini),
    ] {
        assert_eq!(send(provider, text, 1_000), (text.to_owned(), Vec::new()));
    }
    let tokens = |text: &str| {
        let transcript = Transcript::read(Provider::OpenAi, text, &BytesOverFour).unwrap();
        transcript.items()[0].tokens()
    };
    let dump = r#"[{"role":"assistant","content":"Hello!","annotations":[],"refusal":null}]"#;
    assert_eq!(tokens(dump), tokens(r#"[{"role":"assistant","content":"Hello!"}]"#));
}

#[test]
fn paused_turns_stay_together() {
    let call = json!({ "type": "server_tool_use", "id": "s1", "name": "web_search", "input": {} });
    let result = json!({ "type": "web_search_tool_result", "tool_use_id": "s1", "content": [] });
    let question = json!({ "role": "user", "content": "Search." });
    let assistant = |blocks: &[&Value]| json!({ "role": "assistant", "content": blocks });
    // The turn is paused, and the next response continues it.
    let paused = json!([question, assistant(&[&call])]).to_string();
    assert_eq!(send(Provider::Anthropic, &paused, 1_000), (paused, Vec::new()));
    let text = json!({ "type": "text", "text": "Found." });
    let continued =
        json!([question, assistant(&[&call]), assistant(&[&result, &text])]).to_string();
    let (sent, repairs) = send(Provider::Anthropic, &continued, 1_000);
    assert_eq!(sent, json!([question, assistant(&[&call, &result, &text])]).to_string());
    assert_eq!(repairs, ["1 following messages of the same role are joined to it"]);
    // A call that nobody continued is dropped.
    let thanks = json!({ "role": "user", "content": "Thanks." });
    let abandoned = json!([question, assistant(&[&text, &call]), thanks]).to_string();
    let (sent, _) = send(Provider::Anthropic, &abandoned, 1_000);
    assert_eq!(sent, json!([question, assistant(&[&text]), thanks]).to_string());
}

/// Outputs of a continued response may answer calls that only the server has.
#[test]
fn continued_responses_keep_outputs_without_calls() {
    let output = json!({ "type": "function_call_output", "call_id": "a", "output": "ok" });
    let continued = json!({ "input": [output], "previous_response_id": "resp_1" }).to_string();
    assert_eq!(send(Provider::Responses, &continued, 100), (continued, Vec::new()));
    let alone = json!({ "input": [output] }).to_string();
    let error = Transcript::read(Provider::Responses, &alone, &BytesOverFour).unwrap_err();
    assert!(error.to_string().contains("tool result has no preceding tool call"), "{error}");
}

#[test]
fn reasoning_is_sent_with_its_item_only() {
    let say = |role: &str, text: &str| json!({ "role": role, "content": text });
    let reasoning = |id: &str| json!({ "type": "reasoning", "id": id, "summary": [{ "type": "summary_text", "text": "hm ".repeat(40) }] });
    let long = "long ".repeat(100);
    let items = json!([
        say("user", "One?"),
        reasoning("rs_1"),
        say("assistant", &long),
        say("user", "Two?"),
        reasoning("rs_2"),
        say("assistant", "Two."),
        say("user", "Three?")
    ]);
    let (sent, _) = send(Provider::Responses, &items.to_string(), 100);
    assert_eq!(
        serde_json::from_str::<Value>(&sent).unwrap(),
        json!([
            say("user", "Two?"),
            reasoning("rs_2"),
            say("assistant", "Two."),
            say("user", "Three?")
        ])
    );
}

/// A call of Gemini must directly follow a message of the user, so an exchange is sent as a whole.
#[test]
fn exchanges_of_gemini_are_sent_as_a_whole() {
    let say = |role: &str, text: &str| json!({ "role": role, "parts": [{ "text": text }] });
    let call =
        json!({ "role": "model", "parts": [{ "functionCall": { "name": "look", "args": {} } }] });
    let result = |text: &str| json!({ "role": "user", "parts": [{ "functionResponse": { "name": "look", "response": { "output": text } } }] });
    let contents = json!([
        say("user", "One?"),
        say("model", "One."),
        say("user", &"Two? ".repeat(60)),
        call,
        result("2"),
        say("model", "Two."),
        say("user", "Three?"),
        call,
        result(&"long ".repeat(60)),
        call,
        result("3"),
    ]);
    let (sent, _) = send(Provider::Gemini, &contents.to_string(), 100);
    assert_eq!(
        serde_json::from_str::<Value>(&sent).unwrap(),
        json!([
            say("user", "One?"),
            say("model", "One."),
            say("user", "Three?"),
            call,
            result("3")
        ])
    );
}

#[test]
fn pinned_messages_are_sent_with_a_first_message() {
    let say = |role: &str, text: String| json!({ "role": role, "content": text });
    let list: Vec<Value> = (0..10)
        .flat_map(|turn| {
            [say("user", format!("Question {turn}?")), say("assistant", format!("Answer {turn}."))]
        })
        .collect();
    let text = Value::from(list.clone()).to_string();
    let registry = PolicyRegistry::default();
    let policy = registry.policy("transcript").unwrap();
    for provider in [Provider::OpenAi, Provider::Anthropic, Provider::Responses] {
        let mut transcript = Transcript::read(provider, &text, &BytesOverFour).unwrap();
        transcript.pin(3).unwrap();
        let trimmer = transcript.trimmer(&registry, policy, None).unwrap();
        let budget = ContextBudget::new(40, 40).unwrap();
        let sent: Vec<Value> =
            serde_json::from_str(&trimmer.trim(&budget).unwrap().json()).unwrap();
        assert!(sent.contains(&list[2]) && sent.contains(&list[3]), "{sent:?}");
        assert_eq!(sent[0]["role"], "user");
        let receipt = trimmer.receipt(&trimmer.trim(&budget).unwrap(), None, "bytes/4");
        let mut again = Transcript::read(provider, &text, &BytesOverFour).unwrap();
        again.pin_as_in(&receipt).unwrap();
        let trimmer = again.trimmer(&registry, policy, None).unwrap();
        assert_eq!(trimmer.replay(&receipt, None).unwrap(), pannier_policy::Replay::Identical);
    }
    let text =
        json!([{ "role": "user", "content": "" }, { "role": "user", "content": "Hi" }]).to_string();
    let mut transcript = Transcript::read(Provider::OpenAi, &text, &BytesOverFour).unwrap();
    assert_eq!(
        transcript.pin(0).unwrap_err().to_string(),
        "messages[0]: it cannot be sent: message has no content; do not pin it"
    );
}
