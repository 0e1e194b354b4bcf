//! The budget of a call bounds everything that its answer has, counted by another implementation of the encoding.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tiktoken_rs::o200k_base_singleton;

use super::server::{Client, Fixture, copy};

const BUDGETS: [usize; 6] = [100, 200, 500, 2_000, 8_000, 32_000];

/// Counts everything that an answer has.
pub(crate) fn count(result: &Value) -> usize {
    let tokens = |text: &str| o200k_base_singleton().encode_ordinary(text).len();
    let blocks = result["content"].as_array().unwrap();
    let texts: usize = blocks.iter().map(|block| tokens(block["text"].as_str().unwrap())).sum();
    let structured = &result["structuredContent"];
    texts + if structured.is_null() { 0 } else { tokens(&structured.to_string()) }
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

/// Larger budgets, whose answers show what was left out.
const LARGER: [f64; 2] = [1.05, 1.5];

/// The answers of a tool at a budget.
#[derive(Default)]
struct Row {
    answers: usize,
    /// Those above the budget.
    over: usize,
    refused: usize,
    /// Those that left something out that would have fitted.
    missed: usize,
    /// The shares of the budget that were used where there was enough to say.
    used: Vec<f64>,
}

/// Calls a tool at all budgets. `documents` are those that it may send whole.
fn measure(
    client: &mut Client,
    tool: &'static str,
    label: &'static str,
    calls: &[Value],
    documents: &[String],
    rows: &mut BTreeMap<(&'static str, usize), Row>,
) {
    for arguments in calls {
        let mut answer = |budget: usize| {
            let mut arguments = arguments.clone();
            arguments["budget"] = budget.into();
            let result = client.call(tool, arguments.clone());
            assert!(result.get("structuredContent").is_none(), "{result}");
            if result["isError"] == false {
                return Some(result);
            }
            let problem: Value = serde_json::from_str(text(&result)).unwrap();
            assert_eq!(problem["code"], "budget_not_met", "{tool} {arguments}: {problem}");
            None
        };
        let all = answer(1_000_000).unwrap();
        let everything = count(&all);
        let found: Vec<&String> =
            documents.iter().filter(|document| text(&all).contains(&***document)).collect();
        let is_empty = text(&all).starts_with("No document matches");
        assert!(documents.is_empty() || found.is_empty() == is_empty, "{}", text(&all));
        for budget in BUDGETS {
            let row = rows.entry((label, budget)).or_default();
            row.answers += 1;
            let sent = answer(budget);
            let tokens = sent.as_ref().map(count);
            row.refused += usize::from(sent.is_none());
            row.over += usize::from(tokens.is_some_and(|tokens| tokens > budget));
            if let Some(tokens) = tokens.filter(|_| everything > budget) {
                row.used.push(tokens as f64 / budget as f64);
            }
            // What a larger budget adds would have fitted if the larger answer has everything of this one, and is within the
            // budget, too.
            let adds = |other: &Value, other_tokens: usize| {
                other_tokens <= budget
                    && sent.as_ref().zip(tokens).is_none_or(|(own, tokens)| {
                        tokens < other_tokens
                            && has_all(text(other), text(own))
                            && !has_all(text(own), text(other))
                    })
            };
            let mut missed = adds(&all, everything);
            if budget < 2_000 && everything > budget && arguments.get("detail").is_none() {
                let larger = LARGER.map(|factor| (budget as f64 * factor) as usize);
                missed |= larger
                    .into_iter()
                    .any(|larger| answer(larger).is_some_and(|other| adds(&other, count(&other))));
            }
            // Whole documents: one that is not sent must not fit beside those that are.
            if let Some(sent) = &sent {
                missed |= fits_another(text(sent), &found, budget);
            }
            row.missed += usize::from(missed);
        }
    }
}

/// Returns whether a text has all lines of another one, besides those that count what is left out.
fn has_all(larger: &str, smaller: &str) -> bool {
    let counts =
        |line: &&str| ["Budget: ", "- +", "Not sent: "].iter().any(|it| line.starts_with(it));
    smaller.lines().filter(|line| !counts(line)).all(|line| larger.lines().any(|it| it == line))
}

/// Returns the files of a folder as `read_docs` sends them.
fn documents(folder: &Path) -> Vec<String> {
    let (mut documents, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for path in fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(content) = fs::read_to_string(&path) {
                let name = path.strip_prefix(folder).unwrap().display();
                let lines = content.lines().count().max(1);
                documents.push(format!("[{name}:1-{lines}]\n{}", content.trim_end()));
            }
        }
    }
    documents
}

/// Returns whether one of these documents that `sent` does not have would fit. The line of names gives way to documents.
fn fits_another(sent: &str, found: &[&String], budget: usize) -> bool {
    let tokens = |text: &str| o200k_base_singleton().encode_ordinary(text).len();
    // The last line: a page quotes such a line, too.
    let names = sent.rfind("\nNot sent: ");
    let names = names.filter(|start| !sent[start + 1..].trim_end().contains('\n'));
    let sent = &sent[..names.unwrap_or(sent.len())];
    let sent = if sent.starts_with("No document fits") { "" } else { sent };
    found.iter().any(|document| {
        // Far longer documents are not counted; that takes time.
        document.len() < 16 * budget
            && !sent.contains(&***document)
            && tokens(&format!("{sent}\n{document}")) < budget
    })
}

#[expect(clippy::print_stdout, reason = "bench/answers shows the table")]
fn report(rows: &BTreeMap<(&str, usize), Row>) {
    println!("tool                 budget  answers  over  refused  missed  median use  least use");
    for ((label, budget), row) in rows {
        let mut used = row.used.clone();
        used.sort_by(f64::total_cmp);
        let percent = |share: Option<&f64>| {
            share.map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0))
        };
        println!(
            "{label:<20} {budget:>6}  {:>7}  {:>4}  {:>7}  {:>6}  {:>10}  {:>9}",
            row.answers,
            row.over,
            row.refused,
            row.missed,
            percent(used.get(used.len() / 2)),
            percent(used.first())
        );
    }
}

