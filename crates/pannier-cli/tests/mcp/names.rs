//! What a call may name: folders, policies, templates, tokenizers and models by their configured names, presets and built-in
//! tokenizers. Everything else is refused.

#[path = "../../../pannier-http/tests/support/mod.rs"]
mod models;

use pannier::ops::{
    MemoryRequest, PackRequest, ReadRequest, RecallRequest, Request, SearchRequest,
    SnippetGetRequest, SnippetListRequest,
};
use serde_json::{Value, json};

use super::server::{Fixture, copy};

/// Values that name something outside of the configuration.
fn foreign(fixture: &Fixture) -> Vec<String> {
    let secret = fixture.0.join("secret.md").display().to_string();
    let index = fixture.0.join("handbook").display().to_string();
    let texts = [
        "../secret.md",
        "secret.md",
        "./handbook",
        "/etc/passwd",
        "file:secret.md",
        "FILE:/etc/passwd",
        "file:///etc/passwd",
        "static:/etc",
        "minilm:models",
        "http://127.0.0.1:9/v1#m",
        "https://example.org/v1#m",
        "postgres://user:pass@127.0.0.1/db",
        "sqlite:secret.db",
        "policy.toml",
        "./policy.toml",
        "template.json",
        "~/secret",
        "..",
    ];
    let mut values: Vec<String> = texts.iter().map(ToString::to_string).collect();
    values.extend([secret.clone(), format!("file:{secret}"), index]);
    values
}

/// Options whose text is data: it is searched, matched or echoed, and never opened.
const DATA: [&str; 12] = [
    "query",
    "must_contain",
    "grep",
    "content",
    "explain",
    "after",
    "before",
    "now",
    "session",
    "files",
    "areas",
    "slots",
];

/// Returns the text options of a schema, with lists of texts.
fn texts(schema: &Value) -> Vec<(String, bool)> {
    let properties = schema["properties"].as_object().unwrap();
    let texts = properties.iter().filter_map(|(name, property)| {
        let is_list = property["type"] == "array";
        let own = if is_list { &property["items"] } else { property };
        let is_text = own["type"] == "string" && own.get("enum").is_none();
        // A value without a type takes anything.
        (is_text || own.get("type").is_none()).then(|| (name.clone(), is_list))
    });
    texts.collect()
}

#[test]
fn a_call_names_only_what_the_server_was_started_with() {
    let fixture = Fixture::new("foreign");
    std::fs::write(fixture.0.join("policy.toml"), "scorers = [\"reflexive\"]\n").unwrap();
    std::fs::write(fixture.0.join("template.json"), r#"{"separator":" | "}"#).unwrap();
    let judge = models::Server::start(|_, received| models::Sent::json(&models::scores(received)));
    let settings = format!(
        "[serve]\npolicies.own = 'policy.toml'\ntemplates.bars = 'template.json'\ntokenizers.bytes = 'bytes/4'\n\
         rerankers.judge.model = '{}'\n",
        judge.address("judge")
    );
    std::fs::write(fixture.0.join("pannier.toml"), settings).unwrap();
    copy(&fixture.0.join("handbook"), &fixture.0.join("other"));
    fixture.command(&["chat", "examples/agent.json", "--budget", "200", "--store"]);
    let mut client = fixture.serve();
    let tools: [(&str, Value, Value); 7] = [
        ("search_docs", SearchRequest::schema(), json!({ "query": "deploy" })),
        ("read_docs", ReadRequest::schema(), json!({ "query": "deploy" })),
        ("get_context", SnippetListRequest::schema(), json!({})),
        (
            "get_context",
            SnippetGetRequest::schema(),
            json!({ "snippet_ids": ["global/policy/names"] }),
        ),
        ("get_memory", MemoryRequest::schema(), json!({})),
        (
            "pack_items",
            PackRequest::schema(),
            json!({ "items": [{ "content": "x" }], "budget": 50 }),
        ),
        ("recall", RecallRequest::schema(), json!({ "id": "97d90ce9" })),
    ];
    let mut tried = 0;
    for (tool, schema, base) in tools {
        assert_eq!(client.call(tool, base.clone())["isError"], false, "{tool}");
        for (name, is_list) in texts(&schema) {
            if DATA.contains(&name.as_str()) {
                continue;
            }
            for value in foreign(&fixture) {
                // Paths of documents are keys of the index, and patterns over them.
                if tool == "search_docs" && name == "paths" {
                    continue;
                }
                let mut arguments = base.clone();
                arguments[&name] = if is_list { json!([value]) } else { value.clone().into() };
                let result = client.call(tool, arguments);
                let text = result["content"][0]["text"].as_str().unwrap();
                assert_eq!(result["isError"], true, "{tool} {name} {value}: {text}");
                assert!(!text.contains("1187") && !text.contains("root:"), "{tool}: {text}");
                let problem: Value = serde_json::from_str(text).unwrap();
                // An entry that does not exist was looked up, not found.
                let code = if (tool, name.as_str()) == ("get_memory", "ids") {
                    "check_failed"
                } else {
                    "invalid_input"
                };
                assert_eq!(problem["code"], code, "{tool} {name} {value}: {problem}");
                assert!(!problem["message"].as_str().unwrap().is_empty());
                tried += 1;
            }
        }
    }
    assert!(tried > 300, "{tried}");
    // Patterns select among the documents of the index alone.
    for value in foreign(&fixture) {
        let text = client.text("search_docs", json!({ "query": "secret", "paths": [value] }));
        assert!(text.starts_with("No passage matches."), "{text}");
    }
    // Configured names work.
    for arguments in [
        json!({ "query": "deploy", "index": "HANDBOOK", "tokenizer": "cl100k" }),
        json!({ "query": "deploy", "tokenizer": "gpt-5", "policy": "rag" }),
        json!({ "query": "deploy", "tokenizer": "bytes", "policy": "own", "reranker": "judge" }),
    ] {
        let result = client.call("search_docs", arguments);
        assert_eq!(result["isError"], false, "{result}");
    }
    assert_eq!(judge.received().len(), 1);
    let items = json!([{ "content": "one", "futureRelevanceHint": 0.9 }, { "content": "two" }]);
    let pack = json!({ "items": items, "budget": 50, "policy": "own", "template": "bars" });
    assert_eq!(client.text("pack_items", pack).trim_end(), "one | two");
    let (_, message, hint) =
        client.problem("pack_items", json!({ "items": [], "budget": 5, "template": "other" }));
    assert!(format!("{message} {hint}").contains("bars"), "{message} {hint}");
}
