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
    assert_eq!((&measured["top3_in_first5"], &measured["adjacency"]), (&1.0.into(), &0.0.into()));

    // A ranking from a file.
    write("run.tsv", "1\tb\n2\tx\n2\tc\n");
    let run = folder.join("run.tsv");
    let measured = eval(&folder, &["--run", run.to_str().unwrap()]);
    let expected = (1.0 + second / (2.0 + second)) / 2.0;
    assert!((measured["ndcg_at_10"].as_f64().unwrap() - expected).abs() < 1e-12, "{measured}");
    assert!(measured.get("gold_in_context").is_none());

    // With answers, the passage must contain the answer.
    write(
        "answers.jsonl",
        "{\"id\": \"1\", \"answer\": \"plum\"}\n{\"id\": \"2\", \"answer\": \"pear\"}\n",
    );
    assert_eq!(eval(&folder, &[])["gold_in_context"]["200"], 0.5);
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
