//! Invariants of sessions, for generated histories and, where they are present, for recorded ones.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use pannier_chat::{
    ChatError, ChatSession, Cut, CutForm, FitConfig, Fitted, Provider, RecallRange, RecallStore,
    RecallStoreOptions, SentBlock, Transcript,
};
use pannier_core::ContextBudget;
use pannier_policy::{PolicyRegistry, Receipt, Replay, SessionOptions};
use pannier_tokens::{BytesOverFour, UpperBound};
use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use support::rules::{self, problems};

const PROVIDERS: [Provider; 4] =
    [Provider::OpenAi, Provider::Anthropic, Provider::Responses, Provider::Gemini];

const PROFILES: [&str; 3] = ["careful", "balanced", "thrifty"];

fn options(profile: &str) -> SessionOptions {
    PolicyRegistry::default().policy(profile).unwrap().session().unwrap().clone()
}

fn budget(tokens: i64) -> ContextBudget {
    ContextBudget::new(tokens, tokens).unwrap()
}

fn read(provider: Provider, text: &str) -> Transcript<'_> {
    Transcript::read(provider, text, &BytesOverFour).unwrap()
}

/// The fields of requests that have the messages.
const LISTS: [&str; 3] = ["messages", "input", "contents"];

fn messages(value: &Value) -> &[Value] {
    let list = LISTS.iter().find_map(|name| value.get(name));
    list.unwrap_or(value).as_array().unwrap()
}

/// Returns the positions at which a request ends: before each response, and at the end.
fn cuts(messages: &[Value]) -> Vec<usize> {
    let is_written = |message: &Value| {
        message["role"] == "assistant"
            || message["role"] == "model"
            || message["type"] == "function_call"
            || message["type"] == "reasoning"
    };
    // The items of one response follow each other.
    let is_response =
        |index: &usize| is_written(&messages[*index]) && !is_written(&messages[*index - 1]);
    (1..messages.len()).filter(is_response).chain([messages.len()]).collect()
}

/// A turn of a generated history.
#[derive(Clone, Debug)]
struct Step {
    /// What the agent does.
    action: u8,
    /// The file or command it is about.
    subject: u8,
    lines: usize,
    /// Whether the agent also writes a text, and the user answers with one.
    has_text: bool,
    has_answer: bool,
    has_thinking: bool,
    parallel: bool,
}

