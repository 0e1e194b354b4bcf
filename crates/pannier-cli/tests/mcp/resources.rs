//! Resources: pages, cursors, and rebuilt caches.

use std::fs;

use serde_json::{Value, json};

use super::server::{Client, Fixture, metadata};

/// Builds a cache of `count` documents.
fn many(fixture: &Fixture, count: usize) {
    let folder = fixture.0.join("many");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    for number in 0..count {
        fs::write(folder.join(format!("{number:04} ü%.md")), format!("Document {number}."))
            .unwrap();
    }
    fixture.command(&["build", "--sources", "many", "--cache", "pages"]);
}

/// Lists all pages.
fn pages(client: &mut Client) -> Vec<Vec<Value>> {
    let (mut pages, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let params = match &cursor {
            Value::Null => json!({}),
            cursor => json!({ "cursor": cursor }),
        };
        let answer = client.request("resources/list", params);
        pages.push(answer["result"]["resources"].as_array().unwrap().clone());
        cursor = answer["result"]["nextCursor"].clone();
        if cursor.is_null() {
            return pages;
        }
    }
}

#[test]
fn pages_list_every_resource_once() {
    let fixture = Fixture::new("pages");
    many(&fixture, 250);
    let arguments = ["--cache", "handbook", "--cache", "pages", "--docs", "examples/snippets"];
    let mut client = fixture.serve_only(&arguments);
    let listed = pages(&mut client);
    assert_eq!(listed.iter().map(Vec::len).collect::<Vec<_>>(), [100, 100, 60]);
    let all: Vec<Value> = listed.concat();
    let mut uris: Vec<&str> =
        all.iter().map(|resource| resource["uri"].as_str().unwrap()).collect();
    assert_eq!(uris[3], "pannier://pages/docs/0000%20%C3%BC%25.md");
    // Each URI can be read.
    for uri in uris.iter().step_by(37) {
        let answer = client.request("resources/read", json!({ "uri": uri }));
        assert_eq!(answer["result"]["contents"][0]["uri"], **uri, "{answer}");
        assert_eq!(answer["result"]["contents"][0]["mimeType"], "text/markdown");
    }
    uris.sort_unstable();
    uris.dedup();
    assert_eq!(uris.len(), 260);
    // Another process returns the same pages.
    let mut other = fixture.serve_only(&arguments);
    assert_eq!(pages(&mut other), listed);
}

#[test]
fn unreadable_folder_does_not_hide_other_resources() {
    let fixture = Fixture::new("half");
    let mut client = fixture.serve();
    let count = |client: &mut Client| pages(client).concat().len();
    let all = count(&mut client);
    fs::rename(fixture.0.join("handbook"), fixture.0.join("gone")).unwrap();
    let snippets = count(&mut client);
    assert!(0 < snippets && snippets < all, "{snippets} of {all}");
    fs::remove_file(fixture.0.join("examples/snippets/index.yaml")).unwrap();
    let answer = client.request("resources/list", json!({}));
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    fs::rename(fixture.0.join("gone"), fixture.0.join("handbook")).unwrap();
    assert_eq!(count(&mut client), all - snippets);
}

#[test]
fn forged_and_stale_cursors_are_rejected() {
    let fixture = Fixture::new("cursors");
    many(&fixture, 150);
    let mut client = fixture.serve_only(&["--cache", "pages"]);
    let first = client.request("resources/list", json!({}));
    let cursor = first["result"]["nextCursor"].as_str().unwrap().to_owned();
    let (_, hash) = cursor.split_once('-').unwrap();
    for wrong in [
        "",
        "100",
        "x",
        "100-",
        &format!("101-{hash}"),
        &format!("{cursor}0"),
        "-1-x",
        &"9".repeat(50),
    ] {
        let answer = client.request("resources/list", json!({ "cursor": wrong }));
        assert_eq!(answer["error"]["code"], -32602, "{wrong}: {answer}");
    }
    assert!(client.request("resources/list", json!({ "cursor": cursor }))["result"].is_object());
    // A cursor of an older list is rejected.
    many(&fixture, 151);
    let answer = client.request("resources/list", json!({ "cursor": cursor }));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert_eq!(client.request("tools/list", json!({ "cursor": "x" }))["error"]["code"], -32602);
}

#[test]
fn unknown_resources_have_the_code_of_the_protocol_version() {
    let fixture = Fixture::new("unknown");
    let mut client = fixture.serve();
    for uri in [
        "pannier://handbook/docs/none.md",
        "pannier://none/docs/lunch.md",
        "file:///etc/passwd",
        "",
    ] {
        let old = client.request("resources/read", json!({ "uri": uri }));
        assert_eq!(old["error"]["code"], -32002, "{old}");
        let new = client.request("resources/read", json!({ "uri": uri, "_meta": metadata() }));
        assert_eq!(new["error"]["code"], -32602, "{new}");
        assert_eq!(new["error"]["data"]["uri"], uri);
    }
    let document =
        client.request("resources/read", json!({ "uri": "pannier://HANDBOOK/docs/lunch.md" }));
    assert_eq!(document["result"]["contents"][0]["text"], "The canteen closes at two.");
    let uri = "pannier://snippets/snippets/global/policy/names";
    let snippet = client.request("resources/read", json!({ "uri": uri, "_meta": metadata() }));
    let text = snippet["result"]["contents"][0]["text"].as_str().unwrap();
    assert!(!text.starts_with("---") && text.len() > 20, "{text}");
    assert!(snippet["result"]["ttlMs"].as_u64().unwrap() > 0);
    let templates = client.request("resources/templates/list", json!({}));
    let templates = templates["result"]["resourceTemplates"].as_array().unwrap().clone();
    assert_eq!(templates[0]["uriTemplate"], "pannier://handbook/docs/{+name}");
}

#[test]
fn rebuilt_cache_is_reloaded_by_the_next_call() {
    let fixture = Fixture::new("rebuilt");
    let mut client = fixture.serve();
    let ask = json!({ "query": "canteen", "budget": 20 });
    let before = client.text("resolve_context", ask.clone());
    fs::write(fixture.0.join("examples/handbook/lunch.md"), "The canteen is closed.").unwrap();
    assert_eq!(client.text("resolve_context", ask.clone()), before);
    fixture.command(&["build", "--sources", "examples/handbook", "--cache", "handbook"]);
    let after = client.text("resolve_context", ask.clone());
    assert!(after.contains("The canteen is closed."), "{after}");
    assert_eq!(
        after,
        fixture
            .command(&["resolve", "--cache", "handbook", "--query", "canteen", "--budget", "20"])
    );
    // Snippet indexes and memory files are reloaded, too.
    fs::write(
        fixture.0.join("examples/snippets/new.md"),
        "---\nid: a/new\ndescription: New.\ntype: policy\nscope: global\n---\nNew.\n",
    )
    .unwrap();
    fixture.command(&["snippets", "index", "--root", "examples/snippets"]);
    assert!(client.text("get_context", json!({})).contains("a/new"));
    fs::write(
        fixture.0.join("examples/harbour/.context/CONSTITUTION.md"),
        "# Rules\n\n- Whistle.\n",
    )
    .unwrap();
    assert!(client.text("memory_packet", json!({})).contains("Whistle"));
    // A removed cache is an error until it is restored.
    fs::rename(fixture.0.join("handbook"), fixture.0.join("away")).unwrap();
    assert_eq!(client.problem("resolve_context", ask.clone()).0, "cache_missing");
    fs::rename(fixture.0.join("away"), fixture.0.join("handbook")).unwrap();
    assert_eq!(client.text("resolve_context", ask), after);
}
