//! Recorded sessions, request by request, in three protocols and at three budgets. `PANNIER_DATA` names the folder of data.
//! With `PANNIER_LONG`, long sessions are among them.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::oracle::counts::tokens;
use super::oracle::rules::{Provider as Rules, problems};
use super::support::{Gateway, OK, Provider};

/// Returns the positions at which a request of a session ends: before each response, and at the end.
fn ends(messages: &[Value]) -> Vec<usize> {
    let is_response = |index: &usize| messages[*index]["role"] == "assistant";
    (1..messages.len()).filter(is_response).chain([messages.len()]).collect()
}

/// Returns messages of Chat Completions as items of the Responses API.
fn items(messages: &[Value]) -> Vec<Value> {
    let mut items = Vec::new();
    for message in messages {
        let role = message["role"].as_str().unwrap();
        if role == "tool" {
            items.push(json!({
                "type": "function_call_output",
                "call_id": message["tool_call_id"],
                "output": message["content"],
            }));
            continue;
        }
        if let Some(text) = message["content"].as_str().filter(|text| !text.is_empty()) {
            items.push(json!({ "role": role, "content": text }));
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            items.push(json!({
                "type": "function_call",
                "call_id": call["id"],
                "name": call["function"]["name"],
                "arguments": call["function"]["arguments"],
            }));
        }
    }
    items
}

/// Fills empty texts of a record, which providers refuse.
fn without_empty_texts(mut session: Value) -> Value {
    if session["system"] == "" {
        session.as_object_mut().unwrap().remove("system");
    }
    for message in session["messages"].as_array_mut().unwrap() {
        if message["content"] == "" {
            message["content"] = "(empty)".into();
        }
    }
    session
}

fn request(rules: Rules, session: &Value, end: usize) -> Value {
    let messages = &session["messages"].as_array().unwrap()[..end];
    let mut request = session.clone();
    match rules {
        Rules::Responses => {
            request = json!({ "model": "gpt-5", "input": items(messages) });
        }
        Rules::OpenAi => {
            request["messages"] = messages.to_vec().into();
            request["model"] = "gpt-5".into();
        }
        _ => {
            request["messages"] = messages.to_vec().into();
            request["model"] = "claude-x".into();
            request["max_tokens"] = 100.into();
        }
    }
    request
}

/// The largest file of a session that is no long one.
const MAX_SHORT_BYTES: u64 = 40_000;

/// Returns the folder of recorded sessions, if there is one.
fn recorded_sessions() -> Option<PathBuf> {
    let data = std::env::var_os("PANNIER_DATA").map(|data| PathBuf::from(data).join("sessions"));
    let ancestors = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let folders = ancestors.map(|folder| folder.join("shared/data/sessions"));
    data.into_iter().chain(folders).find(|folder| folder.is_dir())
}

#[test]
fn recorded_sessions_never_exceed_the_budget() {
    let Some(data) = recorded_sessions() else {
        eprintln!(
            "skipped: there are no recorded sessions; set PANNIER_DATA to a folder of data sets"
        );
        return;
    };
    let is_long = std::env::var_os("PANNIER_LONG").is_some_and(|long| !long.is_empty());
    let is_taken = |path: &PathBuf| is_long || path.metadata().unwrap().len() <= MAX_SHORT_BYTES;
    for (rules, path, extension) in [
        (Rules::Anthropic, "/v1/messages", ".anthropic.json"),
        (Rules::OpenAi, "/v1/chat/completions", ".openai.json"),
        (Rules::Responses, "/v1/responses", ".openai.json"),
    ] {
        let mut files: Vec<PathBuf> = std::fs::read_dir(&data)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.to_string_lossy().ends_with(extension) && is_taken(path))
            .collect();
        files.sort();
        let provider = Provider::always(OK);
        let (mut requests, mut fitted, mut refused, mut sessions) = (0, 0, 0, 0);
        for (file, percent) in files.iter().flat_map(|file| [25, 50, 75].map(|share| (file, share)))
        {
            let session = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
            let session = without_empty_texts(session);
            let ends = ends(session["messages"].as_array().unwrap());
            let whole = request(rules, &session, *ends.last().unwrap());
            assert_eq!(problems(rules, &whole), Vec::<String>::new(), "{}", file.display());
            sessions += 1;
            // A part of the session, and what is never cut.
            let budget = tokens(rules, &whole) as i64 * percent / 100 + 100;
            let gateways = [true, false].map(|is_strict| {
                Gateway::start(&provider.url, |options| {
                    (options.budget, options.is_strict) = (budget, is_strict);
                    options.tokenizer = Some("o200k".to_owned());
                })
            });
            for end in ends {
                let body = request(rules, &session, end).to_string();
                let [strict, lenient] = gateways.each_ref().map(|gateway| {
                    let answer = gateway.post(path, "", &body);
                    let sent = (answer.status() == 200).then(|| provider.received().text());
                    (answer, sent)
                });
                requests += 1;
                let (answer, Some(sent)) = strict else {
                    // At a quarter, what is never cut may be too much.
                    assert!(percent < 50, "{}: {}", file.display(), strict.0.text());
                    assert_eq!((strict.0.status(), lenient.1.as_ref() == Some(&body)), (413, true));
                    refused += 1;
                    continue;
                };
                assert!(lenient.1.as_ref() == Some(&sent));
                match answer.header("pannier-fit") {
                    Some("fitted") => fitted += 1,
                    fit => assert_eq!((fit, sent == body), (Some("unchanged"), true)),
                }
                let value: Value = serde_json::from_str(&sent).unwrap();
                let reserve = value["max_tokens"].as_i64().unwrap_or(0);
                let count = tokens(rules, &value) as i64 + reserve;
                assert!(count <= budget, "{}: {count} tokens of {budget}", file.display());
                let refusals = problems(rules, &value);
                assert!(refusals.is_empty(), "{}: {refusals:?}", file.display());
            }
        }
        eprintln!(
            "{rules:?}: {requests} requests of {sessions} sessions, {fitted} fitted, {refused} too long, 0 over the budget"
        );
        assert!(fitted > 0);
    }
}