impl Step {
    fn new(action: u8, subject: u8, lines: usize) -> Self {
        let (has_text, has_answer, has_thinking, parallel) = (false, false, false, false);
        Self { action, subject, lines, has_text, has_answer, has_thinking, parallel }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let lines = prop_oneof![8 => 0..12_usize, 2 => 12..80_usize, 1 => 200..600_usize];
    (0..7_u8, 0..5_u8, lines, any::<bool>(), 0..10_u8, 0..6_u8, 0..4_u8).prop_map(
        |(action, subject, lines, has_text, answer, parallel, thinking)| Step {
            has_text,
            has_answer: answer == 0,
            has_thinking: thinking == 0,
            parallel: parallel == 0,
            ..Step::new(action, subject, lines)
        },
    )
}

fn lines(number: usize, subject: u8, count: usize) -> String {
    (0..count)
        .map(|line| {
            format!(
                "line {line} of file_{subject}.rs: let value_{number}_{line} = {};\n",
                line * 37
            )
        })
        .collect()
}

fn call(step: &Step, number: usize) -> (&'static str, Value) {
    let path = format!("src/file_{}.rs", step.subject);
    let body = lines(number, step.subject, step.lines / 3);
    match step.action {
        0 => ("read", json!({ "path": path })),
        1 => ("grep", json!({ "pattern": format!("value_{number}"), "path": "src" })),
        2 => ("bash", json!({ "command": format!("cargo test file_{}", step.subject) })),
        3 => (
            "edit",
            json!({ "file_path": path, "old_string": body, "new_string": format!("{body}!") }),
        ),
        4 => ("write", json!({ "file_path": path, "content": body })),
        5 => ("todo", json!({ "todos": [{ "content": body, "status": "pending" }] })),
        _ => ("lookup", json!({ "customer": step.subject, "details": { "note": body } })),
    }
}

fn result(step: &Step, number: usize) -> String {
    match step.action {
        3..=5 => format!(
            "updated file_{}\n{}",
            step.subject,
            lines(number, step.subject, step.lines / 4)
        ),
        // The same command has the same output, so there are duplicates.
        2 => lines(0, step.subject, step.lines),
        _ => lines(number, step.subject, step.lines),
    }
}

fn text(number: usize, lines: usize) -> String {
    format!("Message {number}: {}", "I look at the next file and think about it. ".repeat(lines))
}

/// Builds the same history for a provider.
fn history(provider: Provider, steps: &[Step]) -> Value {
    let task = format!("Fix the build of `file_1.rs`. {}", "Do not break the tests. ".repeat(6));
    let mut messages = match provider {
        Provider::Gemini => vec![json!({ "role": "user", "parts": [{ "text": task }] })],
        _ => vec![json!({ "role": "user", "content": task })],
    };
    if provider == Provider::OpenAi {
        messages.insert(0, json!({ "role": "system", "content": "You are an agent." }));
    }
    for (number, step) in steps.iter().enumerate() {
        let count = if step.parallel { 2 } else { 1 };
        let ids: Vec<String> = (0..count).map(|index| format!("call_{number}_{index}")).collect();
        let calls = ids.iter().map(|id| (id, call(step, number)));
        let said = step.has_text.then(|| text(number, step.lines / 2));
        let answer = step.has_answer.then(|| text(number + 1000, step.lines));
        match provider {
            Provider::OpenAi => {
                let calls: Vec<Value> = calls
                    .map(|(id, (name, input))| {
                        let function = json!({ "name": name, "arguments": input.to_string() });
                        json!({ "id": id, "type": "function", "function": function })
                    })
                    .collect();
                messages.push(json!({ "role": "assistant", "content": said, "tool_calls": calls }));
                messages.extend(ids.iter().map(|id| {
                    json!({ "role": "tool", "tool_call_id": id, "content": result(step, number) })
                }));
                messages.extend(answer.map(|text| json!({ "role": "user", "content": text })));
            }
            Provider::Responses => {
                let id = format!("rs_{number}");
                let thinking = json!({ "type": "reasoning", "id": id, "summary": [], "encrypted_content": "Qk0=" });
                messages.extend(step.has_thinking.then_some(thinking));
                let part =
                    |text| json!([{ "type": "output_text", "text": text, "annotations": [] }]);
                messages
                    .extend(said.map(|text| json!({ "role": "assistant", "content": part(text) })));
                messages.extend(calls.map(|(id, (name, input))| {
                    json!({ "type": "function_call", "call_id": id, "name": name, "arguments": input.to_string() })
                }));
                messages.extend(ids.iter().map(|id| {
                    json!({ "type": "function_call_output", "call_id": id, "output": result(step, number) })
                }));
                messages.extend(answer.map(|text| json!({ "role": "user", "content": text })));
            }
            Provider::Gemini => {
                let part = |text| json!({ "text": text });
                let name = call(step, number).0;
                let calls = calls.map(|(id, (name, args))| {
                    json!({ "functionCall": { "id": id, "name": name, "args": args } })
                });
                let parts: Vec<Value> = said.map(part).into_iter().chain(calls).collect();
                messages.push(json!({ "role": "model", "parts": parts }));
                let results = ids.iter().map(|id| {
                    let output = json!({ "output": result(step, number) });
                    json!({ "functionResponse": { "id": id, "name": name, "response": output } })
                });
                let parts: Vec<Value> = results.chain(answer.map(part)).collect();
                messages.push(json!({ "role": "user", "parts": parts }));
            }
            _ => {
                let block = |text| json!({ "type": "text", "text": text });
                let calls = calls.map(|(id, (name, input))| {
                    json!({ "type": "tool_use", "id": id, "name": name, "input": input })
                });
                let thinking =
                    json!({ "type": "thinking", "thinking": "I look.", "signature": "Qk0=" });
                let thinking = step.has_thinking.then_some(thinking);
                let said = thinking.into_iter().chain(said.map(block));
                let content: Vec<Value> = said.chain(calls).collect();
                messages.push(json!({ "role": "assistant", "content": content }));
                let results = ids.iter().map(|id| {
                    json!({ "type": "tool_result", "tool_use_id": id, "content": result(step, number) })
                });
                let content: Vec<Value> = results.chain(answer.map(block)).collect();
                messages.push(json!({ "role": "user", "content": content }));
            }
        }
    }
    let list = match provider {
        Provider::Responses => "input",
        Provider::Gemini => "contents",
        _ => "messages",
    };
    json!({ "model": "m", list: messages })
}

/// Adds a system prompt and a tool to a request.
fn with_fields(provider: Provider, mut history: Value) -> Value {
    let (name, about) = ("read", "Reads a file.");
    let (schema, prompt) = (json!({ "type": "object" }), "You are an agent.");
    let fields = match provider {
        Provider::OpenAi => {
            let function = json!({ "name": name, "description": about, "parameters": schema });
            json!({ "tools": [{ "type": "function", "function": function }] })
        }
        Provider::Responses => {
            let tool = json!({ "type": "function", "name": name, "parameters": schema });
            json!({ "instructions": prompt, "tools": [tool] })
        }
        Provider::Gemini => {
            let tool = json!({ "name": name, "description": about });
            let prompt = json!({ "parts": [{ "text": prompt }] });
            json!({ "systemInstruction": prompt, "tools": [{ "functionDeclarations": [tool] }] })
        }
        _ => {
            let tool = json!({ "name": name, "description": about, "input_schema": schema });
            json!({ "system": prompt, "tools": [tool] })
        }
    };
    let fields = fields.as_object().unwrap().clone();
    history.as_object_mut().unwrap().extend(fields);
    history
}

/// Returns the tokens of a whole request.
fn tokens_of(provider: Provider, text: &str) -> i64 {
    read(provider, text).items().iter().map(|item| item.tokens()).sum()
}

/// Returns the messages of a request as they are written.
fn written(text: &str) -> Vec<&str> {
    let fields: Result<BTreeMap<String, &RawValue>, _> = serde_json::from_str(text);
    let list = match &fields {
        Ok(fields) => LISTS.iter().find_map(|name| fields.get(*name)).unwrap().get(),
        Err(_) => text,
    };
    let list: Vec<&RawValue> = serde_json::from_str(list).unwrap();
    list.into_iter().map(RawValue::get).collect()
}

/// Returns the role or type of a message, and the ids in it.
fn shape(message: &Value) -> Vec<String> {
    fn add_ids(value: &Value, shape: &mut Vec<String>) {
        for (name, value) in value.as_object().into_iter().flatten() {
            let is_id = ["role", "type", "id", "call_id", "tool_call_id", "tool_use_id"];
            if value.is_string() && is_id.contains(&name.as_str()) && value != "text" {
                shape.push(value.to_string());
            } else if !["input", "args", "response", "output"].contains(&name.as_str()) {
                add_ids(value, shape);
            }
        }
        value.as_array().into_iter().flatten().for_each(|value| add_ids(value, shape));
    }
    let mut shape = Vec::new();
    add_ids(message, &mut shape);
    shape
}

/// Returns the request that ends before a position.
fn request(history: &Value, end: usize) -> String {
    let mut request = history.clone();
    let list = LISTS.into_iter().find(|name| history.get(name).is_some());
    match list.and_then(|name| request.get_mut(name)) {
        Some(list) => *list = messages(history)[..end].into(),
        None => request = messages(history)[..end].into(),
    }
    request.to_string()
}

fn oracle(provider: Provider) -> rules::Provider {
    match provider {
        Provider::OpenAi => rules::Provider::OpenAi,
        Provider::Responses => rules::Provider::Responses,
        Provider::Gemini => rules::Provider::Gemini,
        _ => rules::Provider::Anthropic,
    }
}

/// Returns the content blocks of a request, each as text, with its role.
fn blocks(value: &Value) -> Vec<String> {
    let mut blocks = Vec::new();
    for message in messages(value) {
        let role = &message["role"];
        if message.get("type").is_some() {
            // An item is one block.
            blocks.push(message.to_string());
            continue;
        }
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        let content = match message.get("parts").unwrap_or(&message["content"]) {
            Value::Array(parts) => parts.clone(),
            Value::Null => Vec::new(),
            // An empty one is no block.
            Value::String(text) if text.is_empty() => Vec::new(),
            // To Anthropic, that is the same.
            text => vec![json!({ "type": "text", "text": text })],
        };
        let id = &message["tool_call_id"];
        blocks.extend(content.iter().chain(calls).map(|part| format!("{role}{id}{part}")));
    }
    blocks
}

/// Checks the invariants of one request.
fn check_request(
    provider: Provider,
    history: &Value,
    text: &str,
    transcript: &Transcript<'_>,
    fitted: &Fitted<'_, '_>,
    available: i64,
    options: &SessionOptions,
) -> Result<(), TestCaseError> {
    let sent_text = fitted.json();
    let sent: Value = serde_json::from_str(&sent_text).unwrap();
    let found = problems(oracle(provider), &sent);
    prop_assert!(found.is_empty(), "{found:?}\n{sent_text}");
    // Never above the budget, by a second count of the output.
    let recount = read(provider, &sent_text);
    let total = recount.items().iter().map(|item| item.tokens()).sum::<i64>() + 3;
    prop_assert!(total <= available, "{total} of {available}");
    prop_assert!(total <= fitted.tokens(), "{total} counted as {}", fitted.tokens());
    // At or below the pressure point, the bytes are those of the input.
    let whole = transcript.items().iter().map(|item| item.tokens()).sum::<i64>();
    let is_below = whole as f64 <= available as f64 * options.pressure;
    prop_assert!(!is_below || fitted.cuts().is_empty());
    if fitted.cuts().is_empty() && transcript.repairs().is_empty() {
        prop_assert!(sent_text == text, "{}", difference(&sent_text, text));
    }
    // Messages keep their order, roles and ids.
    if transcript.repairs().is_empty() {
        let mut history = messages(history).iter().map(shape);
        for message in messages(&sent) {
            let shape = shape(message);
            prop_assert!(history.any(|other| other == shape), "{message}");
        }
    }
    // The task and the system prompt are whole.
    for role in ["system", "user"] {
        let find = |value: &Value| {
            let message = messages(value).iter().find(|message| message["role"] == role).cloned();
            message.map(|message| message.get("parts").unwrap_or(&message["content"]).clone())
        };
        let task = |value: &Value| {
            find(value).map(|content| match content {
                Value::Array(blocks) => blocks[0]["text"].as_str().unwrap_or_default().to_owned(),
                content => content.as_str().unwrap_or_default().to_owned(),
            })
        };
        let (before, after) = (task(history), task(&sent));
        prop_assert!(after.unwrap_or_default().starts_with(&before.unwrap_or_default()), "{role}");
    }
    // Each cut block is named in what is sent, and recall returns its content.
    let mut recalled = BTreeMap::new();
    for cut in fitted.cuts() {
        prop_assert!(sent_text.contains(&cut.id), "{cut:?}");
        prop_assert!(cut.tokens_after < cut.tokens_before, "{cut:?}");
        let content = recalled.entry(&cut.id).or_insert_with(|| transcript.recall(&cut.id));
        prop_assert!(content.is_some(), "{cut:?}");
        let content = content.as_deref().unwrap();
        let message = &messages(history)[cut.message];
        if cut.form == CutForm::Omitted {
            let turns: Vec<Value> = serde_json::from_str(content).unwrap();
            prop_assert!(turns.contains(message), "{cut:?}");
            continue;
        }
        prop_assert!(contains(message, content), "{cut:?} {content}");
    }
    Ok(())
}

/// Returns both texts from a little before their first difference.
fn difference(a: &str, b: &str) -> String {
    let common = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let shown = |text: &str| {
        let end = text.len().min(common + 200);
        String::from_utf8_lossy(&text.as_bytes()[common.saturating_sub(200)..end]).into_owned()
    };
    format!("{}\n{}", shown(a), shown(b))
}

/// Returns whether a message has a text, result or input with this content.
fn contains(message: &Value, content: &str) -> bool {
    match message {
        Value::String(text) => text == content,
        Value::Array(values) => values.iter().any(|value| contains(value, content)),
        Value::Object(fields) => {
            let is_input = |input: &Value| {
                serde_json::from_str(content).is_ok_and(|value: Value| value == *input)
            };
            fields.get("input").or(fields.get("args")).is_some_and(is_input)
                || fields.values().any(|value| contains(value, content))
        }
        _ => false,
    }
}

/// Message, part and tokens of a cut block.
type Form = (usize, usize, i64);

/// Replays a history request by request, and checks all invariants. Returns the number of refused requests.
fn check_session(
    provider: Provider,
    history: &Value,
    available: i64,
    profile: &str,
    (pin, query): (Option<usize>, &str),
) -> Result<usize, TestCaseError> {
    let options = options(profile);
    let new = || ChatSession::new(options.clone(), &BytesOverFour).with_query(query);
    let (session, mut stepwise) = (new(), new());
    let mut previous: Option<(String, Vec<Form>, Vec<SentBlock>)> = None;
    let mut refused = 0;
    for end in cuts(messages(history)) {
        let text = request(history, end);
        let mut transcript = read(provider, &text);
        let pin = pin.filter(|pin| *pin < end && transcript.pin(*pin).is_ok());
        let transcript = transcript;
        let fitted = session.fit(&transcript, &budget(available));
        let step = stepwise.step(&transcript, &budget(available));
        let fitted = match fitted {
            Err(ChatError::SessionOverBudget { smallest_budget, .. }) => {
                prop_assert!(smallest_budget > available);
                prop_assert!(session.fit(&transcript, &budget(smallest_budget)).is_ok());
                prop_assert!(session.fit(&transcript, &budget(smallest_budget - 1)).is_err());
                prop_assert_eq!(step.unwrap_err().to_string(), fitted.unwrap_err().to_string());
                (previous, refused) = (None, refused + 1);
                continue;
            }
            other => other.unwrap(),
        };
        let step = step.unwrap();
        prop_assert!(step.json() == fitted.json());
        prop_assert_eq!(step.cuts(), fitted.cuts());
        prop_assert_eq!(step.last_unchanged(), fitted.last_unchanged());
        check_request(provider, history, &text, &transcript, &fitted, available, &options)?;
        // Fitting what was fitted changes nothing.
        let sent = fitted.json();
        let mut recount = read(provider, &sent);
        if let Some(pin) = pin {
            prop_assert!(fitted.cuts_of(pin).next().is_none() && fitted.is_sent(pin));
            recount.pin((0..pin).filter(|item| fitted.is_sent(*item)).count()).unwrap();
        }
        let again = session.fit(&recount, &budget(available)).unwrap().json();
        prop_assert!(again == sent, "{}", difference(&again, &sent));
        let forms: Vec<Form> =
            fitted.cuts().iter().map(|cut| (cut.message, cut.part, cut.tokens_after)).collect();
        let own = fitted.blocks();
        let tokens: i64 = own.iter().map(|block| block.tokens).sum();
        prop_assert_eq!(tokens + 3, fitted.tokens());
        if let Some((before, cut_before, own_before)) = &previous {
            // Between batches, the sent prefix is the same, byte for byte.
            let (written_before, written) = (written(before), written(&sent));
            prop_assert!(fitted.is_batch() || written.starts_with(&written_before));
            let [before, now] =
                [before, &sent].map(|text| blocks(&serde_json::from_str(text).unwrap()));
            let common = before.iter().zip(&now).take_while(|(a, b)| a == b).count();
            prop_assert_eq!(common == before.len(), own.starts_with(own_before));
            prop_assert!(fitted.is_batch() || common == before.len());
            match fitted.last_unchanged() {
                Some(last) => prop_assert_eq!(last.block + 1, common),
                // The first block is the task, and got a note.
                None => prop_assert!(fitted.is_batch() && common == 0, "{common}"),
            }
            // Forms only shrink, and no block comes back.
            for (message, part, tokens) in cut_before {
                let now = forms.iter().find(|cut| (cut.0, cut.1) == (*message, *part));
                prop_assert!(now.is_some_and(|now| now.2 <= *tokens), "{message} {part}");
            }
        }
        previous = Some((sent, forms, own));
    }
    Ok(refused)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sessions_keep_their_invariants(
        steps in prop::collection::vec(step(), 1..24),
        share in 0.03..0.9_f64,
        profile in prop::sample::select(&PROFILES[..]),
        provider in prop::sample::select(&PROVIDERS[..]),
        pin in prop::option::weighted(0.3, 0..40_usize),
        query in prop::sample::select(vec!["", "value_3_1 of file_2.rs"]),
        has_fields in any::<bool>(),
    ) {
        let history = history(provider, &steps);
        let history = if has_fields { with_fields(provider, history) } else { history };
        let tokens = tokens_of(provider, &history.to_string());
        check_session(provider, &history, (tokens as f64 * share) as i64 + 20, profile, (pin, query))?;
    }

    #[test]
    fn steps_that_skip_and_return_equal_fits(
        steps in prop::collection::vec(step(), 1..16),
        share in 0.03..0.9_f64,
        provider in prop::sample::select(&PROVIDERS[..]),
        order in prop::collection::vec(any::<prop::sample::Index>(), 1..12),
    ) {
        let history = with_fields(provider, history(provider, &steps));
        let tokens = tokens_of(provider, &history.to_string());
        let budget = budget((tokens as f64 * share) as i64 + 20);
        let new = || ChatSession::new(options("balanced"), &BytesOverFour);
        let (session, mut stepwise) = (new(), new());
        for index in order {
            let text = request(&history, index.index(messages(&history).len()) + 1);
            let Ok(transcript) = Transcript::read(provider, &text, &BytesOverFour) else { continue };
            let fitted = session.fit(&transcript, &budget).map(|fitted| (fitted.json(), fitted.last_unchanged()));
            let step = stepwise.step(&transcript, &budget).map(|fitted| (fitted.json(), fitted.last_unchanged()));
            prop_assert_eq!(step, fitted);
        }
    }

    #[test]
    fn requests_below_pressure_by_an_upper_bound_are_left_alone(
        steps in prop::collection::vec(step(), 1..24),
        share in 0.2..12.0_f64,
        factor in 1..5_usize,
        profile in prop::sample::select(&PROFILES[..]),
        provider in prop::sample::select(&PROVIDERS[..]),
    ) {
        let history = history(provider, &steps);
        let text = history.to_string();
        let mut transcript = read(provider, &text);
        let tokens: i64 = transcript.items().iter().map(|item| item.tokens()).sum();
        let budget = budget((tokens as f64 * share) as i64 + 20);
        let session = ChatSession::new(options(profile), &BytesOverFour);
        let cuts = session.fit(&transcript, &budget).map(|fitted| fitted.cuts().len());
        let is_below = session.is_below_pressure(&transcript, &budget);
        transcript.count_with(&UpperBound::new(BytesOverFour, factor as f64).unwrap());
        if session.is_below_pressure(&transcript, &budget) {
            prop_assert!(is_below, "a lower count is above the pressure point");
            prop_assert_eq!(cuts, Ok(0));
        }
        // The same counter gives the same counts again.
        transcript.count_with(&BytesOverFour);
        let again = transcript.items().iter().map(|item| item.tokens()).sum::<i64>();
        prop_assert_eq!(again, tokens);
    }

    #[test]
    fn the_newest_edits_are_cut_last(
        steps in prop::collection::vec(step(), 4..24),
        share in 0.05..0.6_f64,
        profile in prop::sample::select(&PROFILES[..]),
        provider in prop::sample::select(&PROVIDERS[..]),
    ) {
        // Each turn is a response and its results, so it can be left out.
        let plain = |step: Step| Step { has_answer: false, has_thinking: false, parallel: false, ..step };
        let steps: Vec<Step> = steps.into_iter().map(plain).collect();
        let history = history(provider, &steps);
        let list = messages(&history);
        let available = (tokens_of(provider, &history.to_string()) as f64 * share) as i64 + 20;
        let session = ChatSession::new(options(profile), &BytesOverFour);
        let mut cut_before = BTreeSet::new();
        for (count, end) in cuts(list).into_iter().enumerate() {
            let text = request(&history, end);
            let transcript = read(provider, &text);
            let Ok(fitted) = session.fit(&transcript, &budget(available)) else { return Ok(()) };
            let edits: Vec<usize> = (0..count).filter(|step| matches!(steps[*step].action, 3 | 4)).collect();
            let kept = &edits[edits.len().saturating_sub(3)..];
            let id = |step: usize| format!("\"call_{step}_0\"");
            // Texts are parts of their own.
            let is_call = |cut: &&Cut| cut.form == CutForm::ShortInput;
            let step_of = |cut: &Cut| kept.iter().find(|step| list[cut.message].to_string().contains(&id(**step)));
            let cut: BTreeSet<usize> =
                fitted.cuts().iter().filter(is_call).filter_map(step_of).copied().collect();
            if cut.difference(&cut_before).next().is_some() {
                let sent: Value = serde_json::from_str(&fitted.json()).unwrap();
                let sent = messages(&sent);
                for (step, message) in (0..count).flat_map(|step| sent.iter().map(move |message| (step, message))) {
                    let is_of_step = message.to_string().contains(&id(step));
                    // Older turns are left out, up to a kept edit.
                    let can_go = step + 2 < count && kept.iter().all(|edit| step < *edit);
                    prop_assert!(!(is_of_step && can_go), "{step} {message}");
                    // Each result is a stub, or as short as one, and each long argument is cut.
                    let longest = if kept.contains(&step) { usize::MAX } else { 160 };
                    let length = longest_content(message);
                    prop_assert!(!is_of_step || length <= longest, "{step} {message}");
                }
            }
            cut_before.extend(cut);
        }
    }
}

/// Returns the bytes of the longest result or argument of a message.
fn longest_content(message: &Value) -> usize {
    match message {
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(arguments @ Value::Object(_)) => longest_content(&arguments),
            _ => text.len(),
        },
        Value::Array(values) => {
            // The text of a response may be new.
            let values =
                values.iter().filter(|part| part["type"] != "text" && part.get("text").is_none());
            values.map(longest_content).max().unwrap_or_default()
        }
        Value::Object(fields) => {
            let is_said = |name: &str| name == "content" && message["role"] == "assistant";
            let values = fields.iter().filter(|(name, value)| !is_said(name) || value.is_array());
            values.map(|(_, value)| longest_content(value)).max().unwrap_or_default()
        }
        _ => 0,
    }
}

