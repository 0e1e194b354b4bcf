//! The provider's own counts.

use std::io::Write;

use serde_json::Value;

use super::support::{Folder, Gateway, Message, Provider, free_address, session};

/// Answers with a count that is a fifth higher than ours, as JSON, as events, or compressed.
fn provider(form: &'static str) -> Provider {
    Provider::start(move |message, stream| {
        let request: Value = serde_json::from_slice(&message.body).unwrap();
        let ours = pannier_tokens(&request);
        let usage =
            format!(r#""usage":{{"input_tokens":{},"cache_read_input_tokens":{ours}}}"#, ours / 5);
        let (headers, body) = match form {
            "json" => ("Content-Type: application/json\r\n", format!("{{{usage}}}").into_bytes()),
            "gzip" => {
                let mut encoder =
                    flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                write!(encoder, "{{{usage}}}").unwrap();
                let headers = "Content-Type: application/json\r\nContent-Encoding: gzip\r\n";
                (headers, encoder.finish().unwrap())
            }
            _ => {
                let event = format!(
                    "event: message_start\ndata: {{\"message\":{{{usage}}}}}\n\ndata: {{}}\n\n"
                );
                ("Content-Type: text/event-stream\r\n", event.into_bytes())
            }
        };
        let length = body.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\n{headers}Connection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(&[head.as_bytes(), &body].concat()).unwrap();
    })
}

/// The tokens of a request by the tokenizer of the tests.
fn pannier_tokens(request: &Value) -> usize {
    let text = request.to_string();
    let counter = pannier::tokens::BytesOverFour;
    let input = pannier_chat::ChatInput::open(&text, None, None).unwrap();
    let transcript = input.read(&counter).unwrap();
    let session = pannier_chat::ChatSession::new(Default::default(), &counter);
    let budget = pannier::ContextBudget::new(1_000_000, 1_000_000).unwrap();
    session.fit(&transcript, &budget).unwrap().tokens() as usize
}

fn sent(answer: &Message) -> i64 {
    answer.header("pannier-tokens-sent").unwrap().parse().unwrap()
}

pub(crate) fn metrics(address: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    String::from_utf8(super::support::read_to_end(stream)).unwrap()
}

fn metric(address: &str, name: &str) -> i64 {
    let text = metrics(address);
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("{name} in {text}")).parse().unwrap()
}

/// Waits until the gateway has read as many counts.
fn wait_for(address: &str, checked: i64) {
    for _ in 0..2_000 {
        if metric(address, "pannier_gateway_usage_checked_total") == checked {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("{checked} counts were not read");
}

#[test]
fn counts_of_the_provider_calibrate_later_sessions() {
    for form in ["json", "events", "gzip"] {
        let provider = provider(form);
        let folder = Folder::new(&format!("gateway-usage-{form}"));
        let (state, metrics) = (folder.0.clone(), free_address());
        let start = || {
            Gateway::start(&provider.url, |options| {
                options.checks_usage = true;
                options.state = Some(state.clone());
                options.metrics = Some(metrics.parse().unwrap());
            })
        };
        let gateway = start();
        let plain = Gateway::start(&provider.url, |_| {});
        // A session that begins before anything is known.
        for turns in [18, 19, 20] {
            let answer = gateway.post("/v1/messages", "", session(turns, 40));
            provider.received();
            assert!(sent(&answer) >= 1_000);
            wait_for(&metrics, turns as i64 - 17);
        }
        let reported = metric(&metrics, "pannier_gateway_usage_reported_total");
        let counted = metric(&metrics, "pannier_gateway_usage_counted_total");
        assert!(reported > counted * 118 / 100 && reported <= counted * 12 / 10, "{reported}");
        // It keeps its margin.
        let body = session(30, 40);
        gateway.post("/v1/messages", "", &body);
        let fitted = provider.received().text();
        plain.post("/v1/messages", "", &body);
        assert!(fitted == provider.received().text(), "{form}: the prefix of a session changed");
        wait_for(&metrics, 4);
        // A later one has a larger one, also after a restart. 3,900 tokens of the window are for the input.
        let other = body.replace("Fix the build", "Fix the tests");
        let answer = gateway.post("/v1/messages", "", &other);
        assert!(sent(&answer) * 12 / 10 <= 3_900, "{form}: {}", sent(&answer));
        let fitted = provider.received().text();
        wait_for(&metrics, 5);
        drop(gateway);
        let gateway = start();
        let answer = gateway.post("/v1/messages", "", body.replace("Fix the build", "Fix it"));
        provider.received();
        assert!(sent(&answer) * 12 / 10 <= 3_900, "{form}: {}", sent(&answer));
        // The first session still has no margin.
        gateway.post("/v1/messages", "", &body);
        let first = provider.received().text();
        plain.post("/v1/messages", "", &body);
        assert!(first == provider.received().text(), "{form}");
        gateway.post("/v1/messages", "", &other);
        assert!(provider.received().text() == fitted, "{form}");
    }
}

#[test]
fn responses_with_counts_are_not_changed() {
    for form in ["json", "events", "gzip"] {
        let provider = provider(form);
        let [plain, checked] = [false, true].map(|checks_usage| {
            Gateway::start(&provider.url, |options| options.checks_usage = checks_usage)
        });
        let body = session(20, 40);
        let [plain, checked] = [plain, checked].map(|it| it.post("/v1/messages", "", &body));
        assert_eq!(plain.body, checked.body);
        assert_eq!(plain.shared_headers(), checked.shared_headers());
    }
}
