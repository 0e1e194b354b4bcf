//! The command, the server and the library give the same answers to the same requests: as JSON, and as text.

use pannier::ops::{
    Answer, Control, MemoryRequest, PackRequest, ReadRequest, Request, SearchRequest, Sends,
    SnippetGetRequest, SnippetListRequest,
};
use pannier::{Failure, Shelf};
use serde_json::{Value, json};

use super::outputs::items;
use super::server::{Client, Fixture};

/// A request: the tool, its arguments, and the command with its arguments that name folders and inputs.
struct Case {
    tool: &'static str,
    arguments: Value,
    command: &'static [&'static str],
    /// The path that the library takes for the server's folder, and its option.
    folder: Option<(&'static str, &'static str)>,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let questions = [
        "roll back",
        "how do we deploy?",
        "\"error rate\"",
        "database backup",
        "on call",
        "nothing of this",
    ];
    for query in questions {
        for budget in [100, 200, 400, 800, 1_200, 2_000, 4_000, 8_000] {
            cases.push(Case {
                tool: "search_docs",
                arguments: json!({ "query": query, "budget": budget }),
                command: &["docs", "search", "--index", "handbook"],
                folder: Some(("index", "handbook")),
            });
            cases.push(Case {
                tool: "read_docs",
                arguments: json!({ "query": query, "budget": budget, "tokenizer": "cl100k" }),
                command: &["docs", "read", "--index", "handbook"],
                folder: Some(("index", "handbook")),
            });
        }
    }
    for policy in ["chat", "rag", "debugging", "document-qa", "tool-use", "long-running"] {
        for (budget, reserve) in [(40, 0), (80, 10), (120, 0), (160, 40), (300, 0), (30, 5)] {
            cases.push(Case {
                tool: "pack_items",
                arguments: json!({ "budget": budget, "reserve": reserve, "policy": policy, "now": "2026-03-02" }),
                command: &["pack", "examples/support-chat.jsonl"],
                folder: None,
            });
        }
    }
    for explain in ["m1", "m3", "order", "#7"] {
        cases.push(Case {
            tool: "pack_items",
            arguments: json!({ "budget": 90, "query": "refund", "explain": [explain] }),
            command: &["pack", "examples/support-chat.jsonl"],
            folder: None,
        });
    }
    for query in ["payment webhook", "back up the database", "berth prices", "deploy"] {
        for budget in [150, 300, 420, 600, 1_000, 2_000, 4_000, 8_000] {
            cases.push(Case {
                tool: "get_memory",
                arguments: json!({ "query": query, "budget": budget, "now": "2026-11-16" }),
                command: &["memory", "show", "examples/harbour"],
                folder: Some(("project", "examples/harbour")),
            });
        }
    }
    for (query, limit) in [("refund", 2), ("names", 5), ("endpoint", 1), ("policy", 9)] {
        for areas in [json!(["spec"]), json!(["policy", "concept"]), json!(["design"]), json!([])] {
            cases.push(Case {
                tool: "get_context",
                arguments: json!({ "query": query, "limit": limit, "areas": areas }),
                command: &["snippets", "list", "--root", "examples/snippets"],
                folder: Some(("snippets", "examples/snippets")),
            });
        }
    }
    for budget in
        [400, 800, 1_500, 3_000, 4_000, 6_000, 8_000, 9_000, 10_000, 20_000, 30_000, 40_000]
    {
        cases.push(Case {
            tool: "get_context",
            arguments: json!({ "ids": ["project/spec/refund-endpoint"], "budget": budget }),
            command: &["snippets", "get", "--root", "examples/snippets"],
            folder: Some(("snippets", "examples/snippets")),
        });
    }
    for tokenizer in ["o200k", "cl100k", "gpt-5", "claude"] {
        for query in ["roll back", "deploy", "retention"] {
            cases.push(Case {
                tool: "search_docs",
                arguments: json!({ "query": query, "tokenizer": tokenizer, "paths": ["guides/**"], "neighbors": true }),
                command: &["docs", "search", "--index", "handbook"],
                folder: Some(("index", "handbook")),
            });
        }
    }
    cases
}

