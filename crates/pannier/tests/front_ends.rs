//! Requests of the front ends: flags and JSON, answers, and messages without paths.

use std::fs;
use std::path::PathBuf;

use clap::{Args, Command};
use pannier::ops::{
    Answer, ChatRequest, Control, MemoryAnswer, MemoryRequest, Request, SnippetGetRequest,
    SnippetListRequest,
};
use pannier::{Audience, Category, Failure, NamedFolder, Shelf};
use serde_json::{Value, json};

/// Compares the request of flags with that of JSON.
fn same<R: Request + Args + std::fmt::Debug>(flags: &[&str], value: Value) {
    let words = ["request"].iter().chain(flags);
    let matches = R::augment_args(Command::new("request")).try_get_matches_from(words).unwrap();
    let from_flags = R::from_arg_matches(&matches).unwrap();
    let from_value = R::from_value(value).unwrap();
    assert_eq!(format!("{from_flags:?}"), format!("{from_value:?}"), "{flags:?}");
}

#[test]
fn flags_and_json_give_the_same_request() {
    let common = [
        "--provider",
        "anthropic",
        "-b",
        "8k",
        "-r",
        "1k",
        "--target",
        "900",
        "--margin",
        "5",
        "--slot",
        "Document=100",
        "-p",
        "rag",
        "-t",
        "o200k",
        "--now",
        "2026-03-01",
        "--explain",
        "a",
    ];
    let value = json!({
        "transcript": "", "provider": "anthropic", "budget": "8k", "reserve": 1_000, "target": 900,
        "margin": 5, "slots": ["Document=100"], "policy": "rag", "tokenizer": "o200k",
        "now": "2026-03-01", "explain": ["a"],
    });
    same::<ChatRequest>(&common, value);

    let value = json!({
        "project": "p", "budget": 400, "query": "q", "files": ["a", "b"], "tokenizer": "o200k",
        "format": "json", "explain": "1", "now": "2026-03-01", "max_chars": 99,
        "no_user": true,
    });
    let flags = [
        "p",
        "--budget",
        "400",
        "--query",
        "q",
        "--file",
        "a",
        "--file",
        "b",
        "--model",
        "o200k",
        "--format",
        "json",
        "--explain",
        "1",
        "--now",
        "2026-03-01",
        "--max-chars",
        "99",
        "--no-user",
    ];
    same::<MemoryRequest>(&flags, value);
    same::<MemoryRequest>(&["p", "-f", "md"], json!({ "context": "p", "format": "text" }));
    same::<MemoryRequest>(&["-f", "items"], json!({ "format": "jsonl" }));

    let value = json!({
        "snippets": ["a", "b"], "areas": ["policy", "concept"], "scopes": "project", "baseline": true,
        "query": "q", "limit": 3, "tokenizer": "o200k", "aliases": "@~/a=b", "budget": "2k",
        "format": "json",
    });
    let flags = [
        "--root",
        "a",
        "--root",
        "b",
        "--type",
        "policy,concept",
        "--scope",
        "project",
        "--baseline",
        "--query",
        "q",
        "--limit",
        "3",
        "-t",
        "o200k",
        "--alias",
        "@~/a=b",
        "-b",
        "2k",
        "-f",
        "json",
    ];
    same::<SnippetListRequest>(&flags, value);
    let former = json!({ "docs": "a", "areas": "policy", "baseline_only": true });
    same::<SnippetListRequest>(&["--root", "a", "--areas", "policy", "--baseline-only"], former);

    let value = json!({
        "snippet_ids": ["x", "y"], "docs": "a", "budget": "4k", "session": "s", "resend": true,
        "format": "text",
    });
    let flags = ["x", "y", "--root", "a", "-b", "4k", "--session", "s", "--resend"];
    same::<SnippetGetRequest>(&flags, value);
}

#[test]
fn every_option_is_in_the_schema() {
    fn check<R: Request + schemars::JsonSchema>(options: &[&str]) {
        let schema = R::schema();
        let properties = schema["properties"].as_object().unwrap();
        let mut names: Vec<&str> = properties.keys().map(String::as_str).collect();
        let mut expected = options.to_vec();
        names.sort_unstable();
        expected.sort_unstable();
        assert_eq!(names, expected);
        for name in R::ADVERTISED {
            let has_description = properties[*name]["description"].is_string();
            assert!(has_description, "{name}: {}", properties[*name]);
        }
    }
    check::<ChatRequest>(&[
        "transcript",
        "provider",
        "from",
        "query",
        "pin",
        "once",
        "cache_control",
        "previous",
        "budget",
        "target",
        "reserve",
        "margin",
        "slots",
        "policy",
        "tokenizer",
        "now",
        "explain",
    ]);
    check::<MemoryRequest>(&[
        "project",
        "budget",
        "reserve",
        "query",
        "files",
        "ids",
        "tokenizer",
        "format",
        "explain",
        "now",
        "max_chars",
        "no_user",
    ]);
    check::<SnippetListRequest>(&[
        "snippets",
        "tokenizer",
        "areas",
        "scopes",
        "baseline",
        "query",
        "limit",
        "aliases",
        "budget",
        "format",
    ]);
    check::<SnippetGetRequest>(&[
        "ids",
        "snippets",
        "tokenizer",
        "budget",
        "reserve",
        "session",
        "resend",
        "format",
        "aliases",
    ]);
}

