//! Transcripts in the content formats that providers and logs use, and their trimmed versions.

use pannier_chat::{ChatError, Provider, Transcript};
use pannier_core::ContextBudget;
use pannier_policy::PolicyRegistry;
use pannier_tokens::BytesOverFour;
use serde_json::{Value, json};

/// Returns the sent messages and the number of repairs.
fn trim(provider: Provider, messages: &Value, tokens: i64) -> (Vec<Value>, usize) {
    let text = messages.to_string();
    let transcript = Transcript::read(provider, &text, &BytesOverFour).unwrap();
    let registry = PolicyRegistry::default();
    let trimmer =
        transcript.trimmer(&registry, registry.policy("transcript").unwrap(), None).unwrap();
    let trimmed = trimmer.trim(&ContextBudget::new(tokens, tokens).unwrap()).unwrap();
    let sent: Value = serde_json::from_str(&trimmed.json()).unwrap();
    let list = sent.get("messages").unwrap_or(&sent).as_array().unwrap().clone();
    (list, transcript.repairs().len())
}

fn read_error(provider: Provider, messages: &Value) -> String {
    Transcript::read(provider, &messages.to_string(), &BytesOverFour).unwrap_err().to_string()
}

fn call(id: &str) -> Value {
    json!({ "type": "tool_use", "id": id, "name": "look", "input": {} })
}

fn result(id: &str, text: &str) -> Value {
    json!({ "type": "tool_result", "tool_use_id": id, "content": text })
}

#[test]
fn blocks_logged_as_separate_messages_are_merged() {
    let thinking = json!({ "type": "thinking", "thinking": "hm", "signature": "s" });
    let split = json!([
        { "role": "user", "content": "Look." },
        { "role": "assistant", "content": [thinking] },
        { "role": "assistant", "content": [call("a")] },
        { "role": "assistant", "content": [call("b")] },
        { "role": "user", "content": [result("a", "1")] },
        { "role": "user", "content": [result("b", "2")] },
    ]);
    let (sent, repairs) = trim(Provider::Anthropic, &split, 1_000);
    assert_eq!(
        sent,
        [
            json!({ "role": "user", "content": "Look." }),
            json!({ "role": "assistant", "content": [thinking, call("a"), call("b")] }),
            json!({ "role": "user", "content": [result("a", "1"), result("b", "2")] }),
        ]
    );
    assert_eq!(repairs, 2);
}

#[test]
fn first_thinking_of_the_current_turn_is_kept() {
    let thinking = json!({ "type": "thinking", "thinking": "hm", "signature": "s" });
    let steps = json!([
        { "role": "user", "content": "Look." },
        { "role": "assistant", "content": [thinking, call("a")] },
        { "role": "user", "content": [result("a", "short")] },
        { "role": "assistant", "content": [call("b")] },
        { "role": "user", "content": [result("b", &"long ".repeat(300))] },
        { "role": "assistant", "content": [call("c")] },
        { "role": "user", "content": [result("c", "short")] },
    ]);
    let (sent, _) = trim(Provider::Anthropic, &steps, 150);
    assert_eq!(sent.len(), 5, "{sent:?}");
    assert_eq!(sent[1]["content"][0]["type"], "thinking");
}

#[test]
fn tool_results_at_the_end_are_kept() {
    let loop_step = json!([
        { "role": "user", "content": "Read the log." },
        { "role": "assistant", "content": null, "tool_calls": [{ "id": "1", "type": "function", "function": { "name": "read", "arguments": "{}" } }] },
        { "role": "tool", "tool_call_id": "1", "content": "line ".repeat(500) },
    ]);
    let text = loop_step.to_string();
    let transcript = Transcript::read(Provider::OpenAi, &text, &BytesOverFour).unwrap();
    let registry = PolicyRegistry::default();
    let trimmer =
        transcript.trimmer(&registry, registry.policy("transcript").unwrap(), None).unwrap();
    let error = trimmer.trim(&ContextBudget::new(200, 200).unwrap()).unwrap_err();
    let ChatError::OverBudget { smallest_budget, .. } = error else { panic!("{error}") };
    assert_eq!(
        trimmer
            .trim(&ContextBudget::new(smallest_budget, smallest_budget).unwrap())
            .unwrap()
            .selection()
            .len(),
        3
    );
}