#[test]
fn a_repeated_result_keeps_its_whole_copy() {
    for provider in PROVIDERS {
        // The eighth read repeats the fifth: same call, same result.
        let steps: Vec<Step> = (0..12).map(|number| Step::new(0, number, 20)).collect();
        let text = history(provider, &steps).to_string();
        let text = text.replace("file_7.rs", "file_4.rs").replace("value_7_", "value_4_");
        let transcript = read(provider, &text);
        let session = ChatSession::new(options("careful"), &BytesOverFour);
        let fitted =
            session.fit(&transcript, &budget(tokens_of(provider, &text) * 9 / 10)).unwrap();
        let pointer = fitted.cuts().iter().find(|cut| cut.form == CutForm::Duplicate);
        let pointer = pointer.unwrap_or_else(|| panic!("{provider}: {:?}", fitted.cuts()));
        let others = fitted.cuts().iter().filter(|cut| cut.form != CutForm::Duplicate);
        assert!(others.clone().count() > 1, "{provider}");
        assert!(others.clone().all(|cut| cut.id != pointer.id), "{provider}");
    }
}

#[test]
fn equal_stubs_in_a_history_stay() {
    let names: Vec<String> = (0..20).map(|name| format!("value_{name}")).collect();
    let stub = format!("[1824 tokens left out; recall 4c9e5512; names: {}]", names.join(", "));
    for provider in PROVIDERS {
        let steps = vec![Step::new(2, 1, 8); 6];
        let result = Value::from(lines(0, 1, 8)).to_string();
        let text = history(provider, &steps).to_string();
        let text = text.replace(&result, &Value::from(stub.as_str()).to_string());
        let transcript = read(provider, &text);
        let session = ChatSession::new(options("balanced"), &BytesOverFour);
        let fitted = session.fit(&transcript, &budget(tokens_of(provider, &text) + 10)).unwrap();
        assert_eq!(fitted.json(), text, "{provider}");
    }
}

