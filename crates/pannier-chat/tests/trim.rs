//! Whatever comes in, what goes out is accepted by the provider, keeps the budget and the order, and is made of the
//! messages that came in.

mod support;

use pannier_chat::{ChatError, Format, Transcript};
use pannier_core::{ContextBudget, ExclusionVariant, InclusionReason, Pipeline, PolicyRegistry};
use pannier_tokens::BytesOverFour;
use proptest::prelude::*;
use serde_json::{Value, json};
use support::rules::{self, problems};
use support::transcripts::{damaged, valid};

fn of(format: rules::Format) -> Format {
    match format {
        rules::Format::OpenAi => Format::OpenAi,
        rules::Format::Anthropic => Format::Anthropic,
    }
}

fn pipeline(transcript: &Transcript<'_>, policy: &str) -> Pipeline {
    let registry = PolicyRegistry::default();
    transcript.pipeline(&registry, registry.policy(policy).unwrap(), None).unwrap()
}

fn budget(tokens: i64, reserve: i64) -> ContextBudget {
    let budget = ContextBudget::builder(tokens, tokens - reserve).output_reserve(reserve);
    budget.build().unwrap()
}

fn messages(value: &Value) -> &[Value] {
    let list = value.get("messages").unwrap_or(value);
    list.as_array().unwrap()
}

/// Whether a message could have come from another one, by leaving out parts of it.
fn is_part_of(small: &Value, large: &Value) -> bool {
    if small == large {
        return true;
    }
    let (Some(small), Some(large)) = (small.as_object(), large.as_object()) else {
        return false;
    };
    small.iter().all(|(key, value)| match (value, large.get(key)) {
        (value, Some(other)) if value == other => true,
        (Value::Array(parts), Some(Value::Array(others))) => {
            parts.iter().all(|part| others.contains(part))
        }
        // Empty words are written as none.
        (Value::Null, Some(_)) => key == "content",
        (Value::String(text), _) => key == "content" && text == "(no output)",
        _ => false,
    })
}

/// The order of the messages that went out, as places among those that came in.
fn places(sent: &[Value], given: &[Value]) -> Vec<usize> {
    let mut places = Vec::new();
    let mut from = 0;
    for message in sent {
        let found = (from..given.len()).find(|at| is_part_of(message, &given[*at]));
        let at = found.unwrap_or_else(|| panic!("{message} is not among what came, in order"));
        places.push(at);
        from = at + 1;
    }
    places
}

