//! The referee on a small session.
//!
//! The expected numbers come from an independent script with the same definitions, which counted `examples/session.json`
//! with the library tiktoken (o200k_base).

use std::convert::Infallible;

use pannier_chat::replay::{
    BlockReader, Everything, Figures, FitSession, OldestFirst, Prices, RecordedSession,
    ReplayMessage, ReplayPolicy, Summary, replay, request_json,
};
use pannier_policy::SessionOptions;
use pannier_tokens::{BytesOverFour, o200k};
use proptest::prelude::*;
use serde_json::json;

const SESSION: &str = include_str!("../../../examples/session.json");

fn figures(budget: i64, policy: &mut dyn ReplayPolicy) -> Figures {
    let counter = o200k();
    let mut reader = BlockReader::new(&counter);
    let session = RecordedSession::read("session", SESSION, &mut reader).unwrap().remove(0);
    let step = || Ok::<(), Infallible>(());
    replay(&session, budget, policy, &mut reader, step).unwrap()
}

fn cost(read: i64, written: i64) -> f64 {
    (0.1 * read as f64 + 1.25 * written as f64).abs()
}

#[test]
fn figures_of_simple_policies_agree_with_an_independent_script() {
    let mut everything = Everything;
    let mut just_enough = OldestFirst::new(1_200, 1.0);
    let mut oldest = OldestFirst::new(1_200, 0.5);
    let policies: [&mut dyn ReplayPolicy; 3] = [&mut everything, &mut just_enough, &mut oldest];
    // Cost, tokens sent, cost of recalls, lost needles, lost hard needles, prefix edits, most rewritten tokens.
    let expected = [
        (4_180.5, 13_676, 0.0, 0, 0, 0, 0),
        (6_141.0, 8_487, 3_850.2, 11, 11, 4, 655),
        (3_868.05, 7_205, 4_224.5, 13, 13, 2, 153),
    ];
    for (policy, expected) in policies.into_iter().zip(expected) {
        let (expected, sent, recalls, lost, lost_hard, edits, rewritten) = expected;
        let figures = figures(1_200, policy);
        assert!((cost(figures.read, figures.written) - expected).abs() < 1e-6, "{figures:?}");
        let everything = cost(figures.everything_read, figures.everything_written);
        assert!((everything - 4_180.5).abs() < 1e-6, "{figures:?}");
        assert!((cost(figures.recall_read, figures.recall_written) - recalls).abs() < 1e-6);
        assert_eq!(figures.read + figures.written, sent);
        assert_eq!((figures.requests, figures.requests_over_budget), (10, 6));
        assert_eq!((figures.needles, figures.hard_needles), (22, 14));
        assert_eq!((figures.lost_needles, figures.lost_hard_needles), (lost, lost_hard));
        assert_eq!(figures.recallable, lost);
        assert_eq!((figures.prefix_edits, figures.max_rewritten_tokens), (edits, rewritten));
        assert_eq!((figures.task_kept, figures.edits_kept), (6, 6));
        assert_eq!((figures.overruns, figures.invalid, figures.refused), (0, 0, 0));
        assert_eq!(figures.changed_without_pressure, 0);
    }
    let summary =
        Summary::new([&figures(1_200, &mut OldestFirst::new(1_200, 0.5))], Prices::default());
    assert_eq!(format!("{:.3} {:.3}", summary.cost, summary.cost_with_recalls), "0.925 1.936");
    assert_eq!(format!("{:.3} {:.3}", summary.needles, summary.hard_needles), "0.409 0.071");
    assert_eq!(format!("{:.3} {}", summary.lossy_requests, summary.max_lost_needles), "0.833 4");
}