#[test]
fn messages_that_stay_keep_every_byte() {
    for provider in PROVIDERS {
        let steps: Vec<Step> = (0..12).map(|number| Step::new(number % 7, number, 20)).collect();
        let text = serde_json::to_string_pretty(&history(provider, &steps)).unwrap();
        let transcript = read(provider, &text);
        let session = ChatSession::new(options("balanced"), &BytesOverFour);
        let fitted = session.fit(&transcript, &budget(3_000)).unwrap();
        let sent = fitted.json();
        let cut: BTreeSet<usize> = fitted.cuts().iter().map(|cut| cut.message).collect();
        assert!(!cut.is_empty() && fitted.cuts().iter().all(|cut| cut.form != CutForm::Omitted));
        for (index, (message, sent)) in written(&text).iter().zip(written(&sent)).enumerate() {
            assert_eq!(*message == sent, !cut.contains(&index), "{provider} {index}");
        }
    }
}

#[test]
fn cache_breakpoints_move_to_the_last_unchanged_and_the_last_block() {
    let mark = json!({ "type": "ephemeral" });
    let steps: Vec<Step> = (0..16).map(|number| Step::new(number % 7, number % 3, 20)).collect();
    let mut history = with_fields(Provider::Anthropic, history(Provider::Anthropic, &steps));
    for message in [3, 5, 9] {
        history["messages"][message]["content"][0]["cache_control"] = mark.clone();
    }
    for fixed in 0..4 {
        // Marks of the system prompt and the tools stay.
        let blocks = (0..fixed.min(2))
            .map(|_| json!({ "type": "text", "text": "Be brief.", "cache_control": mark }));
        history["system"] = blocks.collect();
        if fixed == 3 {
            history["tools"][0]["cache_control"] = mark.clone();
        }
        for end in cuts(messages(&history)) {
            let text = request(&history, end);
            let transcript = read(Provider::Anthropic, &text);
            let session = ChatSession::new(options("careful"), &BytesOverFour);
            let fitted = session.fit(&transcript, &budget(4_000)).unwrap();
            let sent: Value = serde_json::from_str(&fitted.json_with_cache_control()).unwrap();
            let blocks = messages(&sent).iter().flat_map(|message| match &message["content"] {
                Value::Array(blocks) => blocks.clone(),
                text => vec![text.clone()],
            });
            let blocks: Vec<Value> = blocks.collect();
            let marked =
                blocks.iter().enumerate().filter(|(_, block)| block.get("cache_control").is_some());
            let marked: Vec<usize> = marked.map(|(index, _)| index).collect();
            let mut expected: Vec<usize> = fitted
                .last_unchanged()
                .map(|last| last.block)
                .into_iter()
                .chain([blocks.len() - 1])
                .collect();
            expected.dedup();
            expected.truncate(4 - fixed);
            assert_eq!(marked, expected, "{fixed} {end}");
            assert!(sent.to_string().matches("cache_control").count() <= 4);
        }
    }
}

