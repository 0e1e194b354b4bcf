//! No answer and no error of the JSON API has a path of the server.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::api::requests;
use super::server::{Server, config, folder};

/// Collects the texts that the server sends.
struct Listener<'s> {
    server: &'s Server,
    texts: Vec<String>,
}

impl Listener<'_> {
    /// Posts a body, and returns the status.
    fn post(&mut self, path: &str, body: &str) -> u16 {
        let response = self.server.post(path, "", body);
        self.texts.push(format!("{path} {body:.200}: {} {}", response.head, response.body));
        let text = self.server.post(path, "Accept: text/plain\r\n", body);
        self.texts.push(format!("{path} {body:.200}: {}", text.body));
        response.status
    }

    /// Posts every request of the routes.
    fn post_all(&mut self) -> Vec<(&'static str, u16)> {
        let requests = requests();
        requests
            .into_iter()
            .map(|(path, body, _)| (path, self.post(path, &body.to_string())))
            .collect()
    }

    /// Fails if a text has the root of the folders, or a parent of it.
    fn check(&self, root: &Path) {
        let root = fs::canonicalize(root).unwrap();
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

/// Returns all files below a folder.
fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn no_answer_of_a_route_shows_a_path_of_the_server() {
    let root = folder("privacy");
    let mut config = config(&root);
    // A default tokenizer from a file has a path of its own.
    let tokenizer = root.join("tokenizer.json");
    fs::write(&tokenizer, TOKENIZER).unwrap();
    config.defaults.tokenizer = Some(format!("file:{}", tokenizer.display()));
    let server = Server::start(config, |_| {});
    let mut listener = Listener { server: &server, texts: Vec::new() };
    for (path, status) in listener.post_all() {
        assert_eq!(status, 200, "{path}: {}", listener.texts.last().unwrap());
    }
    let (_, counted) = server.call("/v1/count", json!({ "texts": ["one two"] }));
    assert_eq!(
        (&counted["answer"]["tokenizer"], &counted["answer"]["total"]),
        (&json!("default"), &json!(2))
    );

    // Options of the wrong type, names that do not exist, and budgets that no answer fits.
    let mut refused = 0;
    for (path, body, _) in requests() {
        for name in body.as_object().unwrap().keys().map(String::as_str).chain([
            "index",
            "project",
            "snippets",
            "policy",
            "tokenizer",
            "template",
            "embedder",
            "reranker",
            "provider",
            "paths",
            "session",
            "no_such_option",
        ]) {
            for value in [json!("none.toml"), json!("a/b"), json!(-1), json!([["x"]]), json!({})] {
                let mut body = body.clone();
                body[name] = value;
                refused += usize::from(listener.post(path, &body.to_string()) >= 400);
            }
        }
        for body in ["", "{", "[]", "null", "{\"items\": 3}"] {
            assert_eq!(listener.post(path, body), 400, "{path} {body}");
        }
    }
    assert!(refused > 400, "{refused}");

    // Folders that are damaged, and then gone.
    let examples = root.join("examples");
    for file in walk(&root.join("index")) {
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..bytes.len() / 3]).unwrap();
    }
    for index in walk(&examples.join("snippets")).iter().filter(|path| path.ends_with("index.yaml"))
    {
        fs::write(index, "snippets: [").unwrap();
    }
    fs::write(examples.join("harbour/.ctxrc"), "token_budget: [").unwrap();
    let _ = fs::remove_dir_all(root.join("state"));
    fs::write(root.join("state"), "not a folder").unwrap();
    let session = json!({ "ids": ["project/spec/refund-endpoint"], "session": "s" });
    listener.post("/v1/snippets", &session.to_string());
    let damaged = listener.post_all();
    fs::rename(root.join("index"), root.join("away")).unwrap();
    fs::rename(examples.join("snippets"), root.join("no-snippets")).unwrap();
    fs::rename(examples.join("harbour"), root.join("no-harbour")).unwrap();
    let gone = listener.post_all();
    for (route, statuses) in [("damaged", damaged), ("gone", gone)] {
        let failed =
            |path: &str| statuses.iter().any(|(other, status)| *other == path && *status >= 400);
        for path in ["/v1/search", "/v1/read", "/v1/memory", "/v1/snippets"] {
            assert!(failed(path), "{route} {path}: {statuses:?}");
        }
    }
    assert!(listener.texts.len() > 1_000, "{}", listener.texts.len());
    listener.check(&root);
}

/// A tokenizer that counts words.
const TOKENIZER: &str = r#"{
    "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
    "pre_tokenizer": { "type": "WhitespaceSplit" }, "post_processor": null, "decoder": null,
    "model": { "type": "WordLevel", "vocab": { "[UNK]": 0 }, "unk_token": "[UNK]" }
}"#;
