//! The reranker against a local server.

mod support;

use std::time::Duration;

use pannier_docs::Reranker;
use pannier_http::{Endpoint, HttpReranker, Limits};
use serde_json::{Value, json};
use support::{Sent, Server, scores};

fn reranker(server: &Server) -> HttpReranker {
    let mut limits = Limits::default();
    limits.first_wait = Duration::from_millis(1);
    HttpReranker::new(Endpoint::parse(&server.address("judge")).unwrap(), limits)
}

#[test]
fn jina_and_cohere_take_documents() {
    let server = Server::start(|_, received| Sent::json(&scores(received)));
    let reranker = reranker(&server);
    assert_eq!(reranker.model(), "judge");
    assert_eq!(reranker.rerank("q", &["x", "", "xxx", "xx"]).unwrap(), [0.01, 0.0, 0.03, 0.02]);
    let received = server.received();
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].path, "/v1/rerank");
    let expected =
        json!({ "model": "judge", "query": "q", "documents": ["x", "", "xxx", "xx"], "top_n": 4 });
    assert_eq!(received[0].body, expected);
}

#[test]
fn tei_takes_texts_in_batches() {
    let server = Server::start(|_, received| match received.body["texts"].as_array() {
        None => Sent::text(
            422,
            "Failed to deserialize the JSON body into the target type: missing field `texts` at line 1 column 9",
        ),
        Some(texts) if texts.len() > 32 => {
            Sent::text(413, "{\"error\":\"batch size 50 > maximum 32\"}")
        }
        Some(texts) => {
            let score = |text: &Value| text.as_str().unwrap().len() as f64;
            let scores = texts.iter().enumerate().rev();
            let scores =
                scores.map(|(index, text)| json!({ "index": index, "score": score(text) }));
            Sent::json(&scores.collect())
        }
    });
    let texts: Vec<String> = (0..50).map(|length| "x".repeat(length)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let scores = reranker(&server).rerank("q", &texts).unwrap();
    assert_eq!(scores, (0..50).map(f64::from).collect::<Vec<_>>());
    assert_eq!(server.received().len(), 3);
    assert_eq!(server.received()[1].body["truncate"], json!(true));
}

#[test]
fn a_server_that_is_slow_busy_or_down_is_a_clear_error() {
    let rerank = |sent: Sent| {
        let server = Server::start(move |_, _| sent.clone());
        let mut limits = Limits::default();
        (limits.first_wait, limits.answer) = (Duration::from_millis(1), Duration::from_secs(1));
        let endpoint = Endpoint::parse(&server.address("judge")).unwrap();
        let error = HttpReranker::new(endpoint, limits).rerank("q", &["a", "b"]).unwrap_err();
        (error.to_string(), server.received().len())
    };
    let slow = Sent { delay: Duration::from_secs(60), ..Sent::text(200, "[]") };
    let (error, requests) = rerank(slow);
    assert!(error.contains("no answer within 1 s") && requests > 0, "{error}");
    let (error, requests) = rerank(Sent::text(500, "{\"message\":\"no memory\"}"));
    assert!(error.contains("the server answered 500 (no memory)") && requests > 1, "{error}");
    let (error, requests) = rerank(Sent::text(429, "").header("Retry-After: 3600"));
    assert!(error.ends_with("answered 429 and asks to wait 3600 s; try again then"), "{error}");
    assert_eq!(requests, 1);
    // A server that recovers is asked again.
    let server = Server::start(|number, received| match number {
        0 => Sent::text(429, ""),
        1 => Sent::text(500, ""),
        _ => Sent::json(&scores(received)),
    });
    assert_eq!(reranker(&server).rerank("q", &["x", "xx"]).unwrap(), [0.01, 0.02]);
}

#[test]
fn invalid_answers_are_clear_errors() {
    for (body, problem) in [
        ("{\"results\":[]}", "it has 0 scores for 2 texts"),
        ("[{\"index\":0,\"score\":1},{\"index\":0,\"score\":1}]", "the index 0 of a score"),
        ("[{\"index\":0,\"score\":1},{\"index\":2,\"score\":1}]", "the index 2 of a score"),
        ("[{\"index\":0,\"score\":1},{\"index\":1,\"score\":null}]", "neither an array of scores"),
        ("[{\"index\":0,\"score\":NaN}]", "expected value"),
        ("{\"results\":[{\"index\":0,", "EOF while parsing"),
        ("{\"detail\":\"x\"}", "neither an array of scores nor an object with `results`"),
    ] {
        let server = Server::start(move |_, _| Sent::text(200, body));
        let error = reranker(&server).rerank("q", &["a", "b"]).unwrap_err().to_string();
        assert!(error.contains("/v1/rerank: the answer is invalid: "), "{error}");
        assert!(error.contains(problem), "{error}");
    }
    let server = Server::start(|_, _| Sent::text(422, "{\"message\":\"unknown model\"}"));
    let error = reranker(&server).rerank("q", &["a"]).unwrap_err().to_string();
    assert!(error.ends_with("answered 422 (unknown model); check the model"), "{error}");
}