impl Case {
    /// Returns the arguments of the command: positional ones first, then flags.
    fn words(&self, format: &str) -> Vec<String> {
        let mut words: Vec<String> = self.command.iter().map(ToString::to_string).collect();
        let is_positional = |name: &str| match self.tool {
            "search_docs" | "read_docs" => name == "query",
            "get_context" => name == "ids",
            _ => false,
        };
        let flag = |name: &str| match name {
            "paths" => "--glob".to_owned(),
            "areas" => "--type".to_owned(),
            name => format!("--{}", name.replace('_', "-")),
        };
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        for (name, value) in self.arguments.as_object().unwrap() {
            let values = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
            for value in values {
                match value {
                    Value::Bool(true) => words.push(flag(name)),
                    value if is_positional(name) => words.push(text(&value)),
                    value => words.extend([flag(name), text(&value)]),
                }
            }
        }
        words.extend(["--format".to_owned(), format.to_owned()]);
        words
    }

    /// Runs the request in the library, for a caller that sends this part of the answer.
    fn run<R: Request>(&self, own: &Value, sends: Sends) -> Result<R::Answer, Failure> {
        R::from_value(own.clone())?.run(&Shelf::local(), &Control::default().sending(sends))
    }

    /// Checks the library's JSON against the command's, and the texts of all three.
    fn check<R: Request>(&self, fixture: &Fixture, client: &mut Client, input: &Value) {
        let mut arguments = self.arguments.clone();
        if self.tool == "pack_items" {
            arguments["items"] = input.clone();
        }
        let mut own = arguments.clone();
        if let Some((option, path)) = self.folder {
            own[option] = fixture.0.join(path).to_str().into();
        }
        let is_explained = arguments.get("explain").is_some();
        if !is_explained {
            let words = self.words("json");
            let output = fixture.program(&words).output().unwrap();
            let mut own = own.clone();
            if self.tool == "get_memory" {
                own["format"] = "json".into();
            }
            let stdout = String::from_utf8_lossy(&output.stdout);
            match self.run::<R>(&own, Sends::Data) {
                Ok(answer) => {
                    let json = serde_json::to_string(&answer).unwrap();
                    assert_eq!(stdout.trim_end(), json.trim_end(), "{words:?}");
                }
                Err(failure) => assert!(!output.status.success(), "{words:?}: {failure}"),
            }
        }
        let words = self.words("text");
        let output = fixture.program(&words).output().unwrap();
        let server = client.call(self.tool, arguments);
        let what = format!("{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        match self.run::<R>(&own, Sends::Text) {
            Ok(answer) => {
                if !is_explained && !self.has_own_counts() {
                    let stdout = String::from_utf8_lossy(&output.stdout);
                    assert_eq!(stdout, answer.text(), "{what}");
                }
                assert_eq!(server["isError"], false, "{what}: {server}");
                assert_eq!(server["content"][0]["text"], *answer.text(), "{what}");
                assert!(server.get("structuredContent").is_none(), "{what}");
            }
            Err(failure) => {
                assert_eq!(server["isError"], true, "{what}: the library fails: {failure}");
            }
        }
    }

    /// Whether the items have token counts, which bound the output of the command. A tool counts its text.
    fn has_own_counts(&self) -> bool {
        self.tool == "pack_items"
    }
}

#[test]
fn command_server_and_library_answer_200_requests_alike() {
    let fixture = Fixture::new("equality");
    let mut client = fixture.serve();
    client.initialize("2025-11-25");
    let input = Value::from(items(&fixture));
    let cases = cases();
    assert!(cases.len() >= 200, "{}", cases.len());
    for case in &cases {
        match case.tool {
            "search_docs" => case.check::<SearchRequest>(&fixture, &mut client, &input),
            "read_docs" => case.check::<ReadRequest>(&fixture, &mut client, &input),
            "pack_items" => case.check::<PackRequest>(&fixture, &mut client, &input),
            "get_memory" => case.check::<MemoryRequest>(&fixture, &mut client, &input),
            _ if case.arguments.get("ids").is_some() => {
                case.check::<SnippetGetRequest>(&fixture, &mut client, &input);
            }
            _ => case.check::<SnippetListRequest>(&fixture, &mut client, &input),
        }
    }
    client.end();
}
