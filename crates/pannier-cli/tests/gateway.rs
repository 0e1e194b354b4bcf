//! The gateway as a process: kills, faults of providers, and its log.

#![cfg(unix)]

mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use support::HttpServer;

fn gateway(upstream: &str, more: &[&str]) -> HttpServer {
    gateway_with(upstream, "4000", "bytes/4", more)
}

fn gateway_with(upstream: &str, budget: &str, tokenizer: &str, more: &[&str]) -> HttpServer {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pannier"));
    command.args(["gateway", "--upstream", upstream, "--http", "0", "--budget", budget]);
    HttpServer::start(command.args(["--tokenizer", tokenizer]).args(more))
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("gateway-{name}"));
    let _ = fs::remove_dir_all(&folder);
    folder
}

/// A provider that answers each connection with a function, and sends the bodies that it gets.
fn provider(answer: fn(&mut TcpStream)) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, bodies) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                let mut part = [0; 1 << 16];
                let body = loop {
                    let Ok(length @ 1..) = stream.read(&mut part) else { return };
                    bytes.extend_from_slice(&part[..length]);
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                    let head = head.to_lowercase();
                    let (_, length) = head.split_once("content-length: ").unwrap();
                    let length: usize = length.lines().next().unwrap().parse().unwrap();
                    if body.len() >= length {
                        break body.to_owned();
                    }
                };
                let _ = sender.send(body);
                answer(&mut stream);
            });
        }
    });
    (url, bodies)
}

/// A request with as many results, as JSON.
fn session(turns: usize) -> String {
    let mut messages = vec![r#"{"role":"user","content":"Fix the private build."}"#.to_owned()];
    for turn in 0..turns {
        let result: String = (0..40).map(|word| format!("word{turn}x{word} ")).collect();
        messages.push(format!(
            r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"c{turn}","name":"Bash","input":{{"command":"run {turn}"}}}}]}}"#
        ));
        messages.push(format!(
            r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"c{turn}","content":"{result}"}}]}}"#
        ));
    }
    format!(r#"{{"model":"claude-x","max_tokens":100,"messages":[{}]}}"#, messages.join(","))
}

fn post(server: &HttpServer, body: &str) -> String {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let length = body.len();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: secret-key\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    let _ = stream.write_all(&[head.as_bytes(), body.as_bytes()].concat());
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn header<'t>(answer: &'t str, name: &str) -> &'t str {
    let line = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("{name} in {answer}"))
}

/// Answers with a count that is half as high again as ours, so that a session that began later would have a margin.
fn count_more(stream: &mut TcpStream) {
    let body = r#"{"usage":{"input_tokens":9000}}"#;
    let head =
        format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    let _ = stream.write_all(format!("{head}{body}").as_bytes());
}

#[test]
fn a_killed_gateway_keeps_the_prefix_of_its_sessions() {
    let (url, bodies) = provider(count_more);
    let (killed, steady) = (folder("killed"), folder("steady"));
    let arguments = |folder: &'_ Path| {
        ["--state", folder.to_str().unwrap(), "--usage-check", "--recall"].map(str::to_owned)
    };
    let start = |folder: &Path| {
        let arguments = arguments(folder);
        gateway(&url, &arguments.each_ref().map(String::as_str))
    };
    let steady = start(&steady);
    for turns in (6..34).step_by(3) {
        let body = session(turns);
        let expected = post(&steady, &body);
        let sent = bodies.recv().unwrap();
        // Dropping it ends the process with SIGKILL.
        let answer = post(&start(&killed), &body);
        assert!(bodies.recv().unwrap() == sent, "{turns}: another request after a kill");
        for name in ["pannier-fit", "pannier-tokens-sent", "pannier-tokens-prefix"] {
            assert_eq!(header(&answer, name), header(&expected, name), "{turns}: {name}");
        }
    }
}

fn answer(stream: &mut TcpStream) {
    let _ =
        stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}");
}

