//! `pannier eval`: measures by hand on a few documents, and on real data if it is installed.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

fn eval(data: &Path, more: &[&str]) -> serde_json::Value {
    let output = Command::new(env!("CARGO_BIN_EXE_pannier"))
        .args(["eval", "--format", "json", "--data"])
        .arg(data)
        .args(more)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn folder(name: &str) -> PathBuf {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("eval-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn measures_follow_their_definitions() {
    let folder = folder("small");
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    write(
        "docs.jsonl",
        r#"{"id": "a", "title": "", "text": "apple apple apple"}
{"id": "b", "title": "Fruit", "text": "apple and pear"}
{"id": "c", "title": "", "text": "stone and water"}
"#,
    );
    write(
        "queries.jsonl",
        "{\"id\": \"1\", \"text\": \"apple\"}\n{\"id\": \"2\", \"text\": \"fruit\"}\n{\"id\": \"3\", \"text\": \"nobody judged\"}\n",
    );
    write("qrels.tsv", "1\tb\t1\n2\tb\t2\n2\tc\t1\n");
    let measured = eval(&folder, &[]);
    // The first query finds b second; the second finds b first, and c not at all.
    let second = 1.0 / 3_f64.log2();
    let expected = (second + 2.0 / (2.0 + second)) / 2.0;
    assert!((measured["ndcg_at_10"].as_f64().unwrap() - expected).abs() < 1e-12, "{measured}");
    assert_eq!(measured["recall_at_100"], 0.75);
    assert_eq!((&measured["queries"], &measured["overruns"]), (&2.into(), &0.into()));
    for budget in ["200", "400", "800", "1200"] {
        assert_eq!(measured["gold_in_context"][budget], 1.0);
    }
    let null = serde_json::Value::Null;
    assert_eq!((&measured["top3_in_first5"], &measured["adjacency"]), (&1.0.into(), &null));
    assert_eq!((&measured["misquoted"], &measured["odd_fences"]), (&0.into(), &0.into()));

    // A query whose documents are all irrelevant judges nothing.
    write("qrels.tsv", "1\tb\t1\n2\tb\t2\n2\tc\t1\n3\ta\t0\n");
    let graded = eval(&folder, &[]);
    assert_eq!((&graded["ndcg_at_10"], &graded["queries"]), (&measured["ndcg_at_10"], &3.into()));
    assert_eq!(graded["recall_at_100"], 0.75);
    write("qrels.tsv", "3\ta\t0\n");
    let graded = eval(&folder, &[]);
    assert_eq!((&graded["ndcg_at_10"], &graded["recall_at_100"]), (&null, &null));
    write("qrels.tsv", "1\tb\t1\n2\tb\t2\n2\tc\t1\n");

    // A ranking from a file.
    write("run.tsv", "1\tb\n2\tx\n2\tc\n");
    let run = folder.join("run.tsv");
    let measured = eval(&folder, &["--run", run.to_str().unwrap()]);
    let expected = (1.0 + second / (2.0 + second)) / 2.0;
    assert!((measured["ndcg_at_10"].as_f64().unwrap() - expected).abs() < 1e-12, "{measured}");
    assert!(measured.get("gold_in_context").is_none());

    // With answers, the context must contain the answer.
    write(
        "answers.jsonl",
        "{\"id\": \"1\", \"answer\": \"plum\"}\n{\"id\": \"2\", \"answer\": \"pear\"}\n",
    );
    // The first query has no such span, so nothing is judged there.
    let measured = eval(&folder, &["--budget", "200"]);
    assert_eq!(measured["gold_in_context"], serde_json::json!({"200": 1.0}));
    assert_eq!(measured["outcomes"][0]["contexts"]["200"]["gold"], null);

    // Compared with itself, nothing differs.
    write("before.json", &measured.to_string());
    let before = folder.join("before.json");
    let measured = eval(&folder, &["--budget", "200", "--baseline", before.to_str().unwrap()]);
    let differences = measured["differences"].as_array().unwrap();
    assert_eq!(differences.len(), 4, "{differences:?}");
    assert!(differences.iter().all(|one| one["interval"] == serde_json::json!([0.0, 0.0])));
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_tree_is_judged_by_the_functions_that_must_be_read() {
    let folder = folder("tree");
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    fs::create_dir_all(folder.join("tree/src")).unwrap();
    let function = |name: &str| format!("fn {name}() {{\n{}}}\n", "    step();\n".repeat(40));
    let (first, second) = (function("apple"), function("pear"));
    write("tree/src/a.rs", &format!("{first}\n{second}"));
    write(
        "queries.jsonl",
        "{\"id\": \"1\", \"text\": \"pear\"}\n{\"id\": \"2\", \"text\": \"plum\"}\n",
    );
    write("qrels.tsv", "1\tsrc/a.rs\t1\n2\tsrc/a.rs\t1\n");
    let items = |start: usize, end: usize| format!("[[\"src/a.rs\", {start}, {end}, \"f\"]]");
    let gold = items(first.len() + 1, first.len() + 1 + second.len());
    write("gold.jsonl", &format!("{{\"id\": \"1\", \"items\": {gold}}}\n"));
    let measured = eval(&folder, &[]);
    let (one, half) = (serde_json::json!(1.0), serde_json::json!(0.5));
    assert_eq!((&measured["queries"], &measured["misquoted"]), (&2.into(), &0.into()));
    for budget in ["1000", "2000", "4000"] {
        // The second query has no function to find, but a file.
        assert_eq!(measured["gold_in_context"][budget], one, "{measured}");
        assert_eq!(measured["document_in_context"][budget], half, "{measured}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn real_questions_find_their_paragraphs() {
    let data = std::env::var_os("PANNIER_DATA").map(PathBuf::from);
    let data = data.unwrap_or_else(|| {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/retrieval")
    });
    let data = data.join("xquad-en");
    if !data.is_dir() {
        // Standard error directly, because test output is captured.
        let message = "skipped: there is no xquad-en; set PANNIER_DATA to a folder of data sets";
        let _ = writeln!(std::io::stderr(), "{message}");
        return;
    }
    let measured = eval(&data, &["--queries", "120"]);
    assert!(measured["ndcg_at_10"].as_f64().unwrap() > 0.94, "{measured}");
    assert!(measured["gold_in_context"]["400"].as_f64().unwrap() > 0.9, "{measured}");
    assert_eq!(measured["overruns"], 0);
}

const SESSION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/session.json");

/// Replays the small session at a budget of 1,200 tokens.
fn eval_session(more: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_pannier"))
        .args(["eval", "sessions", SESSION, "--budget", "1200", "--format", "json"])
        .args(more)
        .output()
        .unwrap()
}

fn replayed(more: &[&str]) -> serde_json::Value {
    let output = eval_session(more);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn sessions_are_replayed_with_policies_and_prices() {
    let measured = replayed(&["--policy", "everything,oldest-first"]);
    let policies = &measured["budgets"][0]["policies"];
    assert_eq!(policies[0]["summary"]["cost"], 1.0);
    // The figures are those of the library's test.
    let oldest = &policies[1]["summary"];
    assert_eq!(format!("{:.3}", oldest["cost"].as_f64().unwrap()), "0.925");
    assert_eq!(policies[1]["sessions"][0]["figures"]["lost_needles"], 13);
    // Without a cache, a policy pays for all tokens that it sends: 7,205 of 13,676.
    let plain = replayed(&["--policy", "oldest-first", "--read-price", "1", "--write-price", "1"]);
    let cost = plain["budgets"][0]["policies"][0]["summary"]["cost"].as_f64().unwrap();
    assert!((cost - 7_205.0 / 13_676.0).abs() < 1e-9, "{cost}");
}

#[test]
#[cfg(unix)]
fn a_foreign_command_gets_requests_budget_state_and_its_previous_output() {
    let folder = folder("command");
    let script = folder.join("fit.sh");
    // Passes requests on, and checks that state and previous output are those of the last call.
    fs::write(
        &script,
        r#"test "$1" = 1200 || exit 1
cat > "$2.now"
if test -e "$2"; then cmp -s "$2" "$3" || { echo "not the previous output" >&2; exit 2; }; fi
cp "$2.now" "$2"
cat "$2"
"#,
    )
    .unwrap();
    let command = format!("same=sh {} {{budget}} {{state}} {{prev}}", script.display());
    let measured = replayed(&["--command", &command]);
    let summary = &measured["budgets"][0]["policies"][0]["summary"];
    assert_eq!(summary["refused"], 0, "{summary}");
    assert_eq!((&summary["cost"], &summary["needles"]), (&1.0.into(), &1.0.into()));
    // It keeps no budget, which is counted.
    assert_eq!(summary["overruns"], 6);
    let _ = fs::remove_dir_all(&folder);
}

#[test]
#[cfg(unix)]
fn a_failing_or_endless_command_is_a_refusal() {
    for (command, timeout, reason) in [
        ("x=echo too small >&2; exit 3", "60", "too small"),
        ("x=exit 3", "60", "exit status: 3"),
        ("x=echo hello", "60", "the output is not a request: line 1, column 1: expected value"),
        ("x=sleep 30 & sleep 30", "0", "no answer within 0 s"),
    ] {
        let measured = replayed(&["--command", command, "--timeout", timeout]);
        let summary = &measured["budgets"][0]["policies"][0]["summary"];
        assert_eq!(summary["refused"], 10, "{command}: {summary}");
        let refusal = summary["refusal"].as_str().unwrap();
        assert!(refusal.starts_with(reason), "{command}: {refusal}");
    }
}

#[test]
fn fitting_prints_a_policy_for_sessions() {
    let folder = folder("fit");
    let output = Command::new(env!("CARGO_BIN_EXE_pannier"))
        .args(["eval", "sessions", SESSION, SESSION, "--budget", "1200", "--fit"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("# fitted on 1 sessions: cost with recalls "), "{text}");
    let policy = folder.join("mine.toml");
    fs::write(&policy, &text).unwrap();
    // The same session decides and checks, so the file costs what its comment says, and not more than the start.
    let after = text.split(" after").next().unwrap().rsplit(' ').next().unwrap();
    let measured = replayed(&["--policy", &format!("balanced,{}", policy.display())]);
    let policies = &measured["budgets"][0]["policies"];
    let cost = |index: usize| policies[index]["summary"]["cost_with_recalls"].as_f64().unwrap();
    assert_eq!(format!("{:.3}", cost(1)), after);
    assert!(cost(1) <= cost(0), "{policies}");
    let _ = fs::remove_dir_all(&folder);
}

#[test]
fn wrong_options_of_a_replay_are_explained() {
    for (options, problem) in [
        (&["--policy", "best"][..], "there is no policy 'best'"),
        (&["--policy", "rag"][..], "policy 'rag' is not for sessions"),
        (&["--command", "cat"][..], "write a name and a command"),
        (&["--budget", "1.5"][..], "write tokens, as in 16k, or a share"),
        (&["--read-price=-1"][..], "it must be from 0 to 1000000"),
        (&["--min-requests", "99"][..], "there is no session to replay"),
    ] {
        let output = eval_session(options);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && message.contains(problem), "{options:?}: {message}");
    }
}
