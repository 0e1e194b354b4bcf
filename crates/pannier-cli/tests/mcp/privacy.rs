//! No answer and no error has a path of the server, and one folder that is gone does not break the others.

use std::fs;

use serde_json::{Value, json};

use super::budgets::count;
use super::server::{Client, Fixture};

/// Collects every text that the server sends.
struct Listener<'f> {
    fixture: &'f Fixture,
    texts: Vec<String>,
}

impl Listener<'_> {
    #[expect(clippy::needless_pass_by_value, reason = "a test writes it where it is used")]
    fn call(&mut self, client: &mut Client, name: &str, arguments: Value) -> Value {
        let answer = client.request("tools/call", json!({ "name": name, "arguments": arguments }));
        self.texts.push(answer.to_string());
        answer["result"].clone()
    }

    fn request(&mut self, client: &mut Client, method: &str, params: Value) {
        let answer = client.request(method, params);
        self.texts.push(answer.to_string());
    }

    /// Fails if a text has the root of the folders, or a parent of it.
    fn check(&self) {
        let root = fs::canonicalize(&self.fixture.0).unwrap();
        let parents = root.ancestors().filter(|parent| parent.components().count() > 2);
        let parents: Vec<String> = parents.map(|parent| parent.display().to_string()).collect();
        assert!(parents.len() >= 2, "{parents:?}");
        for text in &self.texts {
            for parent in &parents {
                assert!(!text.contains(parent.as_str()), "{parent}: {text}");
            }
        }
    }
}

fn problem(result: &Value) -> Value {
    assert_eq!(result["isError"], true, "{result}");
    serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
}