fn check(
    format: rules::Format,
    value: &Value,
    share: f64,
    reserve: i64,
    policy: &str,
) -> Result<(), TestCaseError> {
    let text = serde_json::to_string_pretty(value).unwrap();
    let transcript = match Transcript::read(of(format), &text, &BytesOverFour) {
        Ok(transcript) => transcript,
        Err(ChatError::NothingToSend { .. }) => return Ok(()),
        Err(error) => panic!("{error}"),
    };
    let pipeline = pipeline(&transcript, policy);
    let all: i64 = transcript.items().iter().map(pannier_core::ContextItem::tokens).sum();
    let tokens = ((all + 3) as f64 * share) as i64 + reserve;
    let limit = tokens - reserve;
    let trimmed = match transcript.trim(&pipeline, &budget(tokens, reserve)) {
        Ok(trimmed) => trimmed,
        Err(ChatError::OverBudget { needed_tokens, smallest_budget, .. }) => {
            prop_assert!(needed_tokens > limit);
            prop_assert!(
                transcript.trim(&pipeline, &budget(smallest_budget - 1, reserve)).is_err()
            );
            let trimmed = transcript.trim(&pipeline, &budget(smallest_budget, reserve)).unwrap();
            let sent: Value = serde_json::from_str(&trimmed.json()).unwrap();
            prop_assert_eq!(problems(format, &sent), Vec::<String>::new());
            return Ok(());
        }
        Err(error) => panic!("{error}"),
    };
    let sent: Value = serde_json::from_str(&trimmed.json()).unwrap();
    prop_assert_eq!(problems(format, &sent), Vec::<String>::new(), "{}", sent);

    // The budget holds, and the ledger adds up.
    let selection = trimmed.selection();
    let ledger = selection.ledger();
    prop_assert!(ledger.sent() <= limit);
    prop_assert_eq!(ledger.sent(), 3 + selection.tokens());
    prop_assert_eq!(ledger.joins, 0);
    prop_assert_eq!(
        ledger.window,
        ledger.output_reserve + ledger.fixed + ledger.framing + ledger.items + ledger.slack
    );

    // What goes out is what came in, in its order; everything else of a request is untouched.
    let places = places(messages(&sent), messages(value));
    prop_assert!(places.is_sorted());
    if let (Value::Object(sent), Value::Object(given)) = (&sent, value) {
        for (key, field) in given.iter().filter(|(key, _)| *key != "messages") {
            prop_assert!(sent.get(key) == Some(field) || key == "system", "{}", key);
        }
    }

    // System and the user's last words are there.
    let report = selection.report();
    for entry in &report.excluded {
        prop_assert!(!entry.item.is_pinned(), "{:?}", entry);
    }
    prop_assert!(report.included.iter().any(|entry| entry.reason == InclusionReason::Pinned));
    // What was accepted when it came is not refused here, and all of it goes out if there is room. Only the old call
    // without an id is accepted without a result, and here it is not.
    let has_old_calls =
        messages(value).iter().any(|message| message.get("function_call").is_some());
    if problems(format, value).is_empty() && !has_old_calls {
        prop_assert_eq!(transcript.repairs(), &[]);
        let is_refused = |entry: &&pannier_core::ExcludedItem<_>| {
            entry.reason.variant() == ExclusionVariant::Refused
                && entry.reason.to_string().contains("call")
        };
        prop_assert_eq!(report.excluded.iter().find(is_refused), None);
        if share >= 1.0 {
            prop_assert_eq!(&sent, value);
        }
    }
    Ok(())
}

fn formats() -> impl Strategy<Value = rules::Format> {
    prop::sample::select(vec![rules::Format::OpenAi, rules::Format::Anthropic])
}

fn policies() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["transcript", "transcript", "chat", "rag", "document-qa"])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn accepted_transcripts_stay_accepted(
        (format, value) in formats().prop_flat_map(|format| (Just(format), valid(format, 1..8))),
        share in prop_oneof![Just(1.0), 0.0..1.0],
        reserve in 0..50_i64,
        policy in policies(),
    ) {
        // Only the policy for transcripts keeps messages that are equal.
        let policy = if share >= 1.0 { "transcript" } else { policy };
        check(format, &value, share, reserve, policy)?;
    }

    #[test]
    fn damaged_transcripts_become_accepted(
        (format, value) in formats().prop_flat_map(|format| (Just(format), damaged(format, 1..8))),
        share in prop_oneof![Just(1.0), 0.0..1.0],
        reserve in 0..50_i64,
        policy in policies(),
    ) {
        let policy = if share >= 1.0 { "transcript" } else { policy };
        check(format, &value, share, reserve, policy)?;
    }

    #[test]
    fn any_json_is_read_or_refused(value in any_json(), format in formats()) {
        let text = value.to_string();
        if let Ok(transcript) = Transcript::read(of(format), &text, &BytesOverFour) {
            let pipeline = pipeline(&transcript, "transcript");
            if let Ok(trimmed) = transcript.trim(&pipeline, &budget(1_000, 0)) {
                serde_json::from_str::<Value>(&trimmed.json()).unwrap();
            }
        }
    }
}

/// JSON that has something of a transcript.
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
    check(rules::Format::OpenAi, &Value::from(list), 0.25, 100, "transcript").unwrap();
}
