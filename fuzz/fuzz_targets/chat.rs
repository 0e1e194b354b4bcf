//! A chat is foreign: no content may make reading it panic, and what is written back must be JSON, within the
//! budget, and stay as it is when it is read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pannier_chat::replay::{BlockReader, RecordedSession};
use pannier_chat::{
    ChatError, ChatInput, ChatSession, LogFormat, Provider, SessionLog, Transcript,
};
use pannier_core::{ContextBudget, ContextItem};
use pannier_policy::{PolicyRegistry, SessionOptions};
use pannier_tokens::BytesOverFour;

fuzz_target!(|text: &str| {
    for format in [LogFormat::ClaudeCode, LogFormat::Codex] {
        read_log(format, text);
    }
    // A recorded session may be damaged, too.
    let _ = RecordedSession::read("session", text, &mut BlockReader::new(&BytesOverFour));
    // The format is detected, or each provider is named.
    let providers = [Provider::OpenAi, Provider::Anthropic, Provider::Responses, Provider::Gemini];
    for provider in providers.into_iter().map(Some).chain([None]) {
        let Ok(input) = ChatInput::open(text, provider, None) else {
            continue;
        };
        let Ok(transcript) = input.read(&BytesOverFour) else {
            continue;
        };
        check_values(input.text(), &transcript);
        // Half of what is more than must be sent.
        let needed = transcript.required_tokens();
        let all: i64 = transcript.items().iter().map(ContextItem::tokens).sum();
        for tokens in [0, needed, needed + (all - needed).max(0) / 2, all + needed] {
            check(input.provider(), &transcript, tokens);
            check_session(input.provider(), &transcript, tokens);
        }
        let mut pinned = transcript;
        let middle = pinned.items().len() / 2;
        if pinned.pin(middle).is_ok() {
            check_session(input.provider(), &pinned, needed + (all - needed).max(0) / 2);
        }
    }
});

/// Messages are split and written by this project's own code: a parser must find the same values in what is sent whole.
fn check_values(text: &str, transcript: &Transcript<'_>) {
    let is_rejected = |item| transcript.rejection(item).is_some();
    if !transcript.repairs().is_empty() || (0..transcript.items().len()).any(is_rejected) {
        return;
    }
    // Numbers that no parser can hold, and lone surrogates, pass unread.
    let Ok(given) = serde_json::from_str(text.trim_start_matches('\u{feff}')) else { return };
    let all: i64 = transcript.items().iter().map(ContextItem::tokens).sum();
    let registry = PolicyRegistry::default();
    let policy = registry.policy("transcript").unwrap();
    let trimmer = transcript.trimmer(&registry, policy, None).unwrap();
    let budget = ContextBudget::new(2 * all + 1_000, 2 * all + 1_000).unwrap();
    let sent = serde_json::from_str(&trimmer.trim(&budget).unwrap().json()).unwrap();
    let list = |value: serde_json::Value| {
        let names = ["messages", "input", "contents"];
        names.iter().find_map(|name| value.get(name)).unwrap_or(&value).clone()
    };
    assert_eq!(list(sent), list(given));
}

/// A history is JSON that needs no repair of calls and results, and its responses are where its requests say.
fn read_log(format: LogFormat, text: &str) {
    let Ok(log) = SessionLog::read(format, text) else {
        return;
    };
    for history in &log.histories {
        let value: serde_json::Value = serde_json::from_str(&history.json).unwrap();
        let list = value.get("messages").or_else(|| value.get("input")).unwrap();
        for request in &history.requests {
            assert!(request.position < list.as_array().unwrap().len());
        }
        let Ok(transcript) = Transcript::read(log.provider, &history.json, &BytesOverFour) else {
            continue;
        };
        for repair in transcript.repairs() {
            assert!(!repair.problem.contains("no preceding tool call"), "{}", repair.problem);
            assert!(!repair.problem.contains("no result"), "{}", repair.problem);
        }
    }
}

/// A session sends what fits and needs no repair, or names a budget that suffices. Each cut block can be recalled.
fn check_session(provider: Provider, transcript: &Transcript<'_>, tokens: i64) {
    let session = ChatSession::new(SessionOptions::default(), &BytesOverFour);
    let budget = |tokens| ContextBudget::new(tokens, tokens).unwrap();
    let (fitted, limit) = match session.fit(transcript, &budget(tokens)) {
        Ok(fitted) => (fitted, tokens),
        Err(ChatError::SessionOverBudget { smallest_budget, .. }) => {
            (session.fit(transcript, &budget(smallest_budget)).unwrap(), smallest_budget)
        }
        Err(error) => panic!("{error}"),
    };
    assert!(fitted.tokens() <= limit);
    let sent = fitted.json();
    for cut in fitted.cuts() {
        assert!(sent.contains(&cut.id) && transcript.recall(&cut.id).is_some(), "{cut:?}");
    }
    let mut stepwise = ChatSession::new(SessionOptions::default(), &BytesOverFour);
    for _ in 0..2 {
        assert_eq!(stepwise.step(transcript, &budget(limit)).unwrap().json(), sent);
    }
    let marked = fitted.json_with_cache_control();
    Transcript::read(provider, &marked, &BytesOverFour).unwrap();
    let again = Transcript::read(provider, &sent, &BytesOverFour).unwrap();
    if !again.repairs().iter().any(|repair| repair.problem.contains("joined")) {
        assert_eq!(again.repairs(), []);
    }
}

fn check(provider: Provider, transcript: &Transcript<'_>, tokens: i64) {
    let registry = PolicyRegistry::default();
    let policy = registry.policy("transcript").unwrap();
    let trimmer = transcript.trimmer(&registry, policy, None).unwrap();
    let budget = ContextBudget::new(tokens, tokens).unwrap();
    let trimmed = match trimmer.trim(&budget) {
        Ok(trimmed) => trimmed,
        Err(error) => {
            assert!(tokens < transcript.required_tokens(), "{error}");
            return;
        }
    };
    assert!(trimmed.selection().ledger().sent() <= tokens);
    let sent = trimmed.json();
    serde_json::from_str::<serde::de::IgnoredAny>(&sent).unwrap();

    // What was repaired needs no more repair, and fits again.
    let again = Transcript::read(provider, &sent, &BytesOverFour).unwrap();
    // What now stands side by side may be joined, and is then counted as one.
    if again.repairs().iter().any(|repair| repair.problem.contains("joined")) {
        return;
    }
    assert_eq!(again.repairs(), []);
    assert_eq!(again.items().len(), trimmed.selection().len());
    // Messages that are now adjacent may be one response, which is sent as a whole.
    assert!((transcript.required_tokens()..=tokens).contains(&again.required_tokens()));
    let trimmer = again.trimmer(&registry, policy, None).unwrap();
    assert_eq!(trimmer.trim(&budget).unwrap().json(), sent);
}
