//! Requests are declared once: each option is a flag, a field of JSON and a property of the schema.

use std::collections::BTreeSet;
use std::fmt::Debug;

use clap::{Args, Command, FromArgMatches};
use pannier::ops::{
    BudgetRequest, CompareRequest, CountRequest, EvalSessionsRequest, IndexRequest, LossRequest,
    PackRequest, ReadRequest, Request, SearchRequest, StatsRequest, SweepRequest, VerifyRequest,
};
use schemars::JsonSchema;
use serde_json::{Value, json};

/// Flags without an option: a client of a server cannot choose another collection.
const COMMAND_ONLY: [&str; 1] = ["collection"];

fn command<R: Args>() -> Command {
    R::augment_args(Command::new("test").no_binary_name(true))
}

/// Checks one request: the same options everywhere, each with a short description.
fn check<R: Request + Args + JsonSchema>() {
    let name = std::any::type_name::<R>();
    let schema = R::schema();
    let properties = schema["properties"].as_object().expect(name);
    let options: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
    let inputs: BTreeSet<&str> = R::INPUTS.iter().copied().collect();
    let command = command::<R>();
    let flags = command.get_arguments().map(|arg| arg.get_id().as_str());
    let flags: BTreeSet<&str> = flags.filter(|flag| !COMMAND_ONLY.contains(flag)).collect();
    let expected: BTreeSet<&str> = options.difference(&inputs).copied().collect();
    assert_eq!(flags, expected, "flags of {name} and options of its schema");
    assert!(inputs.is_subset(&options), "{name}: {inputs:?}");
    for advertised in R::ADVERTISED {
        assert!(options.contains(advertised), "{name}: {advertised}");
    }
    for (option, property) in properties {
        let description = property["description"].as_str().unwrap_or_default();
        assert!(
            (1..=80).contains(&description.chars().count()),
            "{name}.{option}: {description:?}"
        );
        for key in ["$ref", "format", "const", "oneOf", "anyOf"] {
            assert!(property.get(key).is_none(), "{name}.{option} has {key}");
        }
        assert!(property["type"].is_string(), "{name}.{option}: {property}");
    }
    assert_eq!(schema["additionalProperties"], json!(false));
    let unknown = R::from_value(json!({ "no_such_option": 1 })).err().expect(name).to_string();
    assert!(unknown.starts_with("unknown option `no_such_option`"), "{unknown}");
}

#[test]
fn every_option_is_a_flag_and_the_other_way_round() {
    check::<PackRequest>();
    check::<SweepRequest>();
    check::<BudgetRequest>();
    check::<LossRequest>();
    check::<CompareRequest>();
    check::<CountRequest>();
    check::<SearchRequest>();
    check::<ReadRequest>();
    check::<IndexRequest>();
    check::<StatsRequest>();
    check::<VerifyRequest>();
    check::<EvalSessionsRequest>();
}

/// Checks that flags and JSON make the same request.
fn same<R: Request + Args + FromArgMatches + Debug>(flags: &[&str], json: Value) {
    let matches = command::<R>().try_get_matches_from(flags).unwrap();
    let from_flags = R::from_arg_matches(&matches).unwrap();
    let from_json = R::from_value(json).unwrap();
    assert_eq!(format!("{from_flags:?}"), format!("{from_json:?}"));
}

#[test]
fn flags_and_json_make_the_same_request() {
    same::<PackRequest>(
        &[
            "-b",
            "8k",
            "-r",
            "1_000",
            "--slot",
            "Document=500",
            "--margin",
            "5",
            "-p",
            "rag",
            "--query",
            "refunds",
            "-m",
            "gpt-5",
            "--now",
            "2026-03-01",
            "--explain",
            "a",
        ],
        json!({
            "budget": "8k", "reserve": 1000.0, "slots": "Document=500", "margin": 5.0, "policy": "rag",
            "query": "refunds", "tokenizer": "gpt-5", "now": "2026-03-01T00:00:00Z", "explain": "a",
            "target": null,
        }),
    );
    same::<SearchRequest>(
        &[
            "roll back",
            "--max-tokens",
            "2k",
            "--cache",
            "i",
            "-g",
            "a/**",
            "--path",
            "b/*",
            "--packing",
            "score-weighted",
            "--neighbours",
            "--top-k",
            "9",
            "--mode",
            "lexical",
            "--contains",
            "x",
            "--dedup-threshold",
            "0.5",
            "--after",
            "2026-03-01",
            "--min-score",
            "0.3",
            "-p",
            "rag",
        ],
        json!({
            "query": "roll back", "budget": 2000, "min_score": 0.3, "policy": "rag", "index": "i", "paths": ["a/**", "b/*"],
            "layout": "ranked", "neighbors": true, "limit": 9, "mode": "lexical",
            "must_contain": ["x"], "near_duplicates": 0.5, "after": "2026-03-01",
        }),
    );
    same::<ReadRequest>(&["q", "--path", "a.md"], json!({ "query": "q", "paths": "a.md" }));
    same::<IndexRequest>(&["d", "--force"], json!({ "sources": "d", "rebuild": true }));
    same::<SweepRequest>(&["--from", "10", "--max", "2k"], json!({ "min": 10, "max": 2000 }));
    same::<BudgetRequest>(&["x", "--ceiling", "9"], json!({ "item": "x", "max": 9 }));
    same::<LossRequest>(&["500", "-b", "2k"], json!({ "tokens": 500, "budget": 2000 }));
}

#[test]
fn mistakes_name_the_option() {
    let problem = |json: Value| PackRequest::from_value(json).unwrap_err().to_string();
    assert_eq!(
        problem(json!({ "budget": "many" })),
        "budget: write a number of tokens, as in 8000 or 128k"
    );
    assert_eq!(problem(json!({ "bugdet": 1 })), "unknown option `bugdet`; did you mean `budget`?");
    assert!(problem(json!({ "items": [{ "content": 1 }] })).starts_with("items[0].content: "));
    assert!(problem(json!({ "slots": ["Document"] })).starts_with("slots: write a kind"));
    assert!(problem(json!([])).starts_with("expected an object"));
    let policy = json!({ "policy": { "scorers": [{ "type": "recensy" }] } });
    assert!(problem(policy).starts_with("policy: in the policy, scorers[0]"));
}
