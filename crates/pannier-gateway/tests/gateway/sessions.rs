//! Recorded sessions, request by request. The folder with them is named by `PANNIER_DATA`.

use std::path::PathBuf;

use serde_json::Value;

use super::support::{Gateway, OK, Provider};

#[test]
fn recorded_sessions_never_exceed_the_budget() {
    let data = std::env::var_os("PANNIER_DATA").map(|data| PathBuf::from(data).join("sessions"));
    let Some(data) = data.filter(|data| data.is_dir()) else {
        eprintln!("skipped: recorded sessions; PANNIER_DATA is not set");
        return;
    };
    let counter = tiktoken_rs::o200k_base().unwrap();
    let provider = Provider::always(OK);
    let gateway = Gateway::start(&provider.url, |options| {
        (options.budget, options.is_strict, options.tokenizer) =
            (24_000, true, Some("o200k".to_owned()));
    });
    let (mut requests, mut fitted) = (0, 0);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&data)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(".anthropic.json"))
        .collect();
    files.sort();
    for path in files.into_iter().take(3) {
        let session: Value =
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let messages = session["messages"].as_array().unwrap();
        let ends = (1..=messages.len()).filter(|end| messages[end - 1]["role"] == "user");
        for end in ends.step_by(5) {
            let mut request = session.clone();
            request["messages"] = messages[..end].to_vec().into();
            let body = request.to_string();
            let answer = gateway.post("/v1/messages", "", &body);
            assert_eq!(answer.status(), 200, "{}: {}", path.display(), answer.text());
            let sent = provider.received().text();
            let value: Value = serde_json::from_str(&sent).unwrap();
            let tokens = count(&value, &counter);
            assert!(tokens <= 24_000, "{}: {tokens} tokens", path.display());
            match answer.header("pannier-fit") {
                Some("fitted") => fitted += 1,
                fit => assert_eq!((fit, sent == body), (Some("unchanged"), true)),
            }
            requests += 1;
        }
    }
    eprintln!("{requests} requests, {fitted} fitted");
    assert!(fitted > 0);
}

/// Counts all texts of a request, without the framing of messages.
fn count(value: &Value, counter: &tiktoken_rs::CoreBPE) -> usize {
    match value {
        Value::String(text) => counter.encode_ordinary(text).len(),
        Value::Array(values) => values.iter().map(|value| count(value, counter)).sum(),
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, _)| {
                !matches!(key.as_str(), "role" | "type" | "id" | "tool_use_id" | "model")
            })
            .map(|(_, value)| count(value, counter))
            .sum(),
        _ => 0,
    }
}
