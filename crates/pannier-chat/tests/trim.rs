//! Invariants of trimming, for valid, damaged and arbitrary transcripts: the provider accepts the output, the budget and the
//! order hold, and the output contains only input.

mod support;

use pannier_chat::{ChatError, ChatInput, LogFormat, Provider, SessionLog, Transcript, Trimmer};
use pannier_core::ContextBudget;
use pannier_core::report::{ExclusionVariant, InclusionReason};
use pannier_policy::PolicyRegistry;
use pannier_tokens::BytesOverFour;
use proptest::prelude::*;
use serde_json::{Value, json};
use support::rules::{self, problems};
use support::transcripts::{damaged, valid};

fn library_provider(provider: rules::Provider) -> Provider {
    match provider {
        rules::Provider::OpenAi => Provider::OpenAi,
        rules::Provider::Anthropic => Provider::Anthropic,
        rules::Provider::Responses => Provider::Responses,
        rules::Provider::Gemini => Provider::Gemini,
    }
}

fn trimmer<'s, 't>(transcript: &'s Transcript<'t>, policy: &str) -> Trimmer<'s, 't> {
    let registry = PolicyRegistry::default();
    transcript.trimmer(&registry, registry.policy(policy).unwrap(), None).unwrap()
}

fn budget(tokens: i64, reserve: i64) -> ContextBudget {
    let budget = ContextBudget::builder(tokens, tokens - reserve).output_reserve(reserve);
    budget.build().unwrap()
}

fn messages(value: &Value) -> &[Value] {
    let list = LISTS.iter().find_map(|name| value.get(name)).unwrap_or(value);
    list.as_array().map_or(std::slice::from_ref(list), Vec::as_slice)
}

/// The fields of requests that have the messages.
const LISTS: [&str; 3] = ["messages", "input", "contents"];

/// Splits a message into its role, every part and every other field. An empty tool result gets its placeholder.
fn pieces(message: &Value) -> Vec<Value> {
    let text = |text: &str| json!({ "type": "text", "text": text });
    let Some(fields) = message.as_object() else {
        return vec![message.clone()];
    };
    let mut pieces = vec![json!({ "speaker": message["role"] })];
    let mut parts = Vec::new();
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("role", _) | ("content", Value::Null) => {}
            ("content", Value::String(content)) => parts.push(text(content)),
            ("content" | "parts", Value::Array(content)) => parts.extend(content.iter().cloned()),
            ("tool_calls", Value::Array(calls)) => pieces.extend(calls.iter().cloned()),
            _ => pieces.push(json!({ key: value })),
        }
    }
    parts.retain(|part| part["text"] != "" || part["thoughtSignature"].is_string());
    if parts.is_empty() && ["tool", "function"].iter().any(|role| message["role"] == **role) {
        parts.push(text("(no output)"));
    }
    pieces.extend(parts);
    pieces
}

/// Returns whether the output contains only input, in the same order unless parts were moved.
fn contains_only_input(sent: &[Value], input: &[Value], is_moved: bool) -> bool {
    let (sent, mut input) = (sent.iter().flat_map(pieces), input.iter().flat_map(pieces));
    if !is_moved {
        return sent.into_iter().all(|piece| input.any(|other| other == piece));
    }
    let mut remaining: Vec<Value> = input.collect();
    sent.into_iter().all(|piece| {
        let position = remaining.iter().position(|other| *other == piece);
        position.map(|position| remaining.swap_remove(position)).is_some()
    })
}

/// Returns the rules that the output breaks. Nobody can restore reasoning that the input lacks.
fn new_problems(provider: rules::Provider, sent: &Value, input: &Value) -> Vec<String> {
    let lacks_reasoning = |problem: &String| problem.contains("without its reasoning");
    let is_given = problems(provider, input).iter().any(lacks_reasoning);
    let found = problems(provider, sent).into_iter();
    found.filter(|problem| !(is_given && lacks_reasoning(problem))).collect()
}

