//! The embedder against a local server.

mod support;

use std::time::{Duration, Instant};

use pannier_docs::{Embedder, Model, quantize};
use pannier_http::{Endpoint, HttpEmbedder, HttpError, Limits};
use serde_json::{Value, json};
use support::{Received, Sent, Server, embeddings, letters};

const KEY: &str = "sk-secret-0123";

fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.first_wait = Duration::from_millis(1);
    limits.answer = Duration::from_secs(2);
    limits
}

fn open(server: &Server) -> Result<HttpEmbedder, HttpError> {
    let endpoint = Endpoint::parse(&server.address("letters")).unwrap();
    HttpEmbedder::open(endpoint.with_key(KEY).unwrap(), limits())
}

/// Returns the error of opening, which shows no key.
fn open_error(answer: impl Fn(usize, &Received) -> Sent + Send + Sync + 'static) -> String {
    let error = open(&Server::start(answer)).unwrap_err().to_string();
    assert!(!error.contains(KEY), "{error}");
    error
}

fn good() -> Server {
    Server::start(|_, received| Sent::json(&embeddings(received)))
}

#[test]
fn texts_are_sent_in_batches_and_vectors_are_in_order() {
    let server = good();
    let embedder = open(&server).unwrap();
    assert_eq!((embedder.model().name.as_str(), embedder.model().dimensions), ("letters", 9));
    let mut texts: Vec<String> = (0..150).map(|n| "abc".repeat(n % 7) + &"h".repeat(n)).collect();
    texts[70] = " \n".to_owned();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let vectors = embedder.embed(&texts).unwrap();
    for (text, vector) in texts.iter().zip(&vectors) {
        match text.trim().is_empty() {
            true => assert_eq!(*vector, [0; 9]),
            false => assert_eq!(Some(vector), quantize(&letters(text)).as_ref()),
        }
    }
    let received = server.received();
    let sizes: Vec<usize> =
        received.iter().map(|one| one.body["input"].as_array().unwrap().len()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 1 + 148, "two texts are empty");
    assert!(sizes.iter().all(|size| *size <= 16) && sizes.len() == 1 + 10, "{sizes:?}");
    for one in &received {
        assert_eq!(one.path, "/v1/embeddings");
        assert_eq!(one.authorization.as_deref(), Some("Bearer sk-secret-0123"));
        assert_eq!(
            (&one.body["model"], &one.body["encoding_format"]),
            (&json!("letters"), &json!("float"))
        );
    }
    assert!(embedder.embed(&[]).unwrap().is_empty());
    assert!(!format!("{embedder:?}").contains(KEY));
}

#[test]
fn busy_and_broken_servers_are_asked_again() {
    for failures in [
        vec![Sent::text(500, "oops")],
        vec![Sent::text(429, "").header("Retry-After: 1")],
        vec![
            Sent::text(503, ""),
            Sent::text(502, ""),
            Sent::text(429, "").header("Retry-After: x"),
        ],
        // The connection ends within the answer.
        vec![Sent { stated_length: Some(1000), ..Sent::text(200, "{\"data\":") }],
    ] {
        let (count, waits) = (failures.len(), format!("{failures:?}").contains("After: 1"));
        let server = Server::start(move |number, received| match failures.get(number) {
            Some(failure) => failure.clone(),
            None => Sent::json(&embeddings(received)),
        });
        let begin = Instant::now();
        open(&server).unwrap();
        assert_eq!(server.received().len(), count + 1);
        assert!(!waits || begin.elapsed() >= Duration::from_secs(1));
    }
}

#[test]
fn retries_are_bounded() {
    let server = Server::start(|_, _| Sent::text(500, "{\"error\":{\"message\":\"too long\"}}"));
    let error = open(&server).unwrap_err();
    assert!(error.is_io());
    let error = error.to_string();
    assert!(
        error.contains("/v1/embeddings: the server answered 500 (too long); look at"),
        "{error}"
    );
    assert_eq!(server.received().len(), 7);
    let error = open_error(|_, _| Sent::text(429, "").header("Retry-After: 3600"));
    assert!(error.ends_with("answered 429 and asks to wait 3600 s; try again then"), "{error}");
}

#[test]
fn failures_of_the_connection_are_clear() {
    // A port that was just free.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/v1#m", listener.local_addr().unwrap());
    drop(listener);
    let error = HttpEmbedder::open(Endpoint::parse(&address).unwrap(), limits()).unwrap_err();
    assert!(error.is_io() && error.to_string().contains("check that the server runs"), "{error}");
    let slow = |_: usize, received: &Received| Sent {
        delay: Duration::from_secs(5),
        ..Sent::json(&embeddings(received))
    };
    let error = open_error(slow);
    assert!(error.contains("no answer within 2 s"), "{error}");
}

