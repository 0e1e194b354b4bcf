//! The HTTP transport, by raw requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::executor::slow;
use super::server::{Fixture, metadata};
use super::support::HttpServer;

fn serve(fixture: &Fixture, more: &[&str]) -> HttpServer {
    let arguments = ["mcp", "--cache", "handbook", "--docs", "examples/snippets", "--http", "0"];
    HttpServer::start(&mut fixture.program(&[&arguments, more].concat()))
}

/// Sends a request; returns status, head and body.
fn exchange(server: &HttpServer, request: &[u8]) -> (u16, String, String) {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    // The server may respond and close before it has read everything.
    let _ = stream.write_all(request);
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    (status, head.to_owned(), body.to_owned())
}

fn post(server: &HttpServer, headers: &str, body: &str) -> (u16, String, String) {
    let (host, length) = (&server.address, body.len());
    let host = if headers.contains("Host:") { String::new() } else { format!("Host: {host}\r\n") };
    let request = format!(
        "POST /mcp HTTP/1.1\r\n{host}Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    exchange(server, request.as_bytes())
}

fn call(version: &str) -> (String, String) {
    let mut params =
        json!({ "name": "resolve_context", "arguments": { "query": "deploy", "budget": 80 } });
    let mut headers = format!("MCP-Protocol-Version: {version}\r\n");
    if version == "2026-07-28" {
        params["_meta"] = metadata();
        headers.push_str("Mcp-Method: tools/call\r\nMcp-Name: resolve_context\r\n");
    }
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    (headers, body.to_string())
}

#[test]
fn http_outputs_equal_the_bytes_of_the_command_in_both_protocol_versions() {
    let fixture = Fixture::new("http");
    let server = serve(&fixture, &[]);
    let expected =
        fixture.command(&["resolve", "--cache", "handbook", "--query", "deploy", "--budget", "80"]);
    for version in ["2025-06-18", "2025-11-25", "2026-07-28"] {
        let (headers, body) = call(version);
        let (status, _, answer) = post(&server, &headers, &body);
        assert_eq!(status, 200, "{version}: {answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["result"]["content"][0]["text"], *expected, "{version}");
    }
    let client = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client });
    let (status, head, answer) = post(&server, "", &body.to_string());
    assert_eq!(status, 200);
    assert!(!head.to_lowercase().contains("mcp-session-id"), "there are no sessions: {head}");
    assert!(answer.contains("\"protocolVersion\":\"2025-11-25\""), "{answer}");
    // With progress, the response is a stream.
    let (headers, body) = call("2026-07-28");
    let mut body: Value = serde_json::from_str(&body).unwrap();
    body["params"]["_meta"]["progressToken"] = json!("p");
    let (status, head, answer) = post(&server, &headers, &body.to_string());
    assert_eq!(status, 200);
    assert!(head.to_lowercase().contains("text/event-stream"), "{head}");
    assert!(
        answer.contains("notifications/progress") && answer.contains("\"isError\":false"),
        "{answer}"
    );
}

#[test]
fn foreign_hosts_and_origins_are_rejected() {
    let fixture = Fixture::new("origin");
    let server = serve(&fixture, &["--allow-host", "box.example"]);
    let (headers, body) = call("2025-11-25");
    for (more, status) in [
        ("", 200),
        ("Host: localhost\r\n", 200),
        ("Host: box.example\r\n", 200),
        ("Host: evil.example\r\n", 403),
        ("Host: 127.0.0.1.evil.example\r\n", 403),
        ("Origin: http://localhost:1234\r\n", 200),
        ("Origin: https://evil.example\r\n", 403),
        ("Origin: http://localhost.evil.example\r\n", 403),
        ("Origin: null\r\n", 403),
        ("Origin: x\r\n", 403),
    ] {
        let (actual, _, answer) = post(&server, &format!("{headers}{more}"), &body);
        assert!(actual == status || (status == 403 && actual == 400), "{more}: {actual} {answer}");
    }
}