#[test]
fn a_reserve_reduces_the_budget() {
    let folder = fixture("reserve");
    let shelf = server(&folder);
    let control = Control::default();
    let text = |request: Value| {
        let request = MemoryRequest::from_value(request).unwrap();
        request.run(&shelf, &control).unwrap().text().into_owned()
    };
    let reserved = text(json!({ "budget": 900, "reserve": "300" }));
    assert_eq!(reserved, text(json!({ "budget": 600 })));
    assert_ne!(reserved, text(json!({ "budget": 900 })));
    let get = |request: Value| {
        SnippetGetRequest::from_value(request).unwrap().run(&shelf, &control).map(|_| ())
    };
    assert!(get(json!({ "ids": "b", "budget": 1000 })).is_ok());
    let failure = get(json!({ "ids": "b", "budget": 1000, "reserve": 999 })).unwrap_err();
    assert_eq!(failure.category(), Category::BudgetNotMet);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn chat_keeps_the_text_of_messages() {
    let text = r#"[{"role":"user","content":"Hi","x":1.50}]"#;
    let request = json!({ "transcript": text, "provider": "openai", "budget": 100 });
    let answer = ChatRequest::from_value(request).unwrap();
    let answer = answer.run(&Shelf::default(), &Control::default()).unwrap();
    assert_eq!(answer.text(), format!("{text}\n"));
    let value = serde_json::to_value(&answer).unwrap();
    assert_eq!(value["transcript"], serde_json::from_str::<Value>(text).unwrap());

    let request = |value: Value| ChatRequest::from_value(value).unwrap();
    let run = |value| request(value).run(&Shelf::default(), &Control::default()).unwrap_err();
    // The provider is detected.
    let control = Control::default();
    let detected = request(json!({ "transcript": text, "budget": 100 }));
    detected.run(&Shelf::default(), &control).unwrap();
    let decided = control.take_notes().decided;
    assert!(decided.iter().any(|note| note.setting == "provider" && note.value == "openai"));
    let small = |once: bool| {
        run(
            json!({ "transcript": text, "provider": "openai", "budget": 5, "reserve": 2, "once": once }),
        )
    };
    let failure = small(false);
    assert_eq!(
        failure.message(Audience::Command),
        "the request needs 11 tokens after all cuts but the input budget is 3"
    );
    assert_eq!(failure.advice(Audience::Agent).unwrap(), "raise budget to at least 13");
    let failure = small(true);
    assert_eq!(
        failure.message(Audience::Command),
        "system prompt, tools and last user message need 11 tokens but --budget less --reserve is 3"
    );
    assert_eq!(failure.advice(Audience::Agent).unwrap(), "raise budget to at least 13");
    let previous = json!({ "transcript": text, "provider": "openai", "budget": 9, "previous": 7 });
    assert!(run(previous).to_string().starts_with("previous: the request: it is a number"));
    // A model of a transcript names no files.
    let file = r#"{"model":"file:/etc/passwd","messages":[{"role":"user","content":"Hi"}]}"#;
    let request = request(json!({ "transcript": file, "provider": "openai", "budget": 100 }));
    let answer = request.run(&Shelf::local(), &Control::default()).unwrap();
    assert_eq!(serde_json::to_value(&answer).unwrap()["exactness"], "assumed");
}

/// An absolute folder with a project and snippets.
fn fixture(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("pannier-front-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("boat/.context")).unwrap();
    fs::write(folder.join("boat/.context/TASKS.md"), "- [ ] Paint the oars\n").unwrap();
    fs::create_dir_all(folder.join("docs")).unwrap();
    for (id, rest) in [("a", ""), ("b", "requires: [a]\n")] {
        let text = format!(
            "---\nid: {id}\ndescription: About {id}.\ntype: policy\nscope: global\n{rest}---\nText of {id}.\n"
        );
        fs::write(folder.join(format!("docs/{id}.md")), text).unwrap();
    }
    let roots = pannier::snippets::Roots::open([folder.join("docs")], None).unwrap();
    pannier::snippets::index(&roots, &pannier::tokens::BytesOverFour).unwrap();
    folder
}

fn server(folder: &std::path::Path) -> Shelf {
    let named = |name: &str| [NamedFolder::new(name, folder.join(name)).unwrap()];
    let shelf = Shelf::default().with_snippets(&named("docs"), None).unwrap();
    shelf.with_memories(&named("boat")).unwrap().with_state_folder(Some(folder.join("state")))
}

#[test]
fn memory_runs_on_both_shelves_and_respects_budgets_in_order() {
    let folder = fixture("memory");
    let run = |request: Value, shelf: &Shelf| {
        let request = MemoryRequest::from_value(request).unwrap();
        match request.run(shelf, &Control::default()).unwrap() {
            MemoryAnswer::Text(packet) => packet,
            other => panic!("{other:?}"),
        }
    };
    let now = json!({ "now": "2026-03-01" });
    let shelf = server(&folder);
    let packet = run(now.clone(), &shelf);
    assert!(packet.text.contains("Paint the oars"));
    assert_eq!(packet.budget, 8_000);
    let path = folder.join("boat").display().to_string();
    assert_eq!(run(json!({ "now": "2026-03-01", "project": path }), &Shelf::local()), packet);
    let mut defaults = pannier::Defaults::default();
    defaults.budget = Some("900".parse().unwrap());
    let shelf = shelf.with_defaults(defaults);
    assert_eq!(run(now.clone(), &shelf).budget, 900);
    fs::write(folder.join("boat/.ctxrc"), "token_budget: 700\n").unwrap();
    assert_eq!(run(now.clone(), &shelf).budget, 700);
    let shelf = shelf.with_packet_budget(Some(600));
    assert_eq!(run(now, &shelf).budget, 600);
    assert_eq!(run(json!({ "budget": "0.5k" }), &shelf).budget, 500);
    let json = MemoryRequest::from_value(json!({ "format": "json" })).unwrap();
    let answer = json.run(&shelf, &Control::default()).unwrap();
    assert_eq!(serde_json::to_string(&answer).unwrap() + "\n", answer.text());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn snippets_are_delivered_once_and_only_if_they_were_sent() {
    let folder = fixture("snippets");
    let shelf = server(&folder);
    let control = Control::default();
    let get = |more: Value| {
        let mut value = json!({ "ids": "b", "session": "s" });
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        SnippetGetRequest::from_value(value).unwrap()
    };
    let failed: Result<(), Failure> =
        get(json!({})).deliver(&shelf, &control, |_, _| Err(Failure::NoBudget));
    assert!(matches!(failed, Err(Failure::NoBudget)));
    let answer = get(json!({})).run(&shelf, &control).unwrap();
    assert!(answer.text().contains("[SNIPPET: a]\nText of a.\n"), "{}", answer.text());
    let value = serde_json::to_value(&answer).unwrap();
    assert_eq!((&value["requested"], &value["added"][0]["id"]), (&json!(["b"]), &json!("a")));
    let again = get(json!({})).run(&shelf, &control).unwrap();
    assert_eq!(again.text(), "requested: b\nsent before: a\nsent before: b\n");
    assert!(
        get(json!({ "resend": true })).run(&shelf, &control).unwrap().text().contains("Text of")
    );

    let list = SnippetListRequest::from_value(json!({ "query": "b", "limit": 1 })).unwrap();
    let list = list.run(&shelf, &control).unwrap();
    assert_eq!(list.snippets[0].id, "b");
    let wrong = SnippetListRequest::from_value(json!({ "areas": "rules" })).unwrap();
    let failure = wrong.run(&shelf, &control).unwrap_err();
    assert!(failure.to_string().starts_with("unknown type 'rules'; use one of principle"));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn messages_for_agents_have_no_folders_of_the_server() {
    let folder = fixture("paths");
    let shelf = server(&folder);
    let control = Control::default();
    let is_named = |text: &str| !text.contains(&folder.display().to_string());

    // A state folder that is a file.
    fs::write(folder.join("state"), "").unwrap();
    let get = SnippetGetRequest::from_value(json!({ "ids": "b", "session": "s" })).unwrap();
    get.run(&shelf, &control).unwrap();
    let warnings = control.take_notes().warnings;
    assert!(warnings.len() == 1 && is_named(&warnings[0]), "{warnings:?}");
    // A file that is gone.
    fs::remove_file(folder.join("docs/a.md")).unwrap();
    let get = SnippetGetRequest::from_value(json!({ "ids": "b" })).unwrap();
    let text = get.run(&shelf, &control).unwrap().text().into_owned();
    assert!(text.contains("warning: a is left out: docs/a.md: ") && is_named(&text), "{text}");
    fs::remove_file(folder.join("docs/index.yaml")).unwrap();
    let list = SnippetListRequest::from_value(json!({})).unwrap();
    let failure = list.run(&shelf, &control).unwrap_err();
    assert_eq!(failure.message(Audience::Agent), "there is no index at index.yaml");
    assert!(!is_named(&failure.message(Audience::Command)));
    // Files of a project.
    for (path, text, expected) in [
        ("boat/.ctxrc", "#".repeat((64 << 10) + 1), ".ctxrc has more than"),
        ("boat/.ctxrc", "token_budget: many\n".to_owned(), ".ctxrc: token_budget is"),
    ] {
        fs::write(folder.join(path), text).unwrap();
        let request = MemoryRequest::from_value(json!({})).unwrap();
        let message = request.run(&shelf, &control).unwrap_err().message(Audience::Agent);
        assert!(message.starts_with(expected) && is_named(&message), "{message}");
    }
    fs::remove_dir_all(folder).unwrap();
}
