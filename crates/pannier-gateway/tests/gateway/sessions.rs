//! Recorded sessions, request by request, in three protocols. The folder with them is named by `PANNIER_DATA`.

use std::path::PathBuf;

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

#[test]
fn recorded_sessions_never_exceed_the_budget() {
    let data = std::env::var_os("PANNIER_DATA").map(|data| PathBuf::from(data).join("sessions"));
    let Some(data) = data.filter(|data| data.is_dir()) else {
        eprintln!("skipped: recorded sessions; PANNIER_DATA is not set");
        return;
    };
    for (rules, path, extension) in [
        (Rules::Anthropic, "/v1/messages", ".anthropic.json"),
        (Rules::OpenAi, "/v1/chat/completions", ".openai.json"),
        (Rules::Responses, "/v1/responses", ".openai.json"),
    ] {
        let mut files: Vec<PathBuf> = std::fs::read_dir(&data)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.to_string_lossy().ends_with(extension))
            .collect();
        files.sort();
        let provider = Provider::always(OK);
        let (mut requests, mut fitted, mut sessions) = (0, 0, 0);
        for file in files {
            let session = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
            let session = without_empty_texts(session);
            let ends = ends(session["messages"].as_array().unwrap());
            let whole = request(rules, &session, *ends.last().unwrap());
            assert_eq!(problems(rules, &whole), Vec::<String>::new(), "{}", file.display());
            sessions += 1;
            // Half of the session, and what is never cut.
            let budget = tokens(rules, &whole) as i64 / 2 + 100;
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
                    assert_eq!(answer.status(), 200, "{}: {}", file.display(), answer.text());
                    (answer, provider.received().text())
                });
                assert!(strict.1 == lenient.1);
                let (answer, sent) = strict;
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
                requests += 1;
            }
        }
        eprintln!(
            "{rules:?}: {requests} requests of {sessions} sessions, {fitted} fitted, 0 over the budget, 0 refused"
        );
        assert!(fitted > 0);
    }
}