#[test]
fn recall_returns_strings_exactly_and_objects_as_equal_json() {
    let input = "{\"note\" :\t\"caf\\u00e9 \\/\",  \"n\":1.50}";
    let string = Value::from(input).to_string();
    let cases = [
        (
            Provider::OpenAi,
            format!(
                r#"[{{"role":"user","content":"Hi"}},{{"role":"assistant","content":null,"tool_calls":[{{"id":"a","type":"function","function":{{"name":"f","arguments":{string}}}}}]}},{{"role":"tool","tool_call_id":"a","content":"ok"}}]"#
            ),
        ),
        (
            Provider::Responses,
            format!(
                r#"[{{"role":"user","content":"Hi"}},{{"type":"function_call","call_id":"a","name":"f","arguments":{string}}},{{"type":"function_call_output","call_id":"a","output":"ok"}}]"#
            ),
        ),
        (
            Provider::Anthropic,
            format!(
                r#"[{{"role":"user","content":"Hi"}},{{"role":"assistant","content":[{{"type":"tool_use","id":"a","name":"f","input":{input}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"a","content":"ok"}}]}}]"#
            ),
        ),
        (
            Provider::Gemini,
            format!(
                r#"[{{"role":"user","parts":[{{"text":"Hi"}}]}},{{"role":"model","parts":[{{"functionCall":{{"name":"f","args":{input}}}}}]}},{{"role":"user","parts":[{{"functionResponse":{{"name":"f","response":{{"output":"ok"}}}}}}]}}]"#
            ),
        ),
    ];
    for (provider, text) in cases {
        let transcript = read(provider, &text);
        let is_string = matches!(provider, Provider::OpenAi | Provider::Responses);
        // Equal objects have the same id, however a client writes them.
        let expected = if is_string { input } else { "{\"note\": \"café /\", \"n\": 1.50}" };
        let id = &blake3::hash(expected.as_bytes()).to_hex()[..8];
        assert_eq!(transcript.recall(id).as_deref(), Some(expected), "{provider}");
    }
}

