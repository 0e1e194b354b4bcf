//! Traces of sessions, against the referee's figures of the same replay.

use std::collections::BTreeMap;

use pannier_chat::ChatError;
use pannier_chat::replay::{
    BlockReader, Figures, FitSession, Prices, RecordedSession, SessionTrace, TracedTurn, replay,
};
use pannier_policy::SessionOptions;
use pannier_tokens::BytesOverFour;

const SESSION: &str = include_str!("../../../examples/session.json");

fn trace(budget: i64) -> (SessionTrace, Figures) {
    let mut reader = BlockReader::new(&BytesOverFour);
    let session = RecordedSession::read("session", SESSION, &mut reader).unwrap().remove(0);
    let step = || Ok::<(), ChatError>(());
    let options = SessionOptions::default();
    let mut policy = FitSession::new(options.clone(), &BytesOverFour, budget).unwrap();
    let figures = replay(&session, budget, &mut policy, &mut reader, step).unwrap();
    let policy = ("balanced", options);
    let trace =
        SessionTrace::new(&session, policy, budget, Prices::default(), &mut reader, step).unwrap();
    (trace, figures)
}

#[test]
fn sums_of_a_trace_are_the_figures_of_the_referee() {
    for budget in [500, 900, 1_200, 2_000, 100_000] {
        let (trace, figures) = trace(budget);
        let turns = &trace.turns;
        let sum = |of: fn(&TracedTurn) -> i64| turns.iter().map(of).sum::<i64>();
        assert_eq!(turns.len() as u64, figures.requests, "{budget}");
        assert_eq!(figures.read, sum(|turn| turn.read), "{budget}");
        assert_eq!(figures.written, sum(|turn| turn.written), "{budget}");
        let refused = turns.iter().filter(|turn| turn.refusal.is_some()).count();
        assert_eq!(figures.refused, refused as u64, "{budget}");
        let breaks = turns.iter().filter(|turn| turn.prefix_break.is_some()).count();
        assert_eq!(figures.prefix_edits, breaks as u64, "{budget}");
        let everything = Prices::default();
        let expected = everything.read * figures.everything_read as f64
            + everything.write * figures.everything_written as f64;
        if refused == 0 {
            assert!((trace.everything_price - expected).abs() < 1e-6, "{budget}");
        }
    }
}

#[test]
fn forms_of_a_turn_follow_from_the_changes_before_it() {
    let (trace, _) = trace(900);
    assert!(trace.turns.iter().any(|turn| turn.prefix_break.is_some()));
    let mut forms = BTreeMap::new();
    for turn in trace.turns.iter().filter(|turn| turn.refusal.is_none()) {
        for change in &turn.changes {
            assert!(change.block < turn.blocks);
            forms.insert(change.block, change.tokens);
        }
        let blocks = trace.blocks[..turn.blocks].iter().enumerate();
        let tokens: i64 =
            blocks.map(|(index, block)| forms.get(&index).copied().unwrap_or(block.tokens)).sum();
        // Messages have tokens of their own, and omitted turns a note.
        let messages = trace.blocks[..turn.blocks].last().unwrap().message as i64 + 1;
        assert!((turn.tokens - tokens).abs() <= 4 * messages + 60, "{} {tokens}", turn.tokens);
        assert_eq!(turn.tokens, turn.read + turn.written);
    }
}

#[test]
fn without_pressure_nothing_changes() {
    let (trace, _) = trace(100_000);
    for turn in &trace.turns {
        assert!(turn.changes.is_empty() && turn.prefix_break.is_none());
        assert_eq!((turn.tokens, turn.dropped), (turn.history, 0));
    }
    let json = serde_json::to_value(&trace).unwrap();
    assert_eq!((&json["session"], &json["name"]), (&1.into(), &"session".into()));
}

/// The documented JSON has the keys of the real one.
#[test]
fn documented_json_matches() {
    let page = include_str!("../../../docs/reference/json.md");
    let block = page.split("## Sessions").nth(1).unwrap().split("```json").nth(1).unwrap();
    let documented: serde_json::Value =
        serde_json::from_str(block.split("```").next().unwrap()).unwrap();
    let mut json = serde_json::to_value(trace(900).0).unwrap();
    let turns = json["turns"].as_array().unwrap();
    let broken = turns.iter().find(|turn| turn.get("break").is_some()).unwrap().clone();
    json["turns"] = serde_json::json!([broken]);
    let named = |block: &&serde_json::Value| block.get("name").is_some();
    let named = json["blocks"].as_array().unwrap().iter().find(named).unwrap().clone();
    json["blocks"] = serde_json::json!([named]);
    for path in ["", "/prices", "/blocks/0", "/turns/0", "/turns/0/break", "/turns/0/changes/0"] {
        let keys = |json: &serde_json::Value| -> Vec<String> {
            let mut keys: Vec<_> =
                json.pointer(path).unwrap().as_object().unwrap().keys().cloned().collect();
            keys.sort();
            keys
        };
        assert_eq!(keys(&json), keys(&documented), "{path}");
    }
}