#[test]
fn the_clairvoyant_order_keeps_what_is_used_next() {
    // Sixteen results of one kind and size. The answer has a name of the oldest, which is cut first.
    let mut messages = vec![json!({ "role": "user", "content": "Compare the files." })];
    for file in 0..16 {
        let input = json!({ "path": format!("file_{file}.rs") });
        let call =
            json!({ "type": "tool_use", "id": format!("c{file}"), "name": "read", "input": input });
        messages.push(json!({ "role": "assistant", "content": [call] }));
        let text =
            format!("let value_{file} = {file};\n{}", "the sea is calm and warm\n".repeat(30));
        let result =
            json!({ "type": "tool_result", "tool_use_id": format!("c{file}"), "content": text });
        messages.push(json!({ "role": "user", "content": [result] }));
    }
    messages.push(json!({ "role": "assistant", "content": "It is value_0." }));
    let text = json!(messages).to_string();
    let counter = o200k();
    let mut reader = BlockReader::new(&counter);
    let session = RecordedSession::read("session", &text, &mut reader).unwrap().remove(0);
    let policy = || FitSession::new(SessionOptions::default(), &counter, 3_000).unwrap();
    let mut figures = |mut policy: FitSession<'_>| {
        replay(&session, 3_000, &mut policy, &mut reader, || Ok::<(), Infallible>(())).unwrap()
    };
    let (plain, clairvoyant) = (figures(policy()), figures(policy().with_clairvoyance(&session)));
    assert_eq!((plain.hard_needles, clairvoyant.hard_needles), (1, 1));
    assert_eq!((plain.hard_needles_in_line, clairvoyant.hard_needles_in_line), (0, 1));
    assert_eq!((plain.overruns, clairvoyant.overruns), (0, 0));
    assert_eq!(plain.prefix_edits, clairvoyant.prefix_edits);
}

/// A policy whose recall returns something else for every id.
struct WrongRecall<'c>(FitSession<'c>);

impl ReplayPolicy for WrongRecall<'_> {
    fn fit(
        &mut self,
        history: &[ReplayMessage],
        reader: &mut BlockReader<'_>,
    ) -> Result<Vec<ReplayMessage>, String> {
        self.0.fit(history, reader)
    }

    fn recall(&self, history: &[ReplayMessage], ids: &[&str]) -> Option<Vec<Option<String>>> {
        let contents = self.0.recall(history, ids)?;
        Some(contents.into_iter().map(|content| Some(content? + ".")).collect())
    }
}

#[test]
fn a_recall_gives_back_exactly_what_was_cut() {
    // Without calls, whole turns are left out, and one id in the task names them.
    let mut chat = vec![json!({ "role": "user", "content": "Explain the parts of the system." })];
    for part in 0..24 {
        let answer = format!("section_{part:02}_code does this. {}", "It is simple. ".repeat(40));
        chat.push(json!({ "role": "assistant", "content": answer }));
        chat.push(json!({ "role": "user", "content": format!("And the one after {part}?") }));
    }
    chat.push(
        json!({ "role": "assistant", "content": "As section_01_code and section_02_code do." }),
    );
    let (chat, counter) = (json!(chat).to_string(), o200k());
    for (text, budget) in [(chat.as_str(), 600), (SESSION, 1_200), (SESSION, 700)] {
        let mut reader = BlockReader::new(&counter);
        let session = RecordedSession::read("session", text, &mut reader).unwrap().remove(0);
        let policy = || FitSession::new(SessionOptions::default(), &counter, budget).unwrap();
        let mut figures = |policy: &mut dyn ReplayPolicy| {
            replay(&session, budget, policy, &mut reader, || Ok::<(), Infallible>(())).unwrap()
        };
        let (right, wrong) = (figures(&mut policy()), figures(&mut WrongRecall(policy())));
        assert!(right.lost_needles > 0, "{right:?}");
        assert_eq!((right.recallable, wrong.recallable), (right.lost_needles, 0));
    }
}

/// Drops the first messages, refuses the last request, and counts requests.
struct LastMessages(usize);

impl ReplayPolicy for LastMessages {
    fn fit(
        &mut self,
        history: &[ReplayMessage],
        _: &mut BlockReader<'_>,
    ) -> Result<Vec<ReplayMessage>, String> {
        self.0 += 1;
        match self.0 {
            10 => Err("no more".to_owned()),
            _ => Ok(history[history.len().saturating_sub(4)..].to_vec()),
        }
    }
}

#[test]
fn faults_refusals_and_overruns_are_counted() {
    let figures = figures(300, &mut LastMessages(0));
    // The second request has three messages; all later ones start with the assistant.
    assert_eq!(figures.faults["first message is not the user"], figures.invalid);
    assert_eq!(figures.invalid, 7);
    assert_eq!((figures.refused, figures.refusal.as_deref()), (1, Some("no more")));
    assert!(figures.overruns > 0 && figures.overrun_tokens > 0);
    // Every history over 300 tokens has more than four messages, so the task is gone.
    assert_eq!(figures.task_kept, 0);
    // No request starts with the previous one, once a message was dropped.
    assert_eq!(figures.prefix_edits, 7);
}