#[test]
fn incremental_steps_restart_where_a_request_was_not_one_of_the_history() {
    // The first request ends within what is later one user turn.
    let list = json!([
        { "role": "user", "content": "Fix it." },
        { "role": "user", "content": "Please. ".repeat(100) },
        { "role": "assistant", "content": "I look. ".repeat(200) },
        { "role": "user", "content": "Go on. ".repeat(100) },
        { "role": "assistant", "content": "Done. ".repeat(100) },
        { "role": "user", "content": "Thanks." },
    ]);
    let mut session = ChatSession::new(options("balanced"), &BytesOverFour);
    for end in [1, 2, 3, 4, 6, 2, 6] {
        let text = request(&list, end);
        let transcript = read(Provider::OpenAi, &text);
        let fresh = ChatSession::new(options("balanced"), &BytesOverFour);
        let expected = fresh.fit(&transcript, &budget(500)).map(|fitted| fitted.json());
        let step = session.step(&transcript, &budget(500)).map(|fitted| fitted.json());
        assert_eq!(step.ok(), expected.ok(), "{end}");
    }
}

/// Returns a history with as many reads, each with its own lines.
fn reads(provider: Provider, count: usize, lines: usize) -> Value {
    let steps: Vec<Step> =
        (0..count).map(|number| Step::new(0, (number % 5) as u8, lines)).collect();
    history(provider, &steps)
}