fn check(
    provider: rules::Provider,
    value: &Value,
    share: f64,
    reserve: i64,
    policy: &str,
) -> Result<(), TestCaseError> {
    let text = serde_json::to_string_pretty(value).unwrap();
    let transcript = match Transcript::read(library_provider(provider), &text, &BytesOverFour) {
        Ok(transcript) => transcript,
        Err(ChatError::NothingToSend { .. }) => return Ok(()),
        Err(error) => panic!("{error}"),
    };
    let trimmer = trimmer(&transcript, policy);
    let all: i64 = transcript.items().iter().map(pannier_core::ContextItem::tokens).sum();
    let tokens = ((all + 3) as f64 * share) as i64 + reserve;
    let limit = tokens - reserve;
    let trimmed = match trimmer.trim(&budget(tokens, reserve)) {
        Ok(trimmed) => trimmed,
        Err(ChatError::OverBudget { required_tokens, smallest_budget, .. }) => {
            prop_assert!(required_tokens > limit);
            prop_assert!(trimmer.trim(&budget(smallest_budget - 1, reserve)).is_err());
            let trimmed = trimmer.trim(&budget(smallest_budget, reserve)).unwrap();
            let sent: Value = serde_json::from_str(&trimmed.json()).unwrap();
            prop_assert_eq!(new_problems(provider, &sent, value), Vec::<String>::new());
            return Ok(());
        }
        Err(error) => panic!("{error}"),
    };
    let sent: Value = serde_json::from_str(&trimmed.json()).unwrap();
    prop_assert_eq!(new_problems(provider, &sent, value), Vec::<String>::new(), "{}", sent);

    // The budget holds, and the ledger adds up.
    let selection = trimmed.selection();
    let ledger = selection.ledger();
    prop_assert!(ledger.sent() <= limit);
    prop_assert_eq!(ledger.sent(), 3 + selection.tokens());
    prop_assert_eq!(ledger.merge_adjustment, 0);
    prop_assert_eq!(
        ledger.window,
        ledger.output_reserve + ledger.fixed + ledger.framing + ledger.items + ledger.unused
    );

    // The output contains only input, in order. Other fields of a request are unchanged.
    let is_moved = transcript.repairs().iter().any(|repair| {
        repair.problem.contains("joined") || repair.problem.contains("before the other")
    });
    prop_assert!(
        contains_only_input(messages(&sent), messages(value), is_moved),
        "{} of {}",
        sent,
        value
    );
    if problems(provider, value).is_empty() && transcript.repairs().is_empty() {
        let mut input = messages(value).iter();
        prop_assert!(messages(&sent).iter().all(|message| input.any(|other| other == message)));
    }
    if let (Value::Object(sent), Value::Object(input)) = (&sent, value) {
        for (key, field) in input.iter().filter(|(key, _)| !LISTS.contains(&key.as_str())) {
            prop_assert!(sent.get(key) == Some(field) || key == "system", "{}", key);
        }
    }

    // What was sent needs no repair, and fits again as it is. Messages that are now adjacent may be joined.
    let text = trimmed.json();
    let again = Transcript::read(library_provider(provider), &text, &BytesOverFour).unwrap();
    if !again.repairs().iter().any(|repair| repair.problem.contains("joined")) {
        prop_assert_eq!(again.repairs(), []);
        let trimmer = self::trimmer(&again, policy);
        prop_assert_eq!(trimmer.trim(&budget(tokens, reserve)).unwrap().json(), text.clone());
    }

    // The system prompt and the last user message are sent.
    let report = selection.report();
    for entry in &report.excluded {
        prop_assert!(!entry.item.is_pinned(), "{:?}", entry);
    }
    prop_assert!(report.included.iter().any(|entry| entry.reason == InclusionReason::Pinned));
    // Valid input is neither repaired nor rejected, and sent in full if it fits. The exception is `function_call` without a
    // result, which the provider accepts and the trimmer rejects.
    let has_function_calls =
        messages(value).iter().any(|message| message.get("function_call").is_some());
    if problems(provider, value).is_empty() && !has_function_calls {
        let is_merge = |repair: &pannier_chat::Repair| repair.problem.contains("joined");
        prop_assert!(transcript.repairs().iter().all(is_merge), "{:?}", transcript.repairs());
        let is_rejected = |entry: &&pannier_core::report::ExcludedItem<_>| {
            entry.reason.variant() == ExclusionVariant::RejectedByFormat
                && entry.reason.to_string().contains("call")
        };
        prop_assert_eq!(report.excluded.iter().find(is_rejected), None);
        if share >= 1.0 && transcript.repairs().is_empty() {
            prop_assert_eq!(&sent, value);
        }
    }
    Ok(())
}

