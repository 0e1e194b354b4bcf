//! Clients and providers that fail.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use super::support::{Gateway, OK, Provider, free_address, post, read_to_end, session};

#[test]
fn a_provider_that_is_away_gives_a_clear_error() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let gateway = Gateway::start(&url, |_| {});
    let answer = gateway.post("/v1/messages", "", session(1, 5));
    assert_eq!(answer.status(), 502);
    let text = answer.text();
    assert!(text.contains("did not respond") && text.contains("\"type\":\"error\""), "{text}");
    assert!(!text.contains("key-1"));
}

#[test]
fn garbage_and_early_ends_are_errors() {
    for response in ["", "garbage\r\n\r\n", "HTTP/1.1 2"] {
        let provider = Provider::always(response);
        let gateway = Gateway::start(&provider.url, |_| {});
        assert_eq!(gateway.post("/v1/messages", "", session(1, 5)).status(), 502, "{response}");
    }
    // A response that ends early ends early for the client, too.
    let provider = Provider::always(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n5\r\nab",
    );
    let gateway = Gateway::start(&provider.url, |_| {});
    let mut stream = gateway.connect();
    stream.write_all(&post("/v1/messages", "", session(1, 5))).unwrap();
    let text = String::from_utf8(read_to_end(stream)).unwrap();
    assert!(text.contains("abcde") && !text.ends_with("0\r\n\r\n"), "{text}");
}

#[test]
fn silence_ends() {
    let provider = Provider::start(|message, stream| {
        if message.head[0].contains("/v1/messages") {
            let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n";
            stream.write_all(head).unwrap();
        }
        // Until the gateway gives up.
        let _ = stream.read(&mut [0]);
    });
    let gateway =
        Gateway::start(&provider.url, |options| options.timeout = Duration::from_millis(300));
    let answer = gateway.post("/v1/responses", "", r#"{"input":"hi"}"#);
    assert_eq!(answer.status(), 504, "{}", answer.text());
    let mut stream = gateway.connect();
    stream.write_all(&post("/v1/messages", "", session(1, 5))).unwrap();
    let text = String::from_utf8(read_to_end(stream)).unwrap();
    assert!(text.contains("abcde") && !text.ends_with("0\r\n\r\n"), "{text}");
    // Other clients are served meanwhile.
    assert_eq!(gateway.post("/v1/responses", "", r#"{"input":"hi"}"#).status(), 504);
}

#[test]
fn proxies_upgrades_and_long_bodies_are_refused() {
    let provider = Provider::always(OK);
    let gateway = Gateway::start(&provider.url, |options| options.max_body_bytes = 1_000);
    for (request, status) in [
        ("CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n", 400),
        ("GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", 400),
        ("POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\n\r\n", 413),
        (
            "POST /v1/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            501,
        ),
    ] {
        let answer = gateway.exchange(request.as_bytes());
        assert_eq!(answer.status(), status, "{request}: {}", answer.text());
    }
    let long = gateway.post("/v1/messages", "", vec![b' '; 1_001]);
    assert_eq!(long.status(), 413, "{}", long.text());
    assert!(provider.received_nothing());
    // Other paths have no bound: their bodies stream.
    assert_eq!(gateway.post("/v1/files", "", vec![b'x'; 5_000]).status(), 200);
    assert_eq!(provider.received().body.len(), 5_000);
}

#[test]
fn gateways_for_other_machines_and_without_a_budget_are_refused() {
    for (address, metrics, budget, hint) in [
        ("0.0.0.0:0", "0", 1_000, "127.0.0.1"),
        ("0", "0.0.0.0:0", 1_000, "127.0.0.1"),
        ("0", "0", 0, "--budget 100k"),
    ] {
        let upstreams = pannier_gateway::Upstreams::parse(["http://localhost:1"]).unwrap();
        let address = address.parse().unwrap();
        let mut options = pannier_gateway::GatewayOptions::new(address, upstreams, budget);
        options.metrics = Some(metrics.parse().unwrap());
        let error = pannier_gateway::serve(&options, |_| {}).unwrap_err().to_string();
        assert!(error.contains(hint), "{error}");
    }
}

/// Returns a metric once it has a value, or fails after a while.
fn wait_for_metric(address: &str, line: &str) {
    for _ in 0..2_000 {
        let text = super::usage::metrics(address);
        if text.lines().any(|found| found == line) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{line} is not in\n{}", super::usage::metrics(address));
}

#[test]
fn clients_and_providers_that_go_away_are_counted() {
    let provider = Provider::start(|message, stream| {
        if message.head[0].contains("/v1/responses") {
            let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n";
            stream.write_all(head).unwrap();
            return;
        }
        // Until the gateway gives up, because its client did.
        let _ = stream.read(&mut [0]);
    });
    let address = free_address();
    let gateway = Gateway::start(&provider.url, |options| {
        options.metrics = Some(address.parse().unwrap());
    });
    let mut stream = gateway.connect();
    stream.write_all(&post("/v1/messages", "", session(1, 5))).unwrap();
    provider.received();
    drop(stream);
    wait_for_metric(&address, "pannier_gateway_responses_total{status=\"499\"} 1");
    wait_for_metric(&address, "pannier_gateway_requests_total{fit=\"unchanged\"} 1");
    wait_for_metric(&address, "pannier_gateway_tokens_in_total 0");
    let mut stream = gateway.connect();
    stream.write_all(&post("/v1/responses", "", r#"{"input":"hi"}"#)).unwrap();
    read_to_end(stream);
    wait_for_metric(&address, "pannier_gateway_upstream_errors_total 1");
    // What the gateway refuses is not forwarded.
    let refused =
        gateway.exchange(b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n");
    assert_eq!(refused.header("pannier-fit"), Some("refused"));
    wait_for_metric(&address, "pannier_gateway_requests_total{fit=\"refused\"} 1");
}

#[test]
fn a_long_upload_is_not_a_slow_provider() {
    let provider = Provider::always(OK);
    let gateway = Gateway::start(&provider.url, |options| options.timeout = Duration::from_secs(2));
    let mut stream = gateway.connect();
    let head =
        b"POST /v1/files HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 6\r\n\r\n";
    stream.write_all(head).unwrap();
    // Longer than the timeout in all, and shorter for each part.
    for part in [b"a", b"b", b"c", b"d", b"e", b"f"] {
        std::thread::sleep(Duration::from_millis(500));
        stream.write_all(part).unwrap();
    }
    let text = String::from_utf8(read_to_end(stream)).unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    // An upload that stops is the client's fault.
    let mut stream = gateway.connect();
    stream.write_all(head).unwrap();
    let text = String::from_utf8(read_to_end(stream)).unwrap();
    assert!(text.starts_with("HTTP/1.1 408"), "{text}");
}

#[test]
fn a_drain_answers_requests_in_flight() {
    let provider = Provider::start(|_, stream| {
        std::thread::sleep(Duration::from_millis(200));
        let _ = stream.write_all(OK.as_bytes());
    });
    let mut gateway = Gateway::start(&provider.url, |_| {});
    let mut stream = gateway.connect();
    stream.write_all(&post("/v1/messages", "", session(1, 5))).unwrap();
    provider.received();
    gateway.stop();
    assert!(String::from_utf8(read_to_end(stream)).unwrap().ends_with("{}"));
}