#[test]
fn all_messages_before_the_first_response_are_whole() {
    let instructions = "Follow the style of the project. ".repeat(60);
    for provider in [Provider::OpenAi, Provider::Anthropic] {
        let mut list = messages(&reads(provider, 12, 40)).to_vec();
        let task = list.iter().position(|message| message["role"] == "user").unwrap();
        list.insert(task, json!({ "role": "user", "content": instructions }));
        let text = Value::from(list.clone()).to_string();
        let transcript = read(provider, &text);
        let session = ChatSession::new(options("thrifty"), &BytesOverFour);
        let fitted = session.fit(&transcript, &budget(2_600)).unwrap();
        assert!(!fitted.cuts().is_empty());
        let sent = fitted.json();
        for message in &list[task..task + 2] {
            assert!(sent.contains(message["content"].as_str().unwrap()), "{provider}");
        }
    }
}

#[test]
fn digests_depend_on_contents_and_not_on_cache_breakpoints() {
    let digests = |text: &str| read(Provider::Anthropic, text).message_digests();
    let call =
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"Bash","input":{}}]}"#;
    let result = |fields: &str, text: &str| {
        format!(
            r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"a",{fields}"content":"{text}"}}]}}"#
        )
    };
    let plain = digests(&format!(
        r#"[{{"role":"user","content":"Fix it."}},{call},{}]"#,
        result("", "done")
    ));
    let marked = digests(&format!(
        r#"[{{"role":"user","content":[{{"type":"text","text":"Fix it.","cache_control":{{"type":"ephemeral"}}}}]}},{call},{}]"#,
        result(r#""cache_control":{"type":"ephemeral"},"#, "done")
    ));
    assert_eq!((plain.len(), &plain), (3, &marked));
    let other = digests(&format!(
        r#"[{{"role":"user","content":"Fix it!"}},{call},{}]"#,
        result("", "failed")
    ));
    assert_eq!(plain[1], other[1]);
    assert!(plain[0] != other[0] && plain[2] != other[2]);
}

#[test]
fn results_with_terms_of_the_query_are_cut_later() {
    let history = reads(Provider::Anthropic, 12, 20).to_string();
    let transcript = read(Provider::Anthropic, &history);
    let cut = |query: &str| {
        let session = ChatSession::new(options("careful"), &BytesOverFour).with_query(query);
        let fitted = session.fit(&transcript, &budget(3_000)).unwrap();
        fitted.cuts().iter().map(|cut| cut.message).collect::<Vec<_>>()
    };
    // The result of the third read.
    assert!(cut("").contains(&6));
    assert!(!cut("where is value_2_7?").contains(&6));
    assert!(cut("where is value_9_7?").contains(&6));
}

#[test]
fn receipts_replay_requests_of_sessions() {
    let history = reads(Provider::Anthropic, 12, 20).to_string();
    let mut transcript = read(Provider::Anthropic, &history);
    transcript.pin(4).unwrap();
    let registry = PolicyRegistry::default();
    let policy = registry.policy("careful").unwrap();
    let budget = budget(3_000);
    let session = ChatSession::new(options("careful"), &BytesOverFour).with_query("value_2_7");
    let fitted = session.fit(&transcript, &budget).unwrap();
    for cache_control in [false, true] {
        let query = Some("value_2_7");
        let config = FitConfig { policy, query, budget: &budget, cache_control };
        let receipt = fitted.receipt(config, "bytes");
        let text = serde_json::to_string(&receipt).unwrap();
        let receipt: Receipt = serde_json::from_str(&text).unwrap();
        let replay = |history: &str| {
            let mut transcript = read(Provider::Anthropic, history);
            transcript.pin_as_in(&receipt).unwrap();
            transcript.replay_session(&receipt, None, &BytesOverFour).unwrap().unwrap()
        };
        assert_eq!(replay(&history), Replay::Identical);
        let changed = history.replace("value_5_3 ", "value_5_4 ");
        assert!(matches!(replay(&changed), Replay::Item { .. }), "{:?}", replay(&changed));
        let mut other = receipt.clone();
        other.source.query = None;
        let mut transcript = read(Provider::Anthropic, &history);
        transcript.pin_as_in(&receipt).unwrap();
        let replay = transcript.replay_session(&other, None, &BytesOverFour).unwrap();
        assert_eq!(replay, Some(Replay::Result));
    }
}

#[test]
fn recall_returns_lines_within_a_budget() {
    let text = "one\ntwo\r\nthree two\nfour";
    let lines =
        |a: usize, b: usize| RecallRange::Lines(a.try_into().unwrap()..=b.try_into().unwrap());
    let take = |range: &RecallRange, max| range.take(text, max, &BytesOverFour);
    assert_eq!(take(&RecallRange::All, 100).unwrap(), text);
    assert_eq!(take(&lines(2, 3), 100).unwrap(), "two\r\nthree two\n");
    assert_eq!(take(&lines(4, 9), 100).unwrap(), "four");
    assert_eq!(take(&RecallRange::Grep("two".to_owned()), 100).unwrap(), "two\r\nthree two\n");
    let error = take(&RecallRange::All, 3).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the recalled lines have 6 tokens but the budget is 3; name some of the 4 lines"
    );
}