fn providers() -> impl Strategy<Value = rules::Provider> {
    prop::sample::select(rules::Provider::ALL.to_vec())
}

fn policies() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["transcript", "transcript", "chat", "rag", "document-qa"])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn accepted_transcripts_stay_accepted(
        (provider, value) in providers().prop_flat_map(|provider| (Just(provider), valid(provider, 1..8))),
        share in prop_oneof![Just(1.0), 0.0..1.0],
        reserve in 0..50_i64,
        policy in policies(),
    ) {
        check(provider, &value, share, reserve, policy)?;
    }

    #[test]
    fn damaged_transcripts_are_repaired_and_accepted(
        (provider, value) in providers().prop_flat_map(|provider| (Just(provider), damaged(provider, 1..8))),
        share in prop_oneof![Just(1.0), 0.0..1.0],
        reserve in 0..50_i64,
        policy in policies(),
    ) {
        check(provider, &value, share, reserve, policy)?;
    }

    #[test]
    fn arbitrary_lines_never_panic(values in prop::collection::vec(any_json(), 0..8)) {
        let text: String = values.iter().map(|value| format!("{value}\n")).collect();
        for format in [LogFormat::ClaudeCode, LogFormat::Codex] {
            if let Ok(log) = SessionLog::read(format, &text) {
                for history in log.histories {
                    serde_json::from_str::<Value>(&history.json).unwrap();
                }
            }
        }
        if let Ok(input) = ChatInput::open(&text, None, None) {
            let _ = input.read(&BytesOverFour);
        }
    }

    #[test]
    fn arbitrary_json_never_panics(value in any_json(), provider in providers()) {
        let text = value.to_string();
        if let Ok(transcript) = Transcript::read(library_provider(provider), &text, &BytesOverFour) {
            let trimmer = trimmer(&transcript, "transcript");
            if let Ok(trimmed) = trimmer.trim(&budget(1_000, 0)) {
                serde_json::from_str::<Value>(&trimmed.json()).unwrap();
            }
        }
    }
}

/// Arbitrary JSON with the keys and words of transcripts.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "user",
        "assistant",
        "tool",
        "text",
        "tool_use",
        "tool_result",
        "image",
        "document",
        "function",
        "model",
        "reasoning",
        "function_call",
        "function_call_output",
        "response_item",
        "compacted",
        "a",
        "",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3_i32).prop_map(Value::from),
        word.prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "role",
        "content",
        "type",
        "text",
        "id",
        "tool_use_id",
        "tool_call_id",
        "tool_calls",
        "messages",
        "system",
        "tools",
        "source",
        "input",
        "function",
        "name",
        "arguments",
        "refusal",
        "contents",
        "parts",
        "functionCall",
        "functionResponse",
        "call_id",
        "output",
        "message",
        "payload",
        "uuid",
        "parentUuid",
    ]);
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..6).prop_map(|fields| fields
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect()),
        ]
    })
}

#[test]
fn ten_thousand_messages_are_trimmed_and_accepted() {
    let mut list = vec![json!({ "role": "system", "content": "You are a clerk." })];
    for turn in 0..2_000 {
        let ids = [format!("call_{turn}_a"), format!("call_{turn}_b")];
        let call = |id: &str| json!({ "id": id, "type": "function", "function": { "name": "look", "arguments": "{}" } });
        list.push(json!({ "role": "user", "content": format!("Question {turn}") }));
        list.push(json!({ "role": "assistant", "content": null, "tool_calls": [call(&ids[0]), call(&ids[1])] }));
        list.push(json!({ "role": "tool", "tool_call_id": ids[1], "content": "long ".repeat(turn % 50 + 1) }));
        list.push(json!({ "role": "tool", "tool_call_id": ids[0], "content": "short" }));
        list.push(json!({ "role": "assistant", "content": format!("Answer {turn}") }));
    }
    check(rules::Provider::OpenAi, &Value::from(list), 0.25, 100, "transcript").unwrap();
}