#[test]
fn no_error_shows_a_path_of_the_server() {
    let fixture = Fixture::new("privacy");
    fixture.command(&["build", "--sources", "examples/handbook", "--cache", "second"]);
    fixture.command(&["build", "--sources", "examples/handbook", "--cache", "third"]);
    let absolute = |name: &str| fixture.0.join(name).display().to_string();
    let (one, second, third) = (absolute("handbook"), absolute("second"), absolute("third"));
    let (snippets, harbour) = (absolute("examples/snippets"), absolute("examples/harbour"));
    let mut client = fixture.serve_only(&[
        "--index",
        &format!("one={one}"),
        "--index",
        &format!("second={second}"),
        "--index",
        &format!("third={third}"),
        "--snippets",
        &snippets,
        "--memory",
        &harbour,
    ]);
    let mut listener = Listener { fixture: &fixture, texts: Vec::new() };
    let search = |index: &str| json!({ "query": "deploy", "index": index });
    assert_eq!(listener.call(&mut client, "search_docs", search("one"))["isError"], false);

    // One index is gone, and another one is damaged.
    fs::rename(&second, absolute("away")).unwrap();
    let segments = walk(&third);
    assert!(!segments.is_empty());
    for file in segments {
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..bytes.len() / 3]).unwrap();
    }
    let gone = listener.call(&mut client, "search_docs", search("second"));
    assert_eq!(problem(&gone)["code"], "cache_missing", "{gone}");
    for tool in ["search_docs", "read_docs", "context.resolve", "context.inspect_cache"] {
        for index in ["second", "third", "fourth"] {
            let mut arguments = search(index);
            if tool.starts_with("context.") {
                arguments = json!({ "cache": index, "query": "deploy", "budget": 50 });
            }
            if tool == "context.inspect_cache" {
                arguments = json!({ "cache": index });
            }
            listener.call(&mut client, tool, arguments);
        }
    }
    assert_eq!(listener.call(&mut client, "search_docs", search("one"))["isError"], false);
    let listed = listener.call(&mut client, "context.list_caches", json!({}));
    let listed: Value =
        serde_json::from_str(listed["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(listed["caches"][0]["documents"], 3, "{listed}");
    assert_eq!(listed["caches"][1], json!({ "name": "second", "error": "cache_missing" }));
    let page = client.request("resources/list", json!({}));
    assert!(page["result"]["resources"].as_array().unwrap().len() >= 3, "{page}");
    listener.texts.push(page.to_string());

    // The specification's form of errors.
    let missing = listener.call(
        &mut client,
        "context.resolve",
        json!({ "cache": "x", "query": "x", "budget": 5 }),
    );
    let missing = problem(&missing);
    assert_eq!(missing["error"]["code"], "cache_missing", "{missing}");
    assert_eq!(missing.as_object().unwrap().len(), 1);
    assert_eq!(missing["error"].as_object().unwrap().len(), 2);
    for (arguments, code) in [
        (json!({ "cache": "one", "query": "x", "budget": -1 }), "invalid_budget"),
        (json!({ "cache": "one", "query": 5, "budget": 1 }), "invalid_query"),
        (json!({ "cache": "one", "query": "x".repeat(1 << 17), "budget": 1 }), "invalid_query"),
        (json!({ "cache": "second", "query": "x", "budget": 1 }), "cache_missing"),
    ] {
        let result = listener.call(&mut client, "context.resolve", arguments.clone());
        assert_eq!(problem(&result)["error"]["code"], code, "{arguments}: {result}");
    }
    let long = json!({ "index": "one", "query": "x".repeat(1 << 17), "budget": 1 });
    let long = listener.call(&mut client, "resolve_context", long);
    assert_eq!(problem(&long)["code"], "invalid_input");

    // Other folders that are gone or damaged, and arguments that are wrong.
    let index_file = walk(&snippets).into_iter().find(|path| path.ends_with("index.yaml")).unwrap();
    fs::write(&index_file, "snippets: [").unwrap();
    listener.call(&mut client, "get_context", json!({}));
    fs::remove_file(&index_file).unwrap();
    listener.call(&mut client, "get_context", json!({}));
    listener.call(&mut client, "get_context", json!({ "snippet_ids": ["a/b"], "session": "s" }));
    fs::write(absolute("examples/harbour/.ctxrc"), "token_budget: [").unwrap();
    listener.call(&mut client, "get_memory", json!({}));
    fs::remove_file(absolute("examples/harbour/.ctxrc")).unwrap();
    fs::rename(absolute("examples/harbour/.context"), absolute("gone")).unwrap();
    listener.call(&mut client, "get_memory", json!({}));
    for (tool, arguments) in [
        ("search_docs", json!({})),
        ("search_docs", json!({ "query": "x", "index": one })),
        ("search_docs", json!({ "query": "x", "index": "one", "paths": ["["] })),
        ("search_docs", json!({ "query": "x", "index": "one", "mode": "semantic" })),
        ("search_docs", json!({ "query": "x", "index": "one", "tokenizer": "file:x" })),
        ("read_docs", json!({ "index": "one", "paths": ["none.md"] })),
        ("get_context", json!({ "snippet_ids": ["../x"] })),
        ("get_memory", json!({ "ids": ["none"] })),
        ("get_memory", json!({ "project": "none" })),
        ("pack_items", json!({ "items": 3 })),
        ("pack_items", json!({ "items": [], "budget": 5, "policy": "none.toml" })),
        ("recall", json!({ "id": "none" })),
    ] {
        let result = listener.call(&mut client, tool, arguments.clone());
        // Repeating a client's own path is no news to it.
        if arguments["index"] == one.as_str() {
            listener.texts.pop();
        }
        assert_eq!(result["isError"], true, "{tool} {arguments}: {result}");
    }
    for uri in ["pannier://second/docs/lunch.md", "pannier://third/docs/lunch.md", "file:///etc"] {
        listener.request(&mut client, "resources/read", json!({ "uri": uri }));
    }
    listener.request(&mut client, "prompts/get", json!({ "name": "project_memory" }));
    assert!(listener.texts.len() > 40);
    listener.check();
}

/// Returns all files below a folder.
fn walk(folder: &str) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(walk(path.to_str().unwrap())),
            false => files.push(path),
        }
    }
    files.sort();
    files
}

#[test]
fn an_index_with_embeddings_answers_by_words_without_its_model() {
    let fixture = Fixture::new("blind");
    let chunks = fixture.command(&["docs", "chunks", "--index", "handbook"]);
    let vectors = chunks.lines().enumerate().map(|(number, line)| {
        let chunk: Value = serde_json::from_str(line).unwrap();
        json!({ "id": chunk["id"], "vector": [number + 1, 1, 2] }).to_string() + "\n"
    });
    fs::write(fixture.0.join("vectors.jsonl"), vectors.collect::<String>()).unwrap();
    fixture.command(&[
        "build",
        "--sources",
        "examples/handbook",
        "--cache",
        "handbook",
        "--vectors",
        "vectors.jsonl",
        "--force",
    ]);
    let mut client = fixture.serve();
    for budget in [60, 100, 2_000] {
        let result = client.call("search_docs", json!({ "query": "roll back", "budget": budget }));
        assert_eq!(result["isError"], false, "{result}");
        assert!(result["content"][0]["text"].as_str().unwrap().contains("guides/rollback.md:"));
        assert!(count(&result) <= budget, "{budget}: {result}");
        let note = "searched by words only";
        match budget {
            60 => assert!(result["_meta"].to_string().contains(note), "{result}"),
            _ => assert!(result["content"][1]["text"].as_str().unwrap().contains(note), "{result}"),
        }
    }
    let (code, ..) = client.problem("search_docs", json!({ "query": "x", "mode": "semantic" }));
    assert_eq!(code, "invalid_input");
}
