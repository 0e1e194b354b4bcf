//! Transcripts, cut to a quarter as single requests and as requests of a session, against counting their tokens once.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

use pannier_chat::{ChatSession, Provider, Transcript};
use pannier_core::{ContextBudget, ContextItem};
use pannier_policy::PolicyRegistry;
use pannier_tokens::{Exactness, TokenCounter, o200k};
use serde_json::{Value, json};

use crate::measure::{ratio, show, side_by_side};
use crate::tokens::prose_and_code;

pub(crate) fn run() {
    once();
    sessions();
}

fn once() {
    println!(
        "\nA chat of 10,000 messages, read, cut to a quarter of its tokens and written, against counting its"
    );
    println!("texts once (o200k).\n");
    println!("    format       MB     tokens      sent       trim      count   ratio");
    for provider in [Provider::OpenAi, Provider::Anthropic] {
        let text = transcript(provider, 2_000).to_string();
        let counter = o200k();
        let registry = PolicyRegistry::default();
        let policy = registry.policy("transcript").expect("a preset");
        let read = || Transcript::read(provider, &text, &counter).expect("a transcript");
        let whole = read();
        let tokens: i64 = whole.items().iter().map(ContextItem::tokens).sum();
        let budget = ContextBudget::new(tokens / 4, tokens / 4).expect("a budget");
        let trim = || {
            let transcript = read();
            let trimmer = transcript.trimmer(&registry, policy, None).expect("a trimmer");
            trimmer.trim(&budget).expect("a selection").json()
        };
        let trimmer = whole.trimmer(&registry, policy, None).expect("a trimmer");
        let trimmed = trimmer.trim(&budget).expect("a selection");
        let sent = trimmed.selection().ledger().sent();
        assert!(sent <= tokens / 4 && sent > tokens / 5, "{sent} of {tokens}");
        let texts: Vec<&str> = whole.items().iter().map(ContextItem::content).collect();
        let count = || texts.iter().map(|text| counter.count(text)).sum::<usize>();
        let (ours, floor) = side_by_side(trim, count);
        println!(
            "{:>10} {:>8.2} {tokens:>10} {sent:>9} {:>10} {:>10} {:>7.2}",
            provider.to_string(),
            text.len() as f64 / 1e6,
            show(ours),
            show(floor),
            ratio(ours, floor)
        );
    }
}

/// Fits the last request of a session from nothing, and the request after it when all before it is known.
fn sessions() {
    println!(
        "\nThe last request of a session, read, cut to a quarter of its tokens and written, against counting its"
    );
    println!(
        "texts once (o200k). 250 messages are a history of 100 requests. The next request, one turn longer, is read,"
    );
    println!("counted where its texts are new, and fitted after the one before it.\n");
    println!(
        "    format  messages       MB       fit      count   ratio   beyond counting   next request"
    );
    for provider in [Provider::OpenAi, Provider::Anthropic] {
        for turns in [50, 2_000] {
            let messages = transcript(provider, turns);
            let text = messages.to_string();
            let list = messages.as_array().expect("messages");
            // Up to the last question. The response to it follows.
            let before = Value::from(&list[..list.len() - 4]).to_string();
            let counter = o200k();
            let registry = PolicyRegistry::default();
            let policy = registry.policy("balanced").expect("a preset");
            let options = policy.session().expect("options of a session");
            let read = || Transcript::read(provider, &text, &counter).expect("a transcript");
            let whole = read();
            let tokens: i64 = whole.items().iter().map(ContextItem::tokens).sum();
            let budget = ContextBudget::new(tokens / 4, tokens / 4).expect("a budget");
            let session = ChatSession::new(options.clone(), &counter);
            let fit = || session.fit(&read(), &budget).expect("a request").json();
            let texts: Vec<&str> = whole.items().iter().map(ContextItem::content).collect();
            let count = || texts.iter().map(|text| counter.count(text)).sum::<usize>();
            let (ours, floor) = side_by_side(fit, count);
            let mut next = Vec::new();
            for _ in 0..5 {
                let counts = KnownCounts::new(&counter);
                let before = Transcript::read(provider, &before, &counts).expect("a transcript");
                let mut known = ChatSession::new(options.clone(), &counts);
                known.step(&before, &budget).expect("a request");
                let start = Instant::now();
                let last = Transcript::read(provider, &text, &counts).expect("a transcript");
                let json = known.step(&last, &budget).expect("a request").json();
                next.push(start.elapsed());
                assert_eq!(json, session.fit(&whole, &budget).expect("a request").json());
            }
            next.sort_unstable();
            println!(
                "{:>10} {:>9} {:>8.2} {:>9} {:>10} {:>7.2} {:>17} {:>14}",
                provider.to_string(),
                list.len(),
                text.len() as f64 / 1e6,
                show(ours),
                show(floor),
                ratio(ours, floor),
                show(ours.saturating_sub(floor)),
                show(next[2]),
            );
        }
    }
}