#[test]
fn the_store_returns_what_a_lost_history_had() {
    let folder = std::env::temp_dir().join(format!("pannier-recall-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    let store = RecallStore::in_folder(&folder, RecallStoreOptions::default());
    let steps: Vec<Step> = (0..30).map(|number| Step::new(number % 7, 1, 40)).collect();
    let history = history(Provider::Anthropic, &steps);
    let text = history.to_string();
    let transcript = read(Provider::Anthropic, &text);
    let session = ChatSession::new(options("balanced"), &BytesOverFour);
    let mut omitted = 0;
    for tokens in [1_500, 4_000, 8_000] {
        let fitted = session.fit(&transcript, &budget(tokens)).unwrap();
        assert!(!fitted.cuts().is_empty());
        let now = SystemTime::now();
        store.add(&fitted, now).unwrap();
        for cut in fitted.cuts() {
            omitted += usize::from(cut.form == CutForm::Omitted);
            assert_eq!(store.recall(&cut.id).unwrap(), transcript.recall(&cut.id), "{cut:?}");
        }
    }
    assert!(omitted > 0);
    assert_eq!(store.recall("../etc").unwrap(), None);
    assert_eq!(store.recall("").unwrap(), None);
    let files = || fs::read_dir(&folder).unwrap().count();
    #[cfg(unix)]
    for entry in fs::read_dir(&folder).unwrap().flatten() {
        use std::os::unix::fs::PermissionsExt;
        let mode = entry.metadata().unwrap().permissions().mode();
        assert!(mode & 0o777 == 0o600 || entry.file_name() == "lock", "{mode:o}");
    }
    // The files of a request are never removed with it, regardless of their age and size. Those of others are.
    let all = files();
    let fitted = session.fit(&transcript, &budget(8_000)).unwrap();
    let ids: BTreeSet<&str> = fitted.cuts().iter().map(|cut| cut.id.as_str()).collect();
    let are_stored = || ids.iter().all(|id| store.recall(id).unwrap() == transcript.recall(id));
    let mut few = RecallStoreOptions::default();
    few.max_bytes = 4_000;
    RecallStore::in_folder(&folder, few).add(&fitted, SystemTime::now()).unwrap();
    assert!(files() < all && are_stored());
    store.add(&session.fit(&transcript, &budget(1_500)).unwrap(), SystemTime::now()).unwrap();
    let later = SystemTime::now() + Duration::from_secs(31 * 24 * 60 * 60);
    store.add(&fitted, later).unwrap();
    assert_eq!(files(), ids.len() + 1, "and the lock");
    assert!(are_stored());
    // A month after the last request that named them, they are gone.
    let other = session.fit(&transcript, &budget(1_500)).unwrap();
    store.add(&other, later + Duration::from_secs(31 * 24 * 60 * 60)).unwrap();
    let kept: BTreeSet<&str> = other.cuts().iter().map(|cut| cut.id.as_str()).collect();
    assert_eq!(files(), kept.len() + 1);
    // A file with other content is written again.
    let damaged =
        fs::read_dir(&folder).unwrap().flatten().find(|entry| entry.file_name() != "lock");
    let damaged = damaged.unwrap().path();
    let content = fs::read(&damaged).unwrap();
    fs::write(&damaged, content.to_ascii_uppercase()).unwrap();
    store.add(&other, later).unwrap();
    assert_eq!(fs::read(&damaged).unwrap(), content);
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_long_history_takes_no_quadratic_work() {
    // Quadratic work would take minutes.
    let step = |action, lines: usize| Step {
        has_text: true,
        ..Step::new(action, (lines % 5) as u8, lines)
    };
    let steps: Vec<Step> =
        (0..2_500).map(|number: usize| step((number % 7) as u8, 4 + number % 9)).collect();
    let history = history(Provider::Anthropic, &steps).to_string();
    let transcript = read(Provider::Anthropic, &history);
    let session = ChatSession::new(options("balanced"), &BytesOverFour);
    let fitted = session.fit(&transcript, &budget(60_000)).unwrap();
    assert!(fitted.tokens() <= 60_000);
}

/// Checks recorded sessions, if the folder with them is next to the repository: the short ones at half of their tokens. With
/// PANNIER_LONG, it checks all of them with every profile at two budgets, which takes hours without `--release`.
#[test]
fn recorded_sessions_keep_the_invariants() {
    let ancestors = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().skip(3).take(2);
    let folders = ancestors.map(|folder| folder.join("shared/data/sessions"));
    let Some(entries) = folders.into_iter().find_map(|folder| fs::read_dir(folder).ok()) else {
        eprintln!("skipped: there are no recorded sessions");
        return;
    };
    let is_long = std::env::var_os("PANNIER_LONG").is_some();
    let (profiles, shares) = match is_long {
        true => (&PROFILES[..], &[0.35, 0.5][..]),
        false => (&PROFILES[1..2], &[0.5][..]),
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let provider = match () {
            () if name.ends_with(".anthropic.json") => Provider::Anthropic,
            () if name.ends_with(".openai.json") => Provider::OpenAi,
            () => continue,
        };
        let text = fs::read_to_string(&path).unwrap();
        if text.len() > 60_000 && !is_long {
            continue;
        }
        let mut history: Value = serde_json::from_str(&text).unwrap();
        // An empty one is sent as it is, but the rules reject it.
        history.as_object_mut().unwrap().retain(|name, value| name != "system" || value != "");
        let tokens = tokens_of(provider, &text);
        for (profile, share) in
            profiles.iter().flat_map(|profile| shares.iter().map(move |share| (profile, share)))
        {
            let available = (tokens as f64 * share) as i64;
            let refused = check_session(provider, &history, available, profile, (None, ""))
                .unwrap_or_else(|error| panic!("{name} {profile} {share}: {error}"));
            assert!(refused == 0 || *share < 0.5, "{name} {profile} {share}: {refused} refused");
        }
    }
}