/// Sends the task and the names of everything, but no lines.
struct NamesOnly;

impl ReplayPolicy for NamesOnly {
    fn fit(
        &mut self,
        history: &[ReplayMessage],
        reader: &mut BlockReader<'_>,
    ) -> Result<Vec<ReplayMessage>, String> {
        let texts = history.iter().flat_map(|message| &message.blocks).map(|block| &block.text);
        let names = texts.flat_map(|text| text.split_whitespace()).collect::<Vec<_>>().join(" ");
        let mut sent = history[..1].to_vec();
        sent[0].blocks.push(reader.text(&names));
        Ok(sent)
    }
}

#[test]
fn names_without_their_lines_are_counted_apart() {
    let (names, all) = (figures(1_200, &mut NamesOnly), figures(1_200, &mut Everything));
    assert_eq!((names.lost_needles, names.hard_needles_in_line), (0, 0));
    assert_eq!((all.needles_in_line, all.hard_needles_in_line), (22, 14));
}

#[test]
fn a_change_below_the_pressure_point_is_counted() {
    // The whole session is below half of this budget, so the seven requests that lack messages count.
    assert_eq!(figures(6_000, &mut LastMessages(0)).changed_without_pressure, 7);
    assert_eq!(figures(6_000, &mut OldestFirst::new(6_000, 0.5)).changed_without_pressure, 0);
}

/// Writes the request in another style: indented, with sorted keys.
struct OtherStyle;

impl ReplayPolicy for OtherStyle {
    fn fit(
        &mut self,
        history: &[ReplayMessage],
        _: &mut BlockReader<'_>,
    ) -> Result<Vec<ReplayMessage>, String> {
        let request: serde_json::Value = serde_json::from_str(&request_json(history)).unwrap();
        // A reader of its own, so nothing is looked up.
        let counter = o200k();
        let messages = BlockReader::new(&counter).read_request(&format!("{request:#}")).unwrap();
        Ok(messages)
    }
}

#[test]
fn another_style_of_json_is_no_change() {
    let (styled, everything) = (figures(6_000, &mut OtherStyle), figures(6_000, &mut Everything));
    assert_eq!((styled.changed_without_pressure, styled.prefix_edits), (0, 0));
    assert_eq!(styled.read, everything.read);
    // Sorted keys are other tokens of a call, but nearly as many.
    assert!((styled.written - everything.written).abs() < 20, "{styled:?}");
}

const ANTHROPIC: &str = r#"{"messages":[
    {"role":"user","content":"go"},
    {"role":"assistant","content":[{"type":"text","text":"I read."},
        {"type":"tool_use","id":"a","name":"Read","input":{"path":"a.rs"}}]},
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"fn main"}]},
    {"role":"assistant","content":"done"}]}"#;

const OPENAI: &str = r#"[
    {"role":"system","content":"You are careful."},
    {"role":"user","content":"go"},
    {"role":"assistant","content":"I read.","tool_calls":[{"id":"a","type":"function",
        "function":{"name":"Read","arguments":"{\"path\": \"a.rs\"}"}}]},
    {"role":"tool","tool_call_id":"a","content":"fn main"},
    {"role":"assistant","content":"done"}]"#;

const RESPONSES: &str = r#"{"instructions":"You are careful.","input":[
    {"role":"user","content":"go"},
    {"type":"message","role":"assistant","content":[{"type":"output_text","text":"I read."}]},
    {"type":"function_call","call_id":"a","name":"Read","arguments":"{\"path\": \"a.rs\"}"},
    {"type":"function_call_output","call_id":"a","output":"fn main"},
    {"type":"message","role":"assistant","content":[{"type":"output_text","text":"done"}]}]}"#;