/// Paragraphs of documents as items.
fn paragraphs(folder: &Path) -> Value {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    files.sort();
    let mut items = Vec::new();
    for file in files.iter().take(5) {
        let text = fs::read_to_string(file).unwrap();
        let parts = text.split("\n\n").filter(|part| !part.trim().is_empty());
        items.extend(parts.map(|part| json!({ "content": part, "kind": "Document" })));
    }
    items.into()
}

#[test]
fn no_answer_exceeds_its_budget() {
    let fixture = Fixture::new("budgets");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    copy(&root.join("docs"), &fixture.0.join("docs"));
    fixture.command(&["docs", "index", "docs", "--index", "manual"]);
    fixture.command(&["chat", "examples/agent.json", "--budget", "200", "--store"]);
    let mut client = fixture.serve_only(&[
        "--index",
        "manual",
        "--snippets",
        "examples/snippets",
        "--memory",
        "examples/harbour",
    ]);
    let mut rows = BTreeMap::new();
    let queries = [
        "how does the budget bound an answer?",
        "\"token budget\"",
        "policy scorers and slicers",
        "update an index",
        "prompt cache of a chat session",
        "memory packet rules",
        "knapsack",
        "Bearer tokens of clients, and what other machines need",
        "zebra unicorn",
        "a",
    ];
    let search: Vec<Value> = queries.iter().map(|query| json!({ "query": query })).collect();
    let with = |calls: &[Value], name: &str, value: Value| -> Vec<Value> {
        let mut calls = calls.to_vec();
        calls.iter_mut().for_each(|call| call[name] = value.clone());
        calls
    };
    measure(&mut client, "search_docs", "search_docs", &search, &[], &mut rows);
    let detailed = with(&search[..5], "detail", true.into());
    measure(&mut client, "search_docs", "search_docs detail", &detailed, &[], &mut rows);
    let pages = documents(&fixture.0.join("docs"));
    let mut read = search.clone();
    read.push(json!({ "paths": ["reference/mcp.md", "reference/json.md"] }));
    read.push(json!({ "paths": ["reference/openapi.json", "reference/glossary.md", "reference/telemetry.md"] }));
    measure(&mut client, "read_docs", "read_docs", &read, &pages, &mut rows);
    let list = [
        json!({}),
        json!({ "query": "refund" }),
        json!({ "query": "how are orders named" }),
        json!({ "areas": ["policy"] }),
        json!({ "areas": ["spec", "design"], "query": "ledger" }),
        json!({ "detail": true }),
    ];
    measure(&mut client, "get_context", "get_context list", &list, &[], &mut rows);
    let get = [
        json!({ "snippet_ids": ["project/spec/refund-endpoint"] }),
        json!({ "snippet_ids": ["global/policy/names"] }),
        json!({ "snippet_ids": ["domain/concept/order", "domain/procedure/refunds"] }),
        json!({ "snippet_ids": ["project/design/ledger", "global/principle/plain-words"] }),
        json!({ "snippet_ids": ["global/policy/names"], "detail": true }),
        json!({ "snippet_ids": ["project/spec/refund-endpoint"], "detail": true }),
    ];
    measure(&mut client, "get_context", "get_context get", &get, &[], &mut rows);
    let memory = [
        json!({}),
        json!({ "query": "payment webhook" }),
        json!({ "query": "overlapping bookings" }),
        json!({ "query": "log names of customers" }),
        json!({ "query": "zebra unicorn" }),
        json!({ "query": "deploy", "files": ["src/payments.rs"] }),
        json!({ "query": "deploy", "detail": true }),
    ];
    measure(&mut client, "get_memory", "get_memory packet", &memory, &[], &mut rows);
    let packet = client.text("get_memory", json!({ "budget": 400, "query": "payment webhook" }));
    let ids: Vec<&str> = packet
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| {
            word.len() == 7
                && word
                    .chars()
                    .all(|letter| letter.is_ascii_hexdigit() || letter.is_ascii_lowercase())
        })
        .filter(|word| word.contains(|letter: char| letter.is_ascii_digit()))
        .collect();
    assert!(!ids.is_empty(), "{packet}");
    let entries: Vec<Value> =
        ids.iter().map(|id| json!({ "ids": [id] })).chain([json!({ "ids": ids })]).collect();
    measure(&mut client, "get_memory", "get_memory ids", &entries, &[], &mut rows);
    let items = paragraphs(&root.join("docs/reference"));
    let pack = [
        json!({ "items": items, "query": "budget" }),
        json!({ "items": items, "policy": "rag", "query": "index" }),
        json!({ "items": items, "policy": "tool-use" }),
        json!({ "items": items, "policy": "document-qa", "detail": true }),
    ];
    measure(&mut client, "pack_items", "pack_items", &pack, &[], &mut rows);
    let recall = [
        json!({ "id": "97d90ce9" }),
        json!({ "id": "97d90ce9", "lines": "1-1" }),
        json!({ "id": "97d90ce9", "grep": "e" }),
        json!({ "id": "97d90ce9", "detail": true }),
    ];
    measure(&mut client, "recall", "recall", &recall, &[], &mut rows);
    // Few small documents, all of which fit a larger budget.
    let mut client = fixture.serve_only(&["--index", "handbook"]);
    let small = ["how do we roll back?", "deploy", "lunch", "zebra"];
    let small: Vec<Value> = small.iter().map(|query| json!({ "query": query })).collect();
    let handbook = documents(&fixture.0.join("examples/handbook"));
    measure(&mut client, "search_docs", "search handbook", &small, &[], &mut rows);
    measure(&mut client, "read_docs", "read handbook", &small, &handbook, &mut rows);
    report(&rows);
    check(&rows);
}

