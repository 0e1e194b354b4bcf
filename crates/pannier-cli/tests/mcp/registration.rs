//! The registrations in docs/reference/mcp.md: each starts a working server.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::server::{Fixture, copy};

/// Returns the code blocks of a language.
fn blocks<'d>(document: &'d str, language: &str) -> Vec<&'d str> {
    let start = format!("```{language}\n");
    document.split(&start).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// A project with documents, snippets and memory, as in the document.
fn project(name: &str) -> Fixture {
    let fixture = Fixture::new(name);
    let folder = &fixture.0;
    copy(&folder.join("examples/snippets"), &folder.join("docs"));
    copy(&folder.join("examples/harbour/.context"), &folder.join(".context"));
    fixture.command(&["build", "--sources", "docs", "--cache", ".pannier/index"]);
    fixture.command(&["snippets", "index", "--root", "docs"]);
    fixture
}

#[test]
fn every_documented_registration_starts_a_server() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/mcp.md");
    let document = fs::read_to_string(path).unwrap();
    let fixture = project("registration");
    let mut entries: Vec<Value> = Vec::new();
    for block in blocks(&document, "json") {
        let value: Value = serde_json::from_str(block).unwrap();
        for key in ["mcpServers", "servers"] {
            entries.extend(value.get(key).map(|servers| servers["pannier"].clone()));
        }
    }
    for block in blocks(&document, "toml") {
        let value: Value = toml::from_str(block).unwrap();
        entries.push(value["mcp_servers"]["pannier"].clone());
    }
    let command = "claude mcp add pannier -- pannier ";
    let lines = blocks(&document, "sh").into_iter().flat_map(str::lines);
    let words = lines.filter_map(|line| line.strip_prefix(command)).map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        json!({ "command": "pannier", "args": words })
    });
    entries.extend(words);
    assert_eq!(entries.len(), 5);
    let folder = fixture.0.display().to_string();
    for entry in entries {
        assert_eq!(entry["command"], "pannier");
        let words = entry["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
        let words: Vec<String> =
            words.map(|word| word.replace("${workspaceFolder}", &folder)).collect();
        assert_eq!(words[..2], ["serve", "--stdio"]);
        let words: Vec<&str> = words[2..].iter().map(String::as_str).collect();
        let mut client = fixture.serve_only(&words);
        let tools = client.request("tools/list", json!({}))["result"]["tools"].clone();
        assert_eq!(tools.as_array().unwrap().len(), 5, "{entry}");
        assert!(client.text("get_memory", json!({})).starts_with("# Context Packet"));
        assert_eq!(client.end(), (Some(0), String::new()));
    }
}