#[test]
fn questions_are_never_sent_with_the_answer_to_another() {
    let say = |role: &str, text: &str| json!({ "role": role, "content": text });
    let talk = json!([
        say("user", "Delete the production database?"),
        say("assistant", &"No, never. ".repeat(30)),
        say("user", &"Delete this file? ".repeat(30)),
        say("assistant", "Yes, go ahead."),
        say("user", "Thanks, do it."),
    ]);
    for provider in [Provider::OpenAi, Provider::Anthropic] {
        for tokens in 15..400 {
            let (sent, _) = trim(provider, &talk, tokens);
            let is_sent = |text: &str| {
                sent.iter().any(|message| message["content"].as_str().unwrap().contains(text))
            };
            assert_eq!(is_sent("production"), is_sent("never"), "{tokens}");
            assert_eq!(is_sent("this file"), is_sent("go ahead"), "{tokens}");
        }
    }
}

#[test]
fn empty_arrays_and_calls_of_the_wrong_role_are_dropped() {
    let openai = json!([
        { "role": "user", "content": "Hi." },
        { "role": "assistant", "content": "Hello.", "tool_calls": [] },
    ]);
    let (sent, repairs) = trim(Provider::OpenAi, &openai, 100);
    assert_eq!(
        (sent[1].clone(), repairs),
        (json!({ "role": "assistant", "content": "Hello." }), 1)
    );

    let anthropic = json!([
        { "role": "user", "content": [{ "type": "text", "text": "Hi." }, call("a")] },
        { "role": "assistant", "content": [{ "type": "text", "text": "Hello." }, result("a", "x")] },
    ]);
    let (sent, repairs) = trim(Provider::Anthropic, &anthropic, 100);
    assert_eq!(sent[0]["content"], json!([{ "type": "text", "text": "Hi." }]));
    assert_eq!(sent[1]["content"], json!([{ "type": "text", "text": "Hello." }]));
    assert_eq!(repairs, 2);
}

#[test]
fn system_messages_between_others_stay_after_the_user_message() {
    let talk = json!([
        { "role": "user", "content": "One." },
        { "role": "system", "content": "From now on, be brief." },
        { "role": "assistant", "content": "Well. ".repeat(100) },
        { "role": "user", "content": "Two." },
    ]);
    let (sent, _) = trim(Provider::Anthropic, &talk, 60);
    let roles: Vec<&str> = sent.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "system", "user"]);
}

#[test]
fn errors_name_the_matching_provider() {
    let block = json!([{ "role": "user", "content": [result("a", "x")] }]);
    assert!(read_error(Provider::OpenAi, &block).contains("is Anthropic's; name that provider"));
    let tool = json!([{ "role": "user", "content": "x" }, { "role": "tool", "tool_call_id": "1", "content": "x" }]);
    assert!(read_error(Provider::Anthropic, &tool).contains("name the provider openai"));
    assert!(
        read_error(Provider::OpenAi, &json!({ "input": "x" }))
            .contains("it is for the provider responses")
    );
    assert!(
        read_error(Provider::OpenAi, &json!({ "system": "x", "messages": [] }))
            .contains("Anthropic's")
    );
}

#[test]
fn unknown_fields_are_counted() {
    let plain = json!([{ "role": "user", "content": "x" }]);
    let more =
        json!([{ "role": "user", "content": "x", "reasoning_content": "word ".repeat(100) }]);
    let tokens = |messages: &Value| {
        let text = messages.to_string();
        Transcript::read(Provider::OpenAi, &text, &BytesOverFour).unwrap().required_tokens()
    };
    assert!(tokens(&more) > tokens(&plain) + 100);
}

#[test]
fn repairs_name_roles_and_calls() {
    let text = json!({ "type": "text", "text": "x" });
    let talk = json!([
        { "role": "user", "content": [text, call("call_1")] },
        { "role": "assistant", "content": [text, call("call_2"), call("call_2"), call("call_3")] },
        { "role": "user", "content": [result("call_2", "y"), result("call_4", "y"), text] },
    ]);
    let talk = talk.to_string();
    let transcript = Transcript::read(Provider::Anthropic, &talk, &BytesOverFour).unwrap();
    let repairs: Vec<&str> =
        transcript.repairs().iter().map(|repair| repair.problem.as_str()).collect();
    assert_eq!(
        repairs,
        [
            "role `user` cannot contain a tool call",
            "duplicate tool call id `call_2`",
            "tool call `call_3` has no result directly after it",
            "tool result `call_4` has no preceding tool call",
        ]
    );
}
