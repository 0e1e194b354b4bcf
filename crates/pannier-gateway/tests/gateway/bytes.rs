//! Byte identity of many requests and responses. `PANNIER_GATEWAY_REQUESTS` is their number; by default, it is small.

use std::collections::HashMap;
use std::io::{BufReader, Write};
use std::sync::{Arc, Mutex};

use super::support::{Gateway, Message, Provider};

/// The threads that send.
const CLIENTS: u64 = 4;

/// Small random numbers: SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn pick<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.below(texts.len())]
    }

    fn bytes(&mut self, max: usize) -> Vec<u8> {
        (0..self.below(max)).map(|_| self.next() as u8).collect()
    }

    /// JSON of a chat with odd spaces, escapes and numbers, which a parser would write differently. Some have 40 to 200 KB,
    /// and are forwarded before they are counted.
    fn chat(&mut self, list: &str) -> Vec<u8> {
        let mut messages = Vec::new();
        let length = if self.below(40) == 0 { 40_000 + self.below(160_000) } else { 1 };
        for number in 0..=self.below(4) {
            let text =
                self.pick(&["hi", "\\u00e9\\/", "Gr\u{fc}\u{df}e \u{1f600}", "a  b\\n", "1e3"]);
            let repeated = if number == 0 { length.div_ceil(text.len()) } else { 1 };
            let text = text.repeat(repeated);
            let space = self.pick(&["", " ", "\n\t"]);
            messages.push(format!("{{{space}\"role\":{space}\"user\",\"content\":\"{text}\"}}"));
        }
        let number = self.pick(&["1", "1.0", "1e0", "0.30000000000000004", "-0"]);
        let model = self.pick(&["gpt-5", "claude-x", "\\u0067pt"]);
        let text = format!(
            "{{ \"temperature\" :{number},\"model\":\"{model}\",\"{list}\":[{}] ,\"x\":{{}} }}\n",
            messages.join(" ,")
        );
        text.into_bytes()
    }
}

/// The request with a number.
fn request(number: u64) -> (Vec<String>, Vec<u8>) {
    let mut random = Random(number);
    let path = random.pick(&[
        "/v1/messages",
        "/v1/messages?beta=true",
        "/v1/messages/count_tokens",
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/embeddings",
        "/v1/files/a%20b?x=%2F&y",
        "/",
    ]);
    let body = match path {
        "/v1/responses" => random.chat("input"),
        path if path.starts_with("/v1/messages") || path.contains("chat") => {
            random.chat("messages")
        }
        _ => random.bytes(4_000),
    };
    let mut head = vec![format!("POST {path} HTTP/1.1")];
    head.push(format!("X-Case: {number}"));
    // Some bodies have no stated length.
    if random.below(3) > 0 {
        head.push(format!("Content-Length: {}", body.len()));
    }
    head.push("Authorization: Bearer key-bytes".to_owned());
    for index in 0..random.below(4) {
        head.push(format!(
            "X-Header-{index}: {}",
            random.pick(&["a", "A, b; c=\"d\"", "\u{7e}", "1"])
        ));
    }
    (head, body)
}

/// Returns a body in chunks.
fn chunked(mut random: Random, mut body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !body.is_empty() {
        let (chunk, rest) = body.split_at((random.below(20_000) + 1).min(body.len()));
        bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
        body = rest;
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

/// The response to the request with a number, as bytes and as a message.
fn response(number: u64) -> Vec<u8> {
    let mut random = Random(!number);
    let status = random.pick(&[
        "200 OK",
        "200 OK",
        "201 Created",
        "400 Bad Request",
        "429 Slow",
        "500 Oops",
    ]);
    let body = random.bytes(6_000);
    let kind = random.pick(&["application/json", "text/event-stream", "application/octet-stream"]);
    let mut bytes = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n").into_bytes();
    bytes.extend_from_slice(
        format!("X-Answer: {number}\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n").as_bytes(),
    );
    if random.below(2) == 0 {
        bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
        bytes.extend_from_slice(&body);
        return bytes;
    }
    bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n");
    let mut rest = &body[..];
    while !rest.is_empty() {
        let (chunk, next) = rest.split_at((random.below(500) + 1).min(rest.len()));
        bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
        rest = next;
    }
    bytes.extend_from_slice(format!("0\r\nX-Sum: {number}\r\n\r\n").as_bytes());
    bytes
}

#[test]
fn requests_and_responses_pass_byte_for_byte() {
    let count = std::env::var("PANNIER_GATEWAY_REQUESTS").ok();
    let count: u64 = count.map_or(1_000, |count| count.parse().unwrap());
    let received = Arc::new(Mutex::new(HashMap::<u64, Message>::new()));
    let recorder = Arc::clone(&received);
    let provider = Provider::keep_alive(move |message| {
        let number = message.header("x-case").unwrap().parse().unwrap();
        recorder.lock().unwrap().insert(number, message.clone());
        response(number)
    });
    let gateway = Gateway::start(&provider.url, |options| {
        (options.checks_usage, options.budget) = (true, 1_000_000);
        options.tokenizer = Some("o200k".to_owned());
    });
    let host = provider.url.strip_prefix("http://").unwrap();
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (gateway, received) = (&gateway, &received);
            scope.spawn(move || {
                let mut stream = gateway.connect();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                for number in (client..count).step_by(CLIENTS as usize) {
                    let (head, body) = request(number);
                    let (line, headers) = head.split_first().unwrap();
                    let is_chunked = !headers.iter().any(|line| line.starts_with("Content-Length"));
                    let encoding = if is_chunked { "Transfer-Encoding: chunked\r\n" } else { "" };
                    let text = format!(
                        "{line}\r\nHost: x\r\nTE: trailers\r\n{encoding}{}\r\n\r\n",
                        headers.join("\r\n")
                    );
                    let sent = match is_chunked {
                        true => chunked(Random(number), &body),
                        false => body.clone(),
                    };
                    stream.write_all(&[text.as_bytes(), &sent].concat()).unwrap();
                    let answer = Message::read(&mut reader).unwrap();
                    let got = received.lock().unwrap().remove(&number).unwrap();
                    assert_eq!(got.head[0], *line);
                    let mut headers = headers.to_vec();
                    headers.sort();
                    let mut got_headers = got.shared_headers();
                    // The provider gets the length of a chat that came in chunks.
                    got_headers.retain(|line| !is_chunked || !line.starts_with("content-length"));
                    assert_eq!(got_headers, headers, "{number}");
                    assert_eq!(got.header("host"), Some(host));
                    assert!(got.body == body, "{number}: the body of {line} changed");
                    let sent = Message::read(&mut &response(number)[..]).unwrap();
                    assert_eq!(answer.head[0].split(' ').nth(1), sent.head[0].split(' ').nth(1));
                    assert_eq!(answer.shared_headers(), sent.shared_headers(), "{number}");
                    assert!(answer.body == sent.body, "{number}: the body of the answer changed");
                    // Names of trailers arrive in lower case.
                    let trailers = sent.trailers.iter().map(|line| line.to_lowercase());
                    assert_eq!(answer.trailers, trailers.collect::<Vec<_>>(), "{number}");
                }
            });
        }
    });
    eprintln!("{count} requests and responses, byte for byte");
}
