//! The tools: their names, and their outputs against those of the command.

use std::fs;

use serde_json::{Value, json};

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
        let structured: Value = serde_json::from_str(&expected).unwrap();
        assert_eq!(answer["result"]["structuredContent"], structured);
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
        assert_eq!(tool["annotations"]["readOnlyHint"], name != "get_context", "{name}");
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
    let structured = |result: Value| result["structuredContent"].clone();
    let first = structured(client.call("get_context", ask(false)));
    assert_eq!(first["delivered"], json!([]));
    let second = structured(client.call("get_context", ask(false)));
    assert_eq!(second["snippets"], json!([]));
    assert!(!second["delivered"].as_array().unwrap().is_empty());
    let command = [
        "snippets",
        "get",
        SPEC,
        "--root",
        "examples/snippets",
        "--session",
        "s-1",
        "--format",
        "json",
    ];
    let printed: Value = serde_json::from_str(&fixture.command(&command)).unwrap();
    assert_eq!(printed, second);
    // Processes share a session; sessions are independent.
    let mut other = fixture.serve();
    assert_eq!(structured(other.call("get_context", ask(false))), second);
    let fresh = json!({ "snippet_ids": [SPEC], "session": "s-2" });
    assert_ne!(structured(other.call("get_context", fresh)), second);
    let again = structured(client.call("get_context", ask(true)));
    assert_eq!(again["snippets"], first["snippets"]);
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
fn warnings_are_in_the_metadata() {
    let fixture = Fixture::new("warnings");
    let mut client = fixture.serve();
    let result = client.call("memory_packet", json!({ "budget": 1, "now": "2026-03-01" }));
    let warnings = result["_meta"]["pannier/warnings"].as_array().unwrap();
    assert!(warnings[0].as_str().unwrap().contains("above the budget of 1"), "{result}");
    let items = json!([{ "content": "x", "tokens": -3 }]);
    let result = client.call("select_context", json!({ "items": items, "budget": 5 }));
    assert!(
        result["_meta"]["pannier/warnings"][0].as_str().unwrap().starts_with("#0 has -3 tokens")
    );
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