const CLAUDE_CODE: &str = r#"{"type":"summary","summary":"Reading","leafUuid":"4"}
{"type":"user","uuid":"1","parentUuid":null,"message":{"role":"user","content":"go"}}
{"type":"assistant","uuid":"2","parentUuid":"1","message":{"id":"m1","role":"assistant","content":[{"type":"text","text":"I read."}],"usage":{"input_tokens":5,"cache_creation_input_tokens":195,"cache_read_input_tokens":0,"output_tokens":9}}}
{"type":"assistant","uuid":"3","parentUuid":"2","message":{"id":"m1","role":"assistant","content":[{"type":"tool_use","id":"a","name":"Read","input":{"path":"a.rs"}}],"usage":{"input_tokens":5,"cache_creation_input_tokens":195,"cache_read_input_tokens":0,"output_tokens":9}}}
{"type":"user","uuid":"4","parentUuid":"3","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"fn main"}]}}
{"type":"assistant","uuid":"5","parentUuid":"4","message":{"id":"m2","role":"assistant","content":[{"type":"text","text":"done"}],"usage":{"input_tokens":5,"cache_creation_input_tokens":45,"cache_read_input_tokens":200,"output_tokens":9}}}
"#;

const CODEX: &str = r#"{"type":"session_meta","payload":{"id":"s"}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"go"}]}}
{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I read."}]}}
{"type":"response_item","payload":{"type":"function_call","call_id":"a","name":"Read","arguments":"{\"path\":\"a.rs\"}"}}
{"type":"response_item","payload":{"type":"function_call_output","call_id":"a","output":"fn main"}}
{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"done"}]}}
"#;

fn read(text: &str) -> RecordedSession {
    let counter = o200k();
    RecordedSession::read("s", text, &mut BlockReader::new(&counter)).unwrap().remove(0)
}

#[test]
fn all_formats_make_the_same_session() {
    let keys = |session: &RecordedSession| -> Vec<String> {
        let blocks = session.messages.iter().flat_map(|message| &message.blocks);
        blocks.map(|block| block.key.clone()).collect()
    };
    let expected = read(ANTHROPIC);
    assert_eq!((expected.messages.len(), expected.requests.len()), (4, 2));
    for text in [OPENAI, RESPONSES, CLAUDE_CODE, CODEX] {
        let session = read(text);
        assert_eq!(keys(&session), keys(&expected), "{text}");
        assert_eq!((session.requests.len(), session.tokens()), (2, expected.tokens()), "{text}");
    }
}

#[test]
fn recorded_and_predicted_cache_reads_are_compared() {
    let session = read(CLAUDE_CODE);
    let counter = o200k();
    let step = || Ok::<(), Infallible>(());
    let mut reader = BlockReader::new(&counter);
    let figures = replay(&session, 1_000, &mut Everything, &mut reader, step).unwrap();
    assert_eq!((figures.cache.requests, figures.cache.recorded_read), (2, 200));
    assert_eq!(figures.cache.recorded_input, 200 + 250);
    // The first request has 5 tokens by our count and 200 by the provider's, so 195 come before it. The second request
    // reads the first one.
    assert_eq!(figures.cache.predicted_read, 200);
    let second: i64 = session.messages[..3].iter().map(ReplayMessage::tokens).sum();
    assert_eq!(figures.cache.predicted_input, 200 + 195 + second);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_sessions_are_replayed_or_refused(
        format in 0..5_usize,
        start in 0..900_usize,
        length in 0..40_usize,
        inserted in "[\\[\\]{}\":,a-z0-9 ]{0,6}",
    ) {
        let mut text = [ANTHROPIC, OPENAI, RESPONSES, CLAUDE_CODE, CODEX][format].to_owned();
        let start = start.min(text.len());
        let end = (start + length).min(text.len());
        text.replace_range(start..end, &inserted);
        let mut reader = BlockReader::new(&BytesOverFour);
        let Ok(sessions) = RecordedSession::read("s", &text, &mut reader) else { return Ok(()) };
        for session in sessions {
            let step = || Ok::<(), Infallible>(());
            let mut policy = OldestFirst::new(10, 0.5);
            let figures = replay(&session, 10, &mut policy, &mut reader, step).unwrap();
            prop_assert_eq!(figures.requests, session.requests.len() as u64);
            // The referee pairs calls and results by itself, so each cut is a valid request.
            prop_assert_eq!(figures.invalid, 0, "{}: {:?}", text, figures.faults);
        }
    }
}
