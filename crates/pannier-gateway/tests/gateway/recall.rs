//! What was cut, by the tool `recall`.

use serde_json::{Value, json};

use super::support::{Folder, Gateway, Message, OK, Provider, post_as, session};

fn call(gateway: &Gateway, headers: &str, method: &str, params: &Value) -> Message {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-06-18\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    );
    gateway.exchange(head.as_bytes())
}

fn recall(gateway: &Gateway, key: &str, id: &str) -> Value {
    let headers = format!("Host: localhost\r\nAuthorization: Bearer {key}\r\n");
    let params = json!({ "name": "recall", "arguments": { "id": id } });
    let answer = call(gateway, &headers, "tools/call", &params);
    assert_eq!(answer.status(), 200, "{}", answer.text());
    serde_json::from_slice::<Value>(&answer.body).unwrap()["result"].clone()
}

/// Returns the ids in a request.
fn ids(sent: &str) -> Vec<String> {
    let after = sent.split("recall ").skip(1);
    let id = |text: &str| text.chars().take_while(char::is_ascii_hexdigit).collect::<String>();
    after.map(id).filter(|id| id.len() >= 8).collect()
}

#[test]
fn cut_blocks_are_recalled_by_the_same_key() {
    let provider = Provider::always(OK);
    let folder = Folder::new("gateway-recall");
    let state = folder.0.clone();
    let start = || {
        Gateway::start(&provider.url, |options| {
            (options.state, options.recall) = (Some(state.clone()), true);
        })
    };
    let gateway = start();
    let body = session(40, 40);
    gateway.post("/v1/messages", "", &body);
    let sent = provider.received().text();
    let ids = ids(&sent);
    assert!(!ids.is_empty(), "{sent}");
    let text = |result: &Value| result["content"][0]["text"].as_str().unwrap().to_owned();
    for id in &ids {
        let result = recall(&gateway, "key-1", id);
        assert_ne!(result["isError"], true, "{id}: {result}");
        assert!(text(&result).contains("word"), "{result}");
        // The id alone is not enough.
        let other = recall(&gateway, "key-2", id);
        assert_eq!(other["isError"], true, "{other}");
        assert!(!text(&other).contains("word"));
    }
    // The same request of another user has the same ids, and the blocks are its own.
    gateway.exchange(&post_as("key-2", "/v1/messages", "", &body));
    assert!(provider.received().text() == sent);
    assert_ne!(recall(&gateway, "key-2", &ids[0])["isError"], true);
    // Without a key, nothing is kept and nothing is named.
    let anonymous = body.replace("Fix the build", "Fix the tests");
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        anonymous.len()
    );
    gateway.exchange(&[head.as_bytes(), anonymous.as_bytes()].concat());
    let sent = provider.received().text();
    assert!(sent.contains(" left out") && !sent.contains("recall"));
    // The ids outlive a restart.
    drop(gateway);
    assert_ne!(recall(&start(), "key-1", &ids[0])["isError"], true);
}

#[test]
fn recall_is_the_only_tool_and_needs_a_key_and_this_host() {
    let provider = Provider::always(OK);
    let folder = Folder::new("gateway-recall-guard");
    let state = folder.0.clone();
    let gateway = Gateway::start(&provider.url, |options| {
        (options.state, options.recall) = (Some(state), true);
    });
    let key = "Host: localhost\r\nX-Api-Key: key-1\r\n";
    let answer = call(&gateway, key, "tools/list", &json!({}));
    let value: Value = serde_json::from_slice(&answer.body).unwrap();
    let tools = value["result"]["tools"].as_array().unwrap();
    assert_eq!((tools.len(), &tools[0]["name"]), (1, &json!("recall")), "{value}");
    for name in ["pack_items", "search_docs", "get_memory"] {
        let params = json!({ "name": name, "arguments": { "items": [], "budget": 5 } });
        let answer = call(&gateway, key, "tools/call", &params).text();
        assert!(answer.contains("there is no tool"), "{answer}");
    }
    // A store or a session of the caller's choice is not read.
    for arguments in [json!({ "id": "aaaaaaaa", "store": "/" }), json!({ "id": "../../secret" })] {
        let params = json!({ "name": "recall", "arguments": arguments });
        let answer = call(&gateway, key, "tools/call", &params).text();
        assert!(answer.contains("\"isError\":true"), "{answer}");
        assert!(!answer.contains("gateway-recall-guard"), "{answer}");
    }
    for (headers, status) in [
        ("Host: localhost\r\n", 401),
        ("Host: evil.example\r\nX-Api-Key: key-1\r\n", 403),
        ("Host: localhost\r\nX-Api-Key: key-1\r\nOrigin: https://evil.example\r\n", 403),
    ] {
        let answer = call(&gateway, headers, "tools/list", &json!({}));
        assert_eq!(answer.status(), status, "{headers}: {}", answer.text());
    }
    assert!(provider.received_nothing());
    // Without the option, the path is the provider's.
    let gateway = Gateway::start(&provider.url, |_| {});
    call(&gateway, key, "tools/list", &json!({}));
    assert_eq!(provider.received().head[0], "POST /mcp HTTP/1.1");
}

#[test]
fn recall_needs_a_folder() {
    let upstreams = pannier_gateway::Upstreams::parse(["http://localhost:1"]).unwrap();
    let mut options = pannier_gateway::GatewayOptions::new("0".parse().unwrap(), upstreams, 1_000);
    options.recall = true;
    let error = pannier_gateway::serve(&options, |_| {}).unwrap_err().to_string();
    assert!(error.contains("--state"), "{error}");
}
