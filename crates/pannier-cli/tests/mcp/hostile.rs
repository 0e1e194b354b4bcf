//! Malformed messages and attempts to escape the folders.

use std::fs;
use std::io::{Read, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use super::server::Fixture;

#[test]
fn malformed_messages_get_an_error_and_do_not_stop_the_server() {
    let fixture = Fixture::new("malformed");
    let mut client = fixture.serve();
    for (line, code) in [
        ("{", -32700),
        ("not json", -32700),
        ("\u{0}", -32700),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"", -32700),
        (&"[".repeat(100_000), -32700),
        ("[]", -32600),
        ("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", -32600),
        ("\"text\"", -32600),
        ("{}", -32600),
        ("{\"jsonrpc\":\"1.0\",\"id\":5,\"method\":\"ping\"}", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"no/such\"}", -32601),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{\"name\":7}}",
            -32602,
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{\"name\":\"resolve_context\",\"arguments\":[]}}",
            -32602,
        ),
        ("{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\"}", -32602),
    ] {
        client.write(line);
        let answer = client.answer();
        let shown: String = line.chars().take(80).collect();
        assert_eq!(answer["error"]["code"], code, "{shown}: {answer}");
    }
    // Unknown notifications are ignored.
    client.write("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/no-such\",\"params\":{}}");
    client.write("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":99}}");
    client.write("\r");
    assert!(client.request("ping", json!({}))["result"].is_object());
    assert_eq!(client.end(), (Some(0), String::new()));
}

#[test]
fn oversized_lines_are_skipped_without_buffering() {
    let fixture = Fixture::new("long");
    let mut client = fixture.serve();
    let piece = "x".repeat(1 << 20);
    client.write(&format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{}", piece.repeat(100)));
    let answer = client.answer();
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("4194304"), "{answer}");
    assert_eq!(answer["id"], 1, "it came early enough");
    assert!(client.request("ping", json!({}))["result"].is_object());
    #[cfg(target_os = "linux")]
    {
        let status = fs::read_to_string(format!("/proc/{}/status", client.child.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let kilobytes: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
        assert!(kilobytes < 90_000, "{kilobytes} kB were used");
    }
    assert_eq!(client.end(), (Some(0), String::new()));
}

#[test]
fn no_argument_escapes_the_folders() {
    let fixture = Fixture::new("walls");
    // Links from a snippet, a document and a memory file to a secret outside.
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        let secret = fixture.0.join("secret.md");
        symlink(&secret, fixture.0.join("examples/snippets/link.md")).unwrap();
        symlink(&secret, fixture.0.join("examples/harbour/.context/decisions.md")).unwrap();
        fs::remove_file(fixture.0.join("examples/harbour/.context/LEARNINGS.md")).unwrap();
        symlink(&secret, fixture.0.join("examples/harbour/.context/LEARNINGS.md")).unwrap();
        symlink(&secret, fixture.0.join("examples/harbour/AGENTS.md")).unwrap();
        // The user's own folder, which the server was not started with.
        let user = fixture.0.join("config/pannier/context");
        fs::create_dir_all(&user).unwrap();
        fs::copy(&secret, user.join("NOTES.md")).unwrap();
        let index = fixture.0.join("examples/snippets/index.yaml");
        let text = fs::read_to_string(&index).unwrap();
        let link = "  - id: a/link\n    description: A link.\n    type: policy\n    scope: global\n    path: link.md\n";
        let out = "  - id: a/out\n    description: Out.\n    type: policy\n    scope: global\n    path: ../../secret.md\n";
        fs::write(&index, format!("{}\n{link}{out}", text.trim_end())).unwrap();
    }
    let mut client = fixture.serve();
    let secret = fixture.0.join("secret.md").display().to_string();
    let tricks = [
        "../secret.md",
        "..",
        "/",
        "",
        ".",
        "handbook/../secret.md",
        "%2e%2e/secret.md",
        "secret.md\u{0}",
        &secret,
    ];
    let mut answers = Vec::new();
    for trick in tricks {
        for (name, arguments) in [
            ("resolve_context", json!({ "cache": trick, "query": "secret", "budget": 900 })),
            ("assemble_context", json!({ "cache": trick, "query": "secret", "budget": 900 })),
            (
                "assemble_context",
                json!({ "query": "secret 1187", "budget": 900, "paths": [trick] }),
            ),
            (
                "assemble_context",
                json!({ "query": "secret", "budget": 900, "tokenizer": format!("file:{trick}") }),
            ),
            (
                "assemble_context",
                json!({ "query": "secret", "budget": 900, "tokenizer": format!("file:{trick} x 1.5") }),
            ),
            ("get_context", json!({ "docs": trick })),
            ("get_context", json!({ "snippet_ids": [trick] })),
            ("get_context", json!({ "snippet_ids": ["a/link"], "session": trick })),
            ("memory_packet", json!({ "context": trick })),
            ("memory_packet", json!({ "files": [trick], "query": trick })),
            (
                "select_context",
                json!({ "items": [{ "content": "x" }], "budget": 9, "policy": trick }),
            ),
            (
                "select_context",
                json!({ "items": [{ "content": "x" }], "budget": 9, "policy": { "file": trick } }),
            ),
            ("context.inspect_cache", json!({ "cache": trick })),
        ] {
            answers.push(client.call(name, arguments));
        }
        for uri in [
            format!("pannier://handbook/docs/{trick}"),
            format!("pannier://{trick}/docs/x"),
            format!("pannier://snippets/snippets/{trick}"),
            format!("file://{trick}"),
        ] {
            answers.push(client.request("resources/read", json!({ "uri": uri })));
        }
    }
    let ids = json!({ "snippet_ids": ["a/link"] });
    answers.push(client.call("get_context", ids));
    answers.push(
        client.request("resources/read", json!({ "uri": "pannier://snippets/snippets/a/link" })),
    );
    answers.push(client.call("memory_packet", json!({ "budget": 9000 })));
    for answer in answers {
        assert!(!answer.to_string().contains("the secret is"), "{answer}");
    }
    assert!(!fixture.0.join("secret.md.lock").exists());
    let names =
        fs::read_dir(fixture.0.join("state/pannier/snippets")).map(|entries| entries.count());
    assert!(names.unwrap_or(0) <= 2, "sessions wrote where they should not");
    let (code, stderr) = client.end();
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
}

#[cfg(unix)]
#[test]
fn symlinks_do_not_escape_a_memory_folder() {
    let fixture = Fixture::new("notes");
    let notes = fixture.0.join("project/notes");
    fs::create_dir_all(&notes).unwrap();
    fs::write(notes.join("TASKS.md"), "- [ ] Paint the oars\n").unwrap();
    fs::write(fixture.0.join("project/secret.md"), "## [2026-01-01] TOPSECRET\n").unwrap();
    fs::write(fixture.0.join("project/.ctxrc"), "token_budget: 77\n").unwrap();
    std::os::unix::fs::symlink("../secret.md", notes.join("LEARNINGS.md")).unwrap();
    let mut client = fixture.serve_only(&["--context", "project/notes"]);
    let text = client.text("memory_packet", json!({}));
    assert!(text.contains("Paint the oars") && text.contains("Budget: 8000"), "{text}");
    assert!(!text.contains("TOPSECRET"), "{text}");
    // A removed folder is an error, not a packet without rules.
    fs::rename(&notes, fixture.0.join("project/gone")).unwrap();
    let (code, message, _) = client.problem("memory_packet", json!({}));
    assert_eq!((code.as_str(), message.contains("no longer there")), ("io", true));
}

#[test]
fn server_exits_when_its_client_disconnects() {
    let fixture = Fixture::new("gone");
    // The client closes its output: earlier requests are answered.
    let mut child = fixture
        .program(&["mcp", "--cache", "handbook"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let call = json!({ "name": "resolve_context", "arguments": { "query": "x", "budget": 90 } });
    let mut requests = String::new();
    for id in 0..50 {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call });
        requests.push_str(&format!("{request}\n"));
    }
    child.stdin.take().unwrap().write_all(requests.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let mut ids: Vec<u64> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_u64().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..50).collect::<Vec<_>>());
    assert!(output.stderr.is_empty());
    // The client closes its input: the next response fails without a panic.
    let mut child = fixture
        .program(&["mcp", "--cache", "handbook"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut input = child.stdin.take().unwrap();
    input.write_all(requests.as_bytes()).unwrap();
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(0), ""));
    drop(input);
}