/// Checks that no answer is above its budget, that large ones use it, that searches get one, and that small ones leave
/// nothing out that fits.
fn check(rows: &BTreeMap<(&str, usize), Row>) {
    let mut problems = Vec::new();
    for ((label, budget), row) in rows {
        let is_search = *label == "search_docs" || label.starts_with("search ");
        let is_divisible = is_search || ["get_memory packet", "pack_items"].contains(label);
        let uses_little = row.used.iter().any(|used| *used < 0.9);
        if row.over > 0 || row.missed > 0 {
            problems.push(format!("{label} at {budget}: {} over, {} missed", row.over, row.missed));
        }
        if *budget >= 2_000 && is_divisible && uses_little {
            problems.push(format!("{label} at {budget} uses {:?}", row.used));
        }
        if *budget >= 2_000 && is_search && row.refused > 0 {
            problems.push(format!("{label} at {budget}: {} refused", row.refused));
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

/// Returns the folder of retrieval data sets, if there is one.
fn retrieval_data() -> Option<PathBuf> {
    let data = std::env::var_os("PANNIER_DATA").map(PathBuf::from);
    let ancestors = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let folders = ancestors.map(|folder| folder.join("shared/data/retrieval"));
    data.into_iter().chain(folders).find(|folder| folder.join("xquad-en").is_dir())
}

#[test]
fn no_answer_over_retrieval_data_exceeds_its_budget() {
    let Some(data) = retrieval_data() else {
        eprintln!("skipped: there is no xquad-en; set PANNIER_DATA to a folder of data sets");
        return;
    };
    let lines = |path: PathBuf| -> Vec<Value> {
        let text = fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let sampled = std::env::var("PANNIER_QUERIES").ok().and_then(|count| count.parse().ok());
    let sampled: usize = sampled.unwrap_or(12);
    let mut rows = BTreeMap::new();
    for (set, search, read) in [
        ("xquad-en", "search xquad-en", "read xquad-en"),
        ("scifact", "search scifact", "read scifact"),
        ("cosqa-dev", "search cosqa-dev", "read cosqa-dev"),
    ] {
        let fixture = Fixture::new(&format!("budgets-{set}"));
        fs::create_dir_all(fixture.0.join("texts")).unwrap();
        for document in lines(data.join(set).join("docs.jsonl")).iter().take(2_000) {
            let name = document["id"].as_str().unwrap().replace('/', "_");
            let text = document["text"].as_str().unwrap();
            fs::write(fixture.0.join(format!("texts/{name}.md")), text).unwrap();
        }
        fixture.command(&["docs", "index", "texts", "--index", "texts-index"]);
        let texts = documents(&fixture.0.join("texts"));
        let mut client = fixture.serve_only(&["--index", "texts-index"]);
        let queries = lines(data.join(set).join("queries.jsonl"));
        let calls: Vec<Value> =
            queries.iter().take(sampled).map(|query| json!({ "query": query["text"] })).collect();
        measure(&mut client, "search_docs", search, &calls, &[], &mut rows);
        measure(&mut client, "read_docs", read, &calls[..calls.len() / 3], &texts, &mut rows);
    }
    report(&rows);
    check(&rows);
}

#[test]
fn nothing_that_was_left_out_would_have_fitted() {
    let fixture = Fixture::new("leftover");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    copy(&root.join("docs"), &fixture.0.join("docs"));
    fixture.command(&["docs", "index", "docs", "--index", "manual"]);
    let mut client = fixture.serve_only(&["--index", "manual"]);
    let tokens = |text: &str| o200k_base_singleton().encode_ordinary(text).len();
    for query in ["token budget", "how is an index updated?", "policy", "tool calls of a chat"] {
        for budget in [100, 200, 500, 1_000] {
            let arguments = json!({ "query": query, "budget": budget, "detail": false });
            let sent = client.text("search_docs", arguments);
            // What was found, with and without a place in the answer.
            let everything = json!({ "query": query, "budget": 1_000_000, "tokenizer": "o200k" });
            let all = client.text("search_docs", everything);
            let passages =
                all.split("\n\n[").map(|passage| format!("[{}", passage.trim_start_matches('[')));
            let used = tokens(&sent);
            for passage in passages {
                let (citation, content) = passage.split_once('\n').unwrap_or((&passage, ""));
                let is_sent = content.lines().any(|line| line.len() > 20 && sent.contains(line));
                let cost = tokens(&format!("\n{}\n", passage.trim_end()));
                assert!(
                    is_sent || used + cost > budget,
                    "{query} {budget}: {used} + {cost} for {citation}"
                );
            }
        }
    }
}

#[test]
fn details_are_inside_the_budget_or_name_the_budget_that_they_need() {
    let fixture = Fixture::new("details");
    let mut client = fixture.serve();
    let items: Vec<Value> = (0..40)
        .map(|number| json!({ "id": format!("i{number}"), "content": format!("Line {number} of the log.") }))
        .collect();
    let calls = [
        ("search_docs", json!({ "query": "roll back" })),
        ("read_docs", json!({ "query": "deploy" })),
        ("get_memory", json!({ "query": "deploy" })),
        ("get_context", json!({ "snippet_ids": ["project/spec/refund-endpoint"] })),
        ("pack_items", json!({ "items": items })),
    ];
    let mut refused = 0;
    for (tool, arguments) in calls {
        for budget in [60, 150, 400, 1_000, 3_000] {
            let mut arguments = arguments.clone();
            arguments["budget"] = budget.into();
            arguments["detail"] = true.into();
            let result = client.call(tool, arguments.clone());
            if result["isError"] == false {
                let blocks = result["content"].as_array().unwrap();
                assert!(blocks.len() >= 2, "{tool} {budget}: {result}");
                let details: Value =
                    serde_json::from_str(blocks[1]["text"].as_str().unwrap()).unwrap();
                assert!(details.is_object(), "{tool}: {details}");
                assert!(count(&result) <= budget, "{tool} {budget}");
                continue;
            }
            refused += 1;
            let problem: Value = serde_json::from_str(text(&result)).unwrap();
            assert_eq!(problem["code"], "budget_not_met", "{tool} {budget}: {problem}");
            // The list of snippets names the tokens of its text, and the next refusal those with details.
            let hops = if tool == "get_context" { 2 } else { 1 };
            let (mut result, mut needed) = (result, 0);
            for _ in 0..hops {
                let problem: Value = serde_json::from_str(text(&result)).unwrap();
                let words = format!("{} {}", problem["hint"], problem["message"]);
                let mut numbers = words
                    .split(|letter: char| !letter.is_ascii_digit())
                    .filter_map(|word| word.parse::<usize>().ok());
                let Some(named) = numbers.next() else { panic!("{tool} {budget}: {problem}") };
                needed = named;
                arguments["budget"] = needed.into();
                result = client.call(tool, arguments.clone());
                if result["isError"] == false {
                    break;
                }
            }
            assert_eq!(result["isError"], false, "{tool} {budget} {needed}: {result}");
            assert!(count(&result) <= needed, "{tool} {needed}");
        }
    }
    assert!(refused > 0);
}
