//! A model server on a local port.

#![allow(dead_code, reason = "each test file uses some of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// A request that the server received.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) path: String,
    pub(crate) authorization: Option<String>,
    pub(crate) body: Value,
}

/// The answer to a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) status: u16,
    pub(crate) headers: Vec<String>,
    pub(crate) body: Vec<u8>,
    pub(crate) delay: Duration,
    /// The length that the header states, if it is not that of the body.
    pub(crate) stated_length: Option<usize>,
}

impl Sent {
    pub(crate) fn json(value: &Value) -> Self {
        Self::text(200, &value.to_string())
    }

    pub(crate) fn text(status: u16, body: &str) -> Self {
        Self { status, body: body.as_bytes().to_vec(), ..Self::default() }
    }

    pub(crate) fn header(mut self, line: &str) -> Self {
        self.headers.push(line.to_owned());
        self
    }
}

/// A server whose answers a function chooses by the number of the request and the request. It runs until the process ends.
pub(crate) struct Server {
    pub(crate) base: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Server {
    pub(crate) fn start(answer: impl Fn(usize, &Received) -> Sent + Send + Sync + 'static) -> Self {
        Self::start_with(|address| format!("http://{address}/v1"), Some, answer)
    }

    /// Starts a server whose connections `accept` turns into streams.
    pub(crate) fn start_with<S: Read + Write>(
        base: impl Fn(SocketAddr) -> String,
        accept: impl Fn(TcpStream) -> Option<S> + Send + Sync + 'static,
        answer: impl Fn(usize, &Received) -> Sent + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = base(listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let (log, shared) = (Arc::clone(&received), Arc::new((accept, answer)));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, shared) = (Arc::clone(&log), Arc::clone(&shared));
                std::thread::spawn(move || {
                    let (accept, answer) = &*shared;
                    if let Some(stream) = accept(stream) {
                        serve(stream, &log, answer);
                    }
                });
            }
        });
        Self { base, received }
    }

    pub(crate) fn address(&self, model: &str) -> String {
        format!("{}#{model}", self.base)
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }
}

/// Answers one request and closes the connection. The client may close it first.
fn serve(
    stream: impl Read + Write,
    log: &Mutex<Vec<Received>>,
    answer: &(dyn Fn(usize, &Received) -> Sent + Send + Sync),
) {
    let mut reader = BufReader::new(stream);
    let (mut lines, mut length, mut authorization) = (Vec::new(), 0, None);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line.trim().is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap(),
            "authorization" => authorization = Some(value.trim().to_owned()),
            _ => {}
        }
        lines.push(line);
    }
    let mut body = vec![0; length];
    if lines.is_empty() || reader.read_exact(&mut body).is_err() {
        return;
    }
    let path = lines[0].split(' ').nth(1).unwrap_or_default().to_owned();
    let received =
        Received { path, authorization, body: serde_json::from_slice(&body).unwrap_or_default() };
    let number = {
        let mut log = log.lock().unwrap();
        log.push(received.clone());
        log.len() - 1
    };
    let Sent { status, headers, body, delay, stated_length } = answer(number, &received);
    std::thread::sleep(delay);
    let length = stated_length.unwrap_or(body.len());
    let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    let head = format!(
        "HTTP/1.1 {status} Status\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n"
    );
    let stream = reader.get_mut();
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
}

/// Returns the vector of a text: how often it has each letter from a to h, weighted, and a constant.
pub(crate) fn letters(text: &str) -> Vec<f32> {
    let count = |letter: char| text.chars().filter(|c| c.eq_ignore_ascii_case(&letter)).count();
    let weighted = ('a'..='h').zip(1..).map(|(letter, weight)| {
        count(letter) as f32 * (1.0 + weight as f32 / 17.0) + 0.3 / weight as f32
    });
    weighted.chain([1.0]).collect()
}

/// Returns the answer of a good server to `/embeddings`, with its entries in reverse.
pub(crate) fn embeddings(received: &Received) -> Value {
    let texts = received.body["input"].as_array().unwrap();
    let data: Vec<Value> = texts
        .iter()
        .enumerate()
        .rev()
        .map(
            |(index, text)| json!({ "index": index, "embedding": letters(text.as_str().unwrap()) }),
        )
        .collect();
    json!({ "object": "list", "model": received.body["model"], "data": data })
}

/// Returns the answer of a good server to `/rerank`: a passage scores by its number of letters x, best first.
pub(crate) fn scores(received: &Received) -> Value {
    let texts = received.body["documents"].as_array().unwrap();
    let score = |text: &Value| text.as_str().unwrap().matches('x').count() as f64 / 100.0;
    let mut results: Vec<(usize, f64)> = texts.iter().map(score).enumerate().collect();
    results.sort_by(|one, other| other.1.total_cmp(&one.1));
    let results: Vec<Value> = results
        .iter()
        .map(|(index, score)| json!({ "index": index, "relevance_score": score }))
        .collect();
    json!({ "results": results })
}