#[test]
fn a_gateway_that_is_killed_before_it_has_counted_sends_the_same_requests() {
    let (url, bodies) = provider(answer);
    let (killed, steady) = (folder("early-killed"), folder("early-steady"));
    let start = |folder: &Path| {
        let state = folder.to_str().unwrap();
        gateway_with(&url, "120000", "o200k", &["--state", state, "--recall"])
    };
    let steady = start(&steady);
    // The first ones are forwarded before they are counted, and the last ones must be cut.
    for turns in [90, 95, 900, 910] {
        let body = session(turns);
        assert!(body.len() > 40_000);
        let expected = post(&steady, &body);
        let sent = bodies.recv().unwrap();
        // Dropping it ends the process with SIGKILL, as soon as there is a response.
        let answer = post(&start(&killed), &body);
        assert!(bodies.recv().unwrap() == sent, "{turns}: another request after a kill");
        let fit = if turns < 100 { "unchanged" } else { "fitted" };
        assert_eq!(header(&answer, "pannier-fit"), fit, "{turns}");
        assert_eq!(header(&expected, "pannier-fit"), fit, "{turns}");
    }
}

fn end_within_the_response(stream: &mut TcpStream) {
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n";
    let _ = stream.write_all(head);
}

/// A provider that resets its connections within the response: they are closed with unread bytes.
fn resetting_provider() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 64]);
                end_within_the_response(&mut stream);
                // A reset drops what the gateway has not read yet.
                std::thread::sleep(Duration::from_millis(300));
            });
        }
    });
    url
}

fn close(_: &mut TcpStream) {}

fn garbage(stream: &mut TcpStream) {
    let _ = stream.write_all(b"\x16\x03\x01garbage\r\n\r\n");
}

fn silence(stream: &mut TcpStream) {
    // Until the gateway gives up.
    let _ = stream.read(&mut [0; 16]);
}

fn refuse(stream: &mut TcpStream) {
    let body = r#"{"type":"error","error":{"type":"overloaded_error"}}"#;
    let length = body.len();
    let _ = stream.write_all(
        format!(
            "HTTP/1.1 529 Overloaded\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .as_bytes(),
    );
}

#[cfg(target_os = "linux")]
fn open_files(server: &HttpServer) -> usize {
    fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap().count()
}

#[test]
#[cfg(target_os = "linux")]
fn faults_of_a_provider_are_passed_on_and_leak_nothing() {
    let providers = [
        (provider(close).0, "502"),
        (provider(garbage).0, "502"),
        (provider(silence).0, "504"),
        (provider(end_within_the_response).0, "200"),
        (resetting_provider(), "200"),
        (provider(refuse).0, "529"),
    ];
    for (url, status) in providers {
        let server = gateway(&url, &["--timeout", "1", "--log-level", "off"]);
        post(&server, &session(2));
        let before = open_files(&server);
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    let answer = post(&server, &session(2));
                    assert!(
                        answer.starts_with(&format!("HTTP/1.1 {status}")),
                        "{status}: {answer}"
                    );
                    match status {
                        // The client sees that the response is not complete.
                        "200" => {
                            assert!(answer.contains("abcde") && !answer.ends_with("0\r\n\r\n"));
                        }
                        "529" => assert!(answer.contains("overloaded_error")),
                        _ => assert!(answer.contains("\"pannier_gateway\""), "{answer}"),
                    }
                });
            }
        });
        // Connections are closed a moment later.
        let mut after = open_files(&server);
        for _ in 0..1_000 {
            if after <= before {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
            after = open_files(&server);
        }
        assert!(after <= before, "{status}: {before} files were open, and then {after}");
    }
}

#[test]
fn logs_have_neither_keys_nor_contents() {
    let (url, _bodies) = provider(count_more);
    let state = folder("log");
    let state = state.to_str().unwrap();
    let more = ["--log-level", "debug", "--log-format", "json", "--state", state, "--recall"];
    let server = gateway(&url, &[&more[..], &["--usage-check"]].concat());
    for body in [session(3), session(40), session(3).replace("messages", "massages")] {
        post(&server, &body);
    }
    let (code, log) = server.terminate();
    assert_eq!(code, Some(0), "{log}");
    let line = log.lines().find(|line| line.contains("fitted")).unwrap();
    for field in ["tokens_in", "tokens_sent", "tokens_prefix", "receipt", "session", "decide_ms"] {
        assert!(line.contains(field), "{field} in {line}");
    }
    assert!(log.contains("tokens_reported"), "{log}");
    for secret in ["secret-key", "private", "word1x", "run 1"] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
}