#[test]
fn requests_without_the_token_are_rejected() {
    let fixture = Fixture::new("token");
    std::fs::write(fixture.0.join("token"), "0123456789abcdef-secret\n").unwrap();
    let server = serve(&fixture, &["--token-file", "token"]);
    let (headers, body) = call("2025-11-25");
    for (token, status) in [
        ("", 401),
        ("Authorization: Bearer\r\n", 401),
        ("Authorization: Bearer wrong\r\n", 401),
        ("Authorization: Bearer 0123456789abcdef-secre\r\n", 401),
        ("Authorization: Bearer 0123456789abcdef-secretx\r\n", 401),
        ("Authorization: Basic 0123456789abcdef-secret\r\n", 401),
        ("Authorization: Bearer 0123456789abcdef-secret\r\n", 200),
    ] {
        let (actual, head, _) = post(&server, &format!("{headers}{token}"), &body);
        assert_eq!(actual, status, "{token}");
        assert_eq!(actual == 401, head.to_lowercase().contains("www-authenticate: bearer"));
    }
    // Other machines need a token, and a short one is rejected.
    let open = fixture.program(&["mcp", "--http", "0.0.0.0:0"]).output().unwrap();
    assert_eq!(open.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&open.stderr).contains("--token-file"));
    std::fs::write(fixture.0.join("token"), "short").unwrap();
    let poor = fixture.program(&["mcp", "--http", "0", "--token-file", "token"]).output().unwrap();
    assert_eq!(poor.status.code(), Some(2));
}

#[test]
fn malformed_http_requests_get_a_client_error() {
    let fixture = Fixture::new("http-hostile");
    let server = serve(&fixture, &["--max-input", "100000"]);
    let (headers, body) = call("2025-11-25");
    let check = |response: &(u16, String, String), status: u16, what: &str| {
        assert_eq!(response.0, status, "{what}: {} {}", response.1, response.2);
    };
    let broken = post(&server, &headers, "{");
    check(&broken, 400, "no JSON");
    assert!(broken.2.contains("-32700"), "{}", broken.2);
    for (body, code, id) in [
        ("[]", -32600, Value::Null),
        ("{}", -32600, Value::Null),
        (r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, -32600, json!(7)),
    ] {
        let answer = post(&server, &headers, body);
        check(&answer, 400, body);
        let answer: Value = serde_json::from_str(&answer.2).unwrap();
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &id), "{body}");
    }
    let long = post(&server, &headers, &"x".repeat(200_000));
    check(&long, 413, "large");
    assert!(long.2.contains("-32600") && long.2.contains("100000 bytes"), "{}", long.2);
    let endless = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: 100000000\r\nConnection: close\r\n\r\n";
    let endless = [endless.as_bytes(), &vec![b'x'; 300_000]].concat();
    check(&exchange(&server, &endless), 413, "larger still");
    let get =
        |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    check(&exchange(&server, get("/mcp").as_bytes()), 405, "GET");
    for path in ["/nothing", "/../etc/passwd", "/mcp/../secret.md", "/mcp/x", "//mcp"] {
        check(&exchange(&server, get(path).as_bytes()), 404, path);
    }
    check(&exchange(&server, b"\x16\x03\x01 nonsense\r\n\r\n"), 400, "no HTTP");
    let many =
        format!("GET /mcp HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(1 << 20));
    let (status, _, _) = exchange(&server, many.as_bytes());
    assert!(matches!(status, 400 | 431 | 0), "{status}");
    // Connections that break off, and one that stays silent.
    for _ in 0..20 {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        let _ = stream.write_all(&body.as_bytes()[..10]);
    }
    let _silent = TcpStream::connect(&server.address).unwrap();
    check(&post(&server, &headers, &body), 200, "afterwards");
}

#[test]
fn closed_connection_cancels_its_queued_call() {
    let fixture = Fixture::new("http-cancel");
    let server = serve(&fixture, &["--jobs", "1"]);
    let body = |params: &Value| {
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string()
    };
    let arguments = json!({ "snippet_ids": ["project/spec/refund-endpoint"], "session": "s" });
    let get = body(&json!({ "name": "get_context", "arguments": arguments }));
    let open = |body: &str| {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        let length = body.len();
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        stream
    };
    let mut first = slow();
    first["_meta"] = json!({ "progressToken": 1 });
    let mut first = BufReader::new(open(&body(&first)));
    // It holds the only permit once it reports progress.
    let mut line = String::new();
    while !line.contains("notifications/progress") {
        line.clear();
        assert!(first.read_line(&mut line).unwrap() > 0);
    }
    // Another call waits for the permit, and its client disconnects.
    let waiting = open(&get);
    std::thread::sleep(Duration::from_millis(100));
    drop(waiting);
    let mut rest = String::new();
    first.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("\"isError\":false"));
    // A recorded delivery would be listed here.
    let (_, _, answer) = post(&server, "", &get);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert!(answer["result"]["content"][0]["text"].to_string().contains("[SNIPPET: "), "{answer}");
}

#[cfg(unix)]
#[test]
fn sigterm_exits_with_zero() {
    let fixture = Fixture::new("signal");
    assert_eq!(serve(&fixture, &[]).terminate().0, Some(0));
}