#[test]
fn refusals_show_the_message_and_no_key() {
    let refused = |status, body: &'static str| open_error(move |_, _| Sent::text(status, body));
    let error = refused(401, "{\"error\":{\"message\":\"wrong key sk-secret-0123\"}}");
    assert!(error.contains("401 (wrong key [key]); name the environment variable"), "{error}");
    let error = refused(404, "{\"error\":\"model not found\"}");
    assert!(error.ends_with("404 (model not found); check the address and the model"), "{error}");
    assert!(refused(400, "").ends_with("answered 400; check the model"));
    for status in [301, 302, 307, 308] {
        let answer = move |number, received: &Received| match number {
            0 => Sent::text(status, "").header("Location: /v1/other?sk-secret-0123"),
            _ => Sent::json(&embeddings(received)),
        };
        let server = Server::start(answer);
        let error = open(&server).unwrap_err().to_string();
        assert!(error.contains("redirects to \"/v1/other?[key]\"; redirects are not"), "{error}");
        assert_eq!(server.received().len(), 1);
    }
}

#[test]
fn invalid_answers_are_clear_errors() {
    let cases: Vec<(Value, &str)> = vec![
        (json!({ "data": [] }), "it has 0 embeddings for 1 texts"),
        (json!({ "data": [{ "index": 1, "embedding": [1.0] }] }), "the index 1"),
        (json!({ "data": [{ "embedding": [1.0] }] }), "missing field `index`"),
        (json!({ "data": [{ "index": 0, "embedding": [] }] }), "0 dimensions; 1 to 65536"),
        (json!({ "data": [{ "index": 0, "embedding": [1.0, null] }] }), "invalid type: null"),
        (json!({ "data": [{ "index": 0, "embedding": "AACAPw==" }] }), "invalid type: string"),
        (json!({ "data": [{ "index": 0, "embedding": [1e300] }] }), "number out of range"),
        (json!({ "models": [] }), "missing field `data`"),
        (json!("sk-secret-0123"), "invalid type: string \"[key]\""),
    ];
    for (body, problem) in cases {
        let error = open_error(move |_, _| Sent::json(&body));
        assert!(error.contains("/v1/embeddings: the answer is invalid: "), "{error}");
        assert!(error.contains(problem), "{error}");
    }
    for (body, problem) in [
        ("{\"data\":[{\"index\":0,\"embedding\":[NaN]}]}", "expected value at line 1 column 34"),
        ("{\"data\":[{\"index\":0,\"embedding\":[1e999]}]}", "number out of range"),
        ("{\"data\":[{\"index\":0,\"embe", "EOF while parsing"),
        ("<html>", "expected value at line 1 column 1"),
        ("", "EOF while parsing"),
    ] {
        let error = open_error(move |_, _| Sent::text(200, body));
        assert!(error.contains(problem) && error.ends_with("is that of a model server"), "{error}");
    }
}

#[test]
fn answers_are_bounded() {
    let server = Server::start(|_, _| Sent::text(200, &"[".repeat(2000)));
    let mut limits = limits();
    limits.answer_bytes = 1000;
    let endpoint = Endpoint::parse(&server.address("m")).unwrap();
    let error = HttpEmbedder::open(endpoint, limits).unwrap_err().to_string();
    assert!(error.contains("the answer exceeds 1000 bytes"), "{error}");
}

#[test]
fn a_failed_batch_fails_the_call() {
    let wrong = |kind: &'static str| {
        let server = Server::start(move |number, received| {
            let mut answer = embeddings(received);
            if number > 0 {
                let data = answer["data"].as_array_mut().unwrap();
                match kind {
                    "dimension" => data[3]["embedding"] = json!([1.0, 2.0]),
                    "duplicate" => data[3]["index"] = json!(0),
                    _ => _ = data.pop(),
                }
            }
            Sent::json(&answer)
        });
        let embedder = open(&server).unwrap();
        embedder.embed(&["a b c"; 100]).unwrap_err().to_string()
    };
    let error = wrong("dimension");
    assert!(error.contains("an embedding has 2 dimensions instead of 9"), "{error}");
    assert!(
        wrong("duplicate").contains("the index 0 of an embedding is out of range or appears twice")
    );
    assert!(wrong("missing").contains("it has 15 embeddings for 16 texts"));
}

#[test]
fn a_model_is_its_name_its_dimensions_and_its_fingerprint() {
    let jitter = |factor: f32, model: &'static str| {
        let server = Server::start(move |_, received| {
            let mut answer = embeddings(received);
            let numbers = answer["data"][0]["embedding"].as_array_mut().unwrap();
            numbers[0] = json!(numbers[0].as_f64().unwrap() as f32 * factor);
            Sent::json(&answer)
        });
        HttpEmbedder::open(Endpoint::parse(&server.address(model)).unwrap(), limits()).unwrap()
    };
    let one = jitter(1.0, "m");
    assert!(one.is_compatible(one.model()) && !one.is_reproducible());
    let near = jitter(1.01, "m");
    assert!(near.is_compatible(one.model()));
    let model = one.model().clone();
    assert_eq!(*near.with_model_of_index(&model).model(), model);
    for other in [jitter(30.0, "m"), jitter(1.0, "n")] {
        assert!(!other.is_compatible(&model));
        assert_ne!(*other.with_model_of_index(&model).model(), model);
    }
    assert!(!one.is_compatible(&Model::new("m", model.hash.as_str(), 10)));
    assert!(!one.is_compatible(&Model::new("m", "given", 9)));
}
