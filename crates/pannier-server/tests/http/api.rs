//! The JSON API: every route, its errors, its OpenAPI document, and names that are paths.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use super::server::{Server, config, folder};

/// A request for each route, and a part of its answer.
pub(crate) fn requests() -> Vec<(&'static str, Value, &'static str)> {
    let items = json!([
        { "content": "Refunds take five days.", "id": "refund", "tokens": 7 },
        { "content": "The canteen closes at two.", "id": "canteen", "tokens": 7 }
    ]);
    let messages = json!([{ "role": "user", "content": "Old ones." }]);
    vec![
        ("/v1/pack", json!({ "items": items, "budget": 8 }), r#""selected":1"#),
        (
            "/v1/explain",
            json!({ "items": items, "budget": 8, "explain": ["canteen"] }),
            "explanations",
        ),
        ("/v1/what-if", json!({ "items": items }), r#""budgets":"#),
        ("/v1/what-if", json!({ "items": items, "item": "canteen" }), "min_budget"),
        ("/v1/what-if", json!({ "items": items, "budget": 14, "tokens": 7 }), "slack_tokens"),
        ("/v1/chat", json!({ "transcript": messages, "budget": 100 }), "Old ones."),
        ("/v1/search", json!({ "query": "deploy", "index": "handbook" }), r#""path":"#),
        ("/v1/read", json!({ "query": "deploy" }), r#""path":"#),
        ("/v1/memory", json!({ "project": "harbour", "budget": 400 }), "markdown"),
        ("/v1/snippets", json!({}), "project/spec/refund-endpoint"),
        ("/v1/snippets", json!({ "ids": ["project/spec/refund-endpoint"] }), "refund"),
        ("/v1/count", json!({ "texts": ["one two"], "tokenizer": "o200k" }), r#""total":2"#),
    ]
}

#[test]
fn every_route_answers_as_json_and_as_text() {
    let server = Server::with_examples("routes");
    let mut called = BTreeSet::new();
    for (path, body, part) in requests() {
        let json = server.post(path, "", &body.to_string());
        assert_eq!(json.status, 200, "{path} {body}: {}", json.body);
        assert!(json.head.contains("content-type: application/json"), "{}", json.head);
        let answer: Value = serde_json::from_str(&json.body).unwrap();
        assert!(answer["answer"].to_string().contains(part), "{path}: {answer}");
        assert!(answer["answer"].is_object() && answer["warnings"].is_array(), "{answer}");
        let text = server.post(path, "Accept: text/plain\r\n", &body.to_string());
        assert_eq!(text.status, 200, "{path}: {}", text.body);
        assert!(text.head.contains("content-type: text/plain") && !text.body.is_empty());
        called.insert(path);
    }
    let paths = openapi(&server)["paths"].as_object().unwrap().clone();
    let documented: BTreeSet<&str> = paths.keys().map(String::as_str).collect();
    assert_eq!(called, documented, "each route has a test");
}

/// Returns why a value does not match a schema, with the path to it.
fn mismatch(value: &Value, schema: &Value, all: &Value, path: &str) -> Option<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap();
        return mismatch(value, &all[name], all, path);
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let problems: Vec<String> =
            choices.iter().map_while(|choice| mismatch(value, choice, all, path)).collect();
        return (problems.len() == choices.len()).then(|| problems.join("; or "));
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let is_kind = |name: &Value| *name == kind || (*name == "number" && kind == "integer");
    let is_allowed = match &schema["type"] {
        Value::Null => true,
        Value::Array(names) => names.iter().any(is_kind),
        name => is_kind(name),
    };
    if !is_allowed {
        return Some(format!("{path} is a {kind}, not {}", schema["type"]));
    }
    if let Some(values) = value.as_array() {
        return values
            .iter()
            .find_map(|value| mismatch(value, &schema["items"], all, &format!("{path}[]")));
    }
    let (Some(object), Some(properties)) = (value.as_object(), schema["properties"].as_object())
    else {
        return None;
    };
    let required = schema["required"].as_array().into_iter().flatten();
    if let Some(missing) =
        required.filter_map(Value::as_str).find(|name| !object.contains_key(*name))
    {
        return Some(format!("{path} has no {missing}"));
    }
    object.iter().find_map(|(name, value)| match properties.get(name) {
        Some(schema) => mismatch(value, schema, all, &format!("{path}.{name}")),
        None if schema.get("additionalProperties").is_some() => None,
        None => Some(format!("{path}.{name} is not documented")),
    })
}

#[test]
fn answers_match_their_schemas() {
    let server = Server::with_examples("schemas");
    let document = openapi(&server);
    let all = &document["components"]["schemas"];
    let items = json!([
        { "content": "Refunds take five days.", "id": "refund", "tags": ["a"], "priority": 3, "pinned": true,
          "timestamp": "2026-03-01T12:00:00Z", "metadata": { "place": 1 }, "group": "g", "futureRelevanceHint": 0.5,
          "forms": [{ "name": "title", "content": "Refunds" }] },
        { "content": "The canteen closes at two.", "id": "canteen", "source": "rag", "kind": "Document", "group": "g" }
    ]);
    let long = "word ".repeat(3_000);
    let session = json!([
        { "role": "user", "content": "Read it." },
        { "role": "assistant", "content": null, "tool_calls": [{ "id": "c", "type": "function", "function": { "name": "read", "arguments": "{}" } }] },
        { "role": "tool", "tool_call_id": "c", "content": long },
        { "role": "user", "content": "And now?" }
    ]);
    let ids = json!(["project/spec/refund-endpoint"]);
    let more = [
        (
            "/v1/pack",
            json!({ "items": items, "budget": 60, "reserve": 5, "margin": 5, "slots": ["Memory=3"], "tokenizer": "o200k" }),
        ),
        ("/v1/explain", json!({ "items": items, "budget": 30, "explain": ["canteen", "refund"] })),
        (
            "/v1/pack",
            json!({ "items": items, "budget": 60, "explain": ["refund"], "query": "refunds" }),
        ),
        ("/v1/chat", json!({ "transcript": session, "budget": 500 })),
        ("/v1/chat", json!({ "transcript": session, "budget": 500, "explain": ["2"] })),
        ("/v1/chat", json!({ "transcript": session, "budget": 4_000, "once": true })),
        (
            "/v1/chat",
            json!({ "transcript": session, "budget": 4_000, "once": true, "explain": ["0"] }),
        ),
        (
            "/v1/chat",
            json!({ "transcript": session, "previous": session, "budget": 4_000, "once": true }),
        ),
        ("/v1/search", json!({ "query": "deploy", "budget": 150 })),
        ("/v1/search", json!({ "query": "deploy", "explain": ["0"] })),
        ("/v1/search", json!({ "query": "zebra" })),
        ("/v1/read", json!({ "query": "deploy", "budget": 120 })),
        ("/v1/read", json!({ "paths": ["lunch.md"], "explain": ["lunch.md"] })),
        ("/v1/memory", json!({ "format": "json", "query": "payment" })),
        ("/v1/memory", json!({ "format": "jsonl" })),
        ("/v1/memory", json!({ "explain": ["0"] })),
        ("/v1/snippets", json!({ "query": "refund" })),
        ("/v1/snippets", json!({ "ids": ids, "session": "s" })),
        ("/v1/snippets", json!({ "ids": ids, "session": "s" })),
    ];
    let requests = requests().into_iter().map(|(path, body, _)| (path, body)).chain(more);
    for (path, body) in requests {
        let (status, answer) = server.call(path, body.clone());
        assert_eq!(status, 200, "{path} {body:.300}: {answer}");
        let response = &document["paths"][path]["post"]["responses"]["200"];
        let schema = &response["content"]["application/json"]["schema"];
        let problem = mismatch(&answer, schema, all, "response");
        assert_eq!(problem, None, "{path} {body:.300}: {answer}");
    }
    // Neither do answers match other schemas: the test can fail.
    let (_, counted) = server.call("/v1/count", json!({ "texts": ["one"] }));
    for name in ["PackResponse", "SearchResponse", "SnippetsResponse"] {
        assert!(mismatch(&counted, &all[name], all, "response").is_some(), "{name}");
    }
}

#[test]
fn chats_keep_the_order_of_keys_and_every_digit() {
    let server = Server::with_examples("chats");
    let messages =
        r#"[{"role":"user","content":"Old ones.","z":1.50,"a":12345678901234567890123}]"#;
    let body = format!("{{\"budget\":100,\"transcript\":{messages}}}");
    let sent = server.post("/v1/chat", "Accept: text/plain\r\n", &body);
    assert_eq!((sent.status, sent.body.trim()), (200, messages));
}

fn openapi(server: &Server) -> Value {
    let document = server.get("/v1/openapi.json", "");
    assert_eq!(document.status, 200);
    serde_json::from_str(&document.body).unwrap()
}

#[test]
fn openapi_document_equals_the_file() {
    let server = Server::start(Default::default(), |_| {});
    let text = server.get("/v1/openapi.json", "").body;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/openapi.json");
    if std::env::var_os("PANNIER_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let file = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(file == text, "run the test again with PANNIER_BLESS=1, and look at the difference");
}

#[test]
fn invalid_requests_say_what_to_do() {
    let server = Server::with_examples("invalid");
    for (path, body, status, code) in [
        ("/v1/pack", json!([]), 400, "invalid_input"),
        ("/v1/pack", json!({ "items": [], "budgt": 5 }), 400, "invalid_input"),
        ("/v1/pack", json!({ "items": [{ "content": 5 }], "budget": 5 }), 400, "invalid_input"),
        ("/v1/explain", json!({ "items": [], "budget": 5 }), 400, "invalid_input"),
        ("/v1/search", json!({ "query": "x", "index": "other" }), 400, "invalid_input"),
        (
            "/v1/snippets",
            json!({ "ids": ["project/spec/refund-endpoint"], "budget": 3 }),
            422,
            "budget_not_met",
        ),
    ] {
        let (actual, answer) = server.call(path, body.clone());
        assert_eq!((actual, &answer["error"]["code"]), (status, &json!(code)), "{body}: {answer}");
        assert!(!answer["error"]["message"].as_str().unwrap().is_empty(), "{answer}");
    }
    assert_eq!(server.post("/v1/pack", "", "{").status, 400);
    assert_eq!(server.post("/v1/nothing", "", "{}").status, 404);
    assert_eq!(server.get("/v1/pack", "").status, 405);
    let mut limited = config(&folder("limited"));
    limited.limits.input = 100_000;
    limited.limits.output = 256;
    let limited = Server::start(limited, |_| {});
    let (status, answer) = limited.call("/v1/count", json!({ "texts": ["x".repeat(200_000)] }));
    assert_eq!((status, &answer["error"]["code"]), (413, &json!("too_large")), "{answer}");
    let (status, answer) = limited.call("/v1/count", json!({ "texts": vec!["x"; 100] }));
    assert_eq!((status, &answer["error"]["code"]), (422, &json!("too_large")), "{answer}");
}

/// Options whose texts are names of things that the server has. The others are contents, patterns and words.
const NAMES: [&str; 9] = [
    "embedder",
    "index",
    "policy",
    "project",
    "provider",
    "reranker",
    "snippets",
    "template",
    "tokenizer",
];

#[test]
fn no_option_names_a_path() {
    let folder = folder("paths");
    let mut config = config(&folder);
    let policy = folder.join("examples/support.toml").display().to_string();
    config.named.add_policy("support", &policy).unwrap();
    config.named.add_tokenizer("small", "cl100k").unwrap();
    config.named.add_reranker("judge", "http://127.0.0.1:9/v1#judge", None).unwrap();
    let template = folder.join("template.toml").display().to_string();
    std::fs::write(&template, "separator = \" | \"\n").unwrap();
    config.named.add_template("bars", &template).unwrap();
    let server = Server::start(config, |_| {});
    let secret = folder.join("secret.toml").display().to_string();
    let file = format!("file:{secret}");
    let hostile = [
        &*secret,
        &*file,
        "../secret.toml",
        "/etc/passwd",
        "C:\\secret.toml",
        "\\\\host\\share",
        "postgres://localhost/x",
        "http://127.0.0.1:9/v1#model",
        "minilm:/etc",
        "~/secret.toml",
        "handbook/../../secret.toml",
        &*policy,
        &*template,
        "support.toml",
    ];
    let document = openapi(&server);
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let (mut options, mut refused) = (0, 0);
    for (path, body, _) in requests() {
        let operation = &document["paths"][path]["post"];
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        let forms = schema["anyOf"].as_array().cloned().unwrap_or_else(|| vec![schema.clone()]);
        let names = forms.iter().map(|form| form["$ref"].as_str().unwrap());
        let schemas: Vec<&Value> =
            names.map(|name| &schemas[name.rsplit('/').next().unwrap()]).collect();
        let own = schemas.iter().flat_map(|schema| schema["properties"].as_object().unwrap());
        // Options that only the command has.
        let local = ["aliases", "no_update", "embedder_key_env", "reranker_key_env"];
        let own = own.map(|(name, schema)| (name.as_str(), schema.clone()));
        for (name, schema) in own.chain(local.map(|name| (name, json!({ "type": "string" })))) {
            options += 1;
            for text in hostile {
                let mut body = body.clone();
                body[name] = match schema["type"] == "array" {
                    true => json!([text]),
                    false => json!(text),
                };
                let (status, answer) = server.call(path, body);
                let case = format!("{path} {name}={text}: {answer}");
                assert!(status < 500, "{case}");
                assert!(!answer.to_string().contains("1187"), "{case}");
                assert!(!answer.to_string().contains("root:"), "{case}");
                if NAMES.contains(&name) || local.contains(&name) {
                    assert_eq!(status, 400, "{case}");
                    refused += 1;
                }
            }
        }
    }
    assert!(options > 100 && refused > 500, "{options} {refused}");
    // The names of the configuration are no paths.
    let items = json!([{ "content": "one" }, { "content": "two" }]);
    let body = json!({ "items": items, "budget": 50, "policy": "support", "template": "bars", "tokenizer": "small" });
    let text = server.post("/v1/pack", "Accept: text/plain\r\n", &body.to_string());
    assert_eq!((text.status, text.body.trim()), (200, "one | two"));
    let (_, counted) = server.call("/v1/count", json!({ "texts": ["x"], "tokenizer": "small" }));
    assert_eq!(counted["answer"]["tokenizer"], "small");
    // The reranker is known, and its server is not there.
    let (status, answer) =
        server.call("/v1/search", json!({ "query": "deploy", "reranker": "judge" }));
    assert!(status >= 500, "{answer}");
}