/// Counts each text once, as a program does that serves a session.
#[derive(Debug)]
struct KnownCounts<'c> {
    counter: &'c dyn TokenCounter,
    known: Mutex<HashMap<String, usize>>,
}

impl<'c> KnownCounts<'c> {
    fn new(counter: &'c dyn TokenCounter) -> Self {
        Self { counter, known: Mutex::default() }
    }
}

impl TokenCounter for KnownCounts<'_> {
    fn name(&self) -> &str {
        self.counter.name()
    }

    fn exactness(&self) -> Exactness {
        self.counter.exactness()
    }

    fn count(&self, text: &str) -> usize {
        if let Some(count) = self.known.lock().expect("no panic").get(text) {
            return *count;
        }
        let count = self.counter.count(text);
        self.known.lock().expect("no panic").insert(text.to_owned(), count);
        count
    }
}

/// Turns of five messages: a question, two calls at once, their results, an answer.
fn transcript(provider: Provider, turns: usize) -> Value {
    let pieces = prose_and_code();
    let mut pieces = pieces.iter().cycle();
    // No two texts are the same: equal ones would be counted once.
    let mut number = 0;
    let mut piece = |length: usize| -> String {
        number += 1;
        let text = pieces.next().expect("texts");
        format!("{number}. {}", text.chars().take(length).collect::<String>())
    };
    let mut list = Vec::new();
    for turn in 0..turns {
        let ids = [format!("call_{turn}_a"), format!("call_{turn}_b")];
        let (question, answer) = (piece(120), piece(400));
        let results = [piece(1_000), piece(700)];
        list.push(json!({ "role": "user", "content": question }));
        match provider {
            Provider::Anthropic => {
                let call = |id: &str| json!({ "type": "tool_use", "id": id, "name": "look", "input": { "turn": turn } });
                let result = |id: &str, text: &str| json!({ "type": "tool_result", "tool_use_id": id, "content": text });
                list.push(json!({ "role": "assistant", "content": [call(&ids[0])] }));
                list.push(json!({ "role": "user", "content": [result(&ids[0], &results[0])] }));
                list.push(json!({ "role": "assistant", "content": [call(&ids[1])] }));
                list.push(json!({ "role": "user", "content": [result(&ids[1], &results[1]), { "type": "text", "text": answer }] }));
            }
            _ => {
                let call = |id: &str| json!({ "id": id, "type": "function", "function": { "name": "look", "arguments": "{}" } });
                list.push(json!({ "role": "assistant", "content": null, "tool_calls": [call(&ids[0]), call(&ids[1])] }));
                list.push(json!({ "role": "tool", "tool_call_id": ids[1], "content": results[1] }));
                list.push(json!({ "role": "tool", "tool_call_id": ids[0], "content": results[0] }));
                list.push(json!({ "role": "assistant", "content": answer }));
            }
        }
    }
    list.into()
}