#[test]
fn backpressure_stops_reading_from_a_client_that_does_not_read() {
    let fixture = Fixture::new("unread");
    let mut child =
        fixture.program(&["mcp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // Far more than pipes and the server buffer: the writer blocks.
    let writer = std::thread::spawn(move || {
        for id in 0..20_000 {
            let request = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list" });
            writeln!(input, "{request}").unwrap();
        }
    });
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(!writer.is_finished());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert_eq!(output.stdout.split(|byte| *byte == b'\n').count(), 20_001);
}

#[test]
fn malformed_last_line_gets_an_error_before_exit() {
    let fixture = Fixture::new("last");
    for _ in 0..20 {
        let mut child =
            fixture.program(&["mcp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"{").unwrap();
        let output = child.wait_with_output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["error"]["code"], -32700);
    }
}

#[test]
fn duplicate_request_ids_are_rejected() {
    let fixture = Fixture::new("ids");
    let mut client = fixture.serve_with(&["--jobs", "1"]);
    // Many requests with one id: each gets a result or an error.
    let request = json!({ "jsonrpc": "2.0", "id": "same", "method": "tools/call", "params": { "name": "assemble_context", "arguments": { "query": "deploy", "budget": 50, "tokenizer": "o200k" } } });
    for _ in 0..20 {
        client.write(&request.to_string());
    }
    let mut refused = 0;
    for _ in 0..20 {
        let answer = client.answer();
        assert_eq!(answer["id"], "same");
        refused += usize::from(answer["error"]["code"] == -32600);
    }
    assert!(refused < 20);
}
