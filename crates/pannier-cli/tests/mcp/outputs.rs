//! The tools: their names, and their outputs against those of the command.

use std::fs;

use serde_json::{Value, json};

use super::budgets::count;
use super::server::{Fixture, metadata};

const SPEC: &str = "project/spec/refund-endpoint";

pub(crate) fn items(fixture: &Fixture) -> Vec<Value> {
    let text = fs::read_to_string(fixture.0.join("examples/support-chat.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn specified_operations_return_the_bytes_of_the_command() {
    let fixture = Fixture::new("bytes");
    let mut client = fixture.serve();
    client.initialize("2025-11-25");
    let cases: [(&str, Value, &[&str]); 3] = [
        (
            "resolve_context",
            json!({ "query": "deploy Deploy rollback", "budget": 80 }),
            &[
                "resolve",
                "--cache",
                "handbook",
                "--query",
                "deploy Deploy rollback",
                "--budget",
                "80",
            ],
        ),
        (
            "context.resolve",
            json!({ "cache": "handbook", "query": "", "budget": u64::MAX }),
            &["resolve", "--cache", "handbook", "--query", "", "--budget", "18446744073709551615"],
        ),
        (
            "context.inspect_cache",
            json!({ "cache": "handbook" }),
            &["inspect", "--cache", "handbook", "--format", "json"],
        ),
    ];
    for (name, arguments, command) in cases {
        let expected = fixture.command(command);
        assert_eq!(client.text(name, arguments.clone()), expected, "{name} {arguments}");
        // The same call in the new protocol version.
        let params = json!({ "name": name, "arguments": arguments, "_meta": metadata() });
        let answer = client.request("tools/call", params);
        assert_eq!(answer["result"]["content"][0]["text"], *expected, "{name}");
        assert_eq!(answer["result"]["resultType"], "complete");
        assert!(answer["result"].get("structuredContent").is_none());
    }
    assert_eq!(client.end(), (Some(0), String::new()));
}

#[test]
fn one_process_serves_both_protocol_versions_in_any_order() {
    let fixture = Fixture::new("eras");
    let mut client = fixture.serve();
    // The new version needs no handshake.
    client.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let discovery = client.request("server/discover", json!({ "_meta": metadata() }));
    let discovery = &discovery["result"];
    assert!(discovery["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")));
    assert!(discovery["ttlMs"].as_u64().unwrap() > 0, "{discovery}");
    let tools = client.request("tools/list", json!({ "_meta": metadata() }));
    assert_eq!(tools["result"]["resultType"], "complete");
    assert!(tools["result"]["ttlMs"].as_u64().unwrap() > 0);
    for (requested, negotiated) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2024-11-05", "2024-11-05"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let result = client.initialize(requested);
        assert_eq!(result["protocolVersion"], negotiated, "{requested}");
        assert_eq!(result["serverInfo"]["name"], "pannier");
        let old = client.request("tools/list", json!({}));
        assert!(old["result"].get("resultType").is_none(), "{requested}");
        assert_eq!(old["result"]["tools"], tools["result"]["tools"]);
    }
    let mut unknown = metadata();
    unknown["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    let refused = client.request("tools/list", json!({ "_meta": unknown }));
    assert!(refused["error"]["data"]["supported"].is_array(), "{refused}");
}

#[test]
fn tools_are_listed_only_if_they_have_a_folder() {
    let fixture = Fixture::new("tools");
    let mut client = fixture.serve();
    let tools = client.request("tools/list", json!({}))["result"]["tools"].clone();
    let tools = tools.as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let all = ["search_docs", "read_docs", "get_context", "get_memory", "pack_items"];
    assert_eq!(names, all);
    for tool in tools {
        let name = tool["name"].as_str().unwrap();
        assert!(!tool["title"].as_str().unwrap().is_empty());
        assert!(tool["description"].as_str().unwrap().contains("Call "), "{name}");
        let is_read_only = tool["annotations"]["readOnlyHint"] == true;
        assert_eq!(is_read_only, name != "get_context", "{name}");
        let schema = &tool["inputSchema"];
        assert_eq!(schema["type"], "object", "{name}");
        let text = schema.to_string();
        assert!(!text.contains("\"format\":\"") && !text.contains("$schema"), "{name}: {text}");
        assert!(!text.contains("\"type\":["), "{name}: {text}");
        assert_eq!(tool["inputSchema"]["additionalProperties"], false);
    }
    let mut bare = fixture.serve_only(&[]);
    let few = bare.request("tools/list", json!({}))["result"]["tools"].clone();
    assert_eq!(few.as_array().unwrap().len(), 1);
    assert_eq!(few[0]["name"], "pack_items");
    let (code, message, hint) =
        bare.problem("resolve_context", json!({ "query": "x", "budget": 1 }));
    assert_eq!(
        (code.as_str(), message.as_str()),
        ("invalid_input", "the server was started without --index")
    );
    assert!(hint.contains("--index PATH"), "{hint}");
}

#[test]
fn folder_name_is_optional_for_a_single_folder() {
    let fixture = Fixture::new("names");
    fixture.command(&[
        "build",
        "--sources",
        "examples/snippets",
        "--cache",
        "second",
        "--glob",
        "*.md",
    ]);
    let mut client = fixture.serve_only(&["--cache", "one=handbook", "--cache", "second"]);
    let (code, _, hint) = client.problem("resolve_context", json!({ "query": "x", "budget": 9 }));
    assert_eq!(
        (code.as_str(), hint.as_str()),
        ("invalid_input", "add the argument index: one of one, second")
    );
    let query = json!({ "query": "x", "budget": 99, "cache": "second" });
    let expected =
        fixture.command(&["resolve", "--cache", "second", "--query", "x", "--budget", "99"]);
    assert_eq!(client.text("resolve_context", query), expected);
    let caches = client.text("context.list_caches", json!({}));
    assert!(caches.starts_with(r#"{"caches":[{"name":"one","#), "{caches}");
    let tools = client.request("tools/list", json!({}))["result"]["tools"].clone();
    assert_eq!(tools[0]["inputSchema"]["properties"]["index"]["enum"], json!(["one", "second"]));
    assert_eq!(tools[0]["inputSchema"]["required"], json!(["index", "query"]));
    for (arguments, problem) in [
        (
            vec!["--cache", "handbook", "--cache", "x/../handbook"],
            "two folders are called 'handbook'",
        ),
        (vec!["--cache", "nowhere"], "there is no index at nowhere"),
        (vec!["--docs", "handbook"], "there is no index at"),
        (vec!["--context", "handbook"], ".context"),
        (vec!["--timeout", "0"], "--timeout is 0"),
    ] {
        let (code, stderr) = fixture.serve_only(&arguments).end();
        assert!(code.is_some_and(|code| code != 0 && code != 7), "{arguments:?}: {code:?}");
        assert!(stderr.contains(problem), "{arguments:?}: {stderr}");
    }
}

#[test]
fn sessions_are_shared_with_the_command() {
    let fixture = Fixture::new("session");
    let mut client = fixture.serve();
    let ask = |resend: bool| json!({ "snippet_ids": [SPEC], "session": "s-1", "resend": resend });
    let first = client.text("get_context", ask(false));
    let second = client.text("get_context", ask(false));
    assert!(second.len() < first.len() / 2, "{second}");
    let command = ["snippets", "get", SPEC, "--root", "examples/snippets", "--session", "s-1"];
    assert_eq!(fixture.command(&command), second);
    // Processes share a session; sessions are independent.
    let mut other = fixture.serve();
    assert_eq!(other.text("get_context", ask(false)), second);
    let fresh = json!({ "snippet_ids": [SPEC], "session": "s-2" });
    assert_eq!(other.text("get_context", fresh), first);
    assert_eq!(client.text("get_context", ask(true)), first);
    // A refused answer is not recorded as delivered.
    let tokens = count(&json!({ "content": [{ "text": first }] }));
    let narrow =
        json!({ "snippet_ids": [SPEC], "session": "s-3", "budget": tokens + 9, "detail": true });
    assert_eq!(client.problem("get_context", narrow).0, "budget_not_met");
    let wide = json!({ "snippet_ids": [SPEC], "session": "s-3" });
    assert_eq!(client.text("get_context", wide), first);
    let evil = json!({ "snippet_ids": [SPEC], "session": "x/../../evil" });
    assert_eq!(client.problem("get_context", evil).0, "invalid_input");
}

#[test]
fn invalid_calls_return_code_message_and_hint() {
    let fixture = Fixture::new("mistakes");
    let mut client = fixture.serve_with(&["--max-output", "300"]);
    for (name, arguments, code, message) in [
        ("resolve_context", json!({ "budget": 1 }), "invalid_input", "missing field `query`"),
        ("resolve_context", json!({ "query": "x", "budget": -1 }), "invalid_input", "budget: "),
        (
            "resolve_context",
            json!({ "query": "x", "budget": 1, "bugdet": 2 }),
            "invalid_input",
            "unknown field `bugdet`",
        ),
        ("resolve_context", json!({ "query": "deploy", "budget": 500 }), "too_large", "300"),
        (
            "assemble_context",
            json!({ "query": "x".repeat(1 << 20), "budget": 5 }),
            "invalid_input",
            "query",
        ),
        (
            "assemble_context",
            json!({ "query": "x", "budget": 5, "after": "soon" }),
            "invalid_input",
            "after: write a date",
        ),
        (
            "assemble_context",
            json!({ "query": "x", "budget": 5, "paths": ["[" ] }),
            "invalid_input",
            "'['",
        ),
        (
            "assemble_context",
            json!({ "query": "x", "budget": 5, "tokenizer": "file:secret.md" }),
            "invalid_input",
            "reads no tokenizer from files",
        ),
        (
            "assemble_context",
            json!({ "query": "x", "budget": 5, "tokenizer": "file:secret.md x 1.5" }),
            "invalid_input",
            "reads no tokenizer from files",
        ),
        ("get_context", json!({ "snippet_ids": ["no/such"] }), "invalid_input", "no/such"),
        (
            "get_context",
            json!({ "snippet_ids": ["../x"] }),
            "invalid_input",
            "is not a valid snippet id",
        ),
        (
            "get_context",
            json!({ "snippet_ids": [SPEC], "budget": 3 }),
            "budget_not_met",
            "above the budget of 3",
        ),
        ("get_context", json!({ "areas": ["recipe"] }), "invalid_input", "recipe"),
        (
            "get_context",
            json!({ "snippet_ids": [SPEC], "query": "x" }),
            "invalid_input",
            "unknown option `query`",
        ),
        (
            "memory_packet",
            json!({ "context": "else" }),
            "invalid_input",
            "there is no project 'else'",
        ),
        (
            "select_context",
            json!({ "items": [{ "content": "" }], "budget": 1 }),
            "invalid_input",
            "items[0]",
        ),
        (
            "select_context",
            json!({ "items": [], "budget": 1, "policy": "nope" }),
            "invalid_input",
            "nope",
        ),
        (
            "select_context",
            json!({ "items": [], "budget": 1, "policy": { "scorers": 3 } }),
            "invalid_input",
            "policy: ",
        ),
        (
            "select_context",
            json!({ "items": [], "budget": 1, "explain": ["x"] }),
            "invalid_input",
            "there is no item 'x'",
        ),
        (
            "select_context",
            json!({ "items": [{ "content": "long", "tokens": 9, "pinned": true }], "budget": 1 }),
            "budget_not_met",
            "",
        ),
    ] {
        let (actual_code, actual_message, hint) = client.problem(name, arguments.clone());
        assert_eq!(actual_code, code, "{name} {arguments}: {actual_message}");
        assert!(actual_message.contains(message), "{name}: {actual_message}");
        assert!(!hint.is_empty());
    }
    let unknown = client.request("tools/call", json!({ "name": "no_tool", "arguments": {} }));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    let completion = client.request("completion/complete", json!({ "ref": { "type": "ref/prompt", "name": "x" }, "argument": { "name": "x", "value": "x" } }));
    assert_eq!(completion["error"]["code"], -32601, "{completion}");
}

#[test]
fn notes_are_in_the_answer_and_in_its_budget() {
    let fixture = Fixture::new("warnings");
    let mut client = fixture.serve();
    // The rules do not fit.
    let (code, message, hint) =
        client.problem("memory_packet", json!({ "budget": 1, "now": "2026-03-01" }));
    assert_eq!(code, "budget_not_met", "{message}");
    let needed: usize = hint.split_whitespace().last().unwrap().parse().unwrap();
    let packet = json!({ "budget": needed, "now": "2026-03-01" });
    let packet = client.call("memory_packet", packet);
    assert_eq!(packet["isError"], false, "{packet}");
    assert!(count(&packet) <= needed);
    let items = json!([{ "content": "x", "tokens": -3 }]);
    let result = client.call("select_context", json!({ "items": items, "budget": 200 }));
    let note = result["content"][1]["text"].as_str().unwrap();
    assert!(note.starts_with("Note: #0 has -3 tokens"), "{note}");
    // A note that takes too much of the budget is only for programs.
    let result = client.call("select_context", json!({ "items": items, "budget": 5 }));
    assert_eq!(result["content"].as_array().unwrap().len(), 1, "{result}");
    let warnings = &result["_meta"]["pannier/warnings"];
    assert!(warnings[0].as_str().unwrap().starts_with("#0 has -3 tokens"), "{result}");
}

#[test]
fn specified_names_are_listed_on_request() {
    let fixture = Fixture::new("specified");
    let mut client = fixture.serve_with(&["--spec-names"]);
    let tools = client.request("tools/list", json!({}))["result"]["tools"].clone();
    let names: Vec<&str> =
        tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let expected = ["context.resolve", "context.list_caches", "context.inspect_cache"];
    assert_eq!(names[5..], expected);
    let found = client
        .text("context.resolve", json!({ "cache": "handbook", "query": "deploy", "budget": 90 }));
    assert!(found.starts_with("{\"documents\":"), "{found}");
}

#[test]
fn the_server_is_started_with_its_tokenizer() {
    let fixture = Fixture::new("tokenizer");
    let mut narrow = fixture.serve_with(&["--tokenizer", "o200k x 3"]);
    let mut usual = fixture.serve();
    let ask = json!({ "query": "how do we deploy and roll back?", "budget": 130 });
    let texts = [narrow.text("search_docs", ask.clone()), usual.text("search_docs", ask)];
    assert!(texts[0].len() * 2 < texts[1].len(), "{texts:?}");
}

#[test]
fn project_memory_is_a_prompt() {
    let fixture = Fixture::new("prompt");
    let mut client = fixture.serve();
    let prompts = client.request("prompts/list", json!({ "_meta": metadata() }));
    assert_eq!(prompts["result"]["prompts"][0]["name"], "project_memory", "{prompts}");
    let params = json!({ "name": "project_memory", "arguments": { "query": "payment webhook" } });
    let prompt = client.request("prompts/get", params);
    let text = prompt["result"]["messages"][0]["content"]["text"].as_str().unwrap();
    assert_eq!(text, client.text("memory_packet", json!({ "query": "payment webhook" })));
    for (wrong, code) in [
        (json!({ "name": "other" }), -32602),
        (json!({ "name": "project_memory", "arguments": { "context": "other" } }), -32602),
    ] {
        assert_eq!(client.request("prompts/get", wrong)["error"]["code"], code);
    }
    // Without a project, prompts are not declared.
    let mut bare = fixture.serve_only(&[]);
    assert!(bare.initialize("2025-11-25")["capabilities"].get("prompts").is_none());
    assert_eq!(bare.request("prompts/list", json!({}))["error"]["code"], -32601);
}
