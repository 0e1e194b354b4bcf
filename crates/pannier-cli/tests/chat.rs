//! `pannier chat`: providers, formats, former flags and receipts.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const TUESDAY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/commands/tuesday-chat.json");
const MONDAY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/commands/monday-sent.json");

fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pannier"))
        .current_dir(folder)
        .args(arguments)
        .output()
        .unwrap()
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("chat").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn texts(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn former_flags_still_trim_the_same() {
    let folder = folder("former");
    let today = ["chat", TUESDAY, "--provider", "openai", "--budget", "95", "--previous", MONDAY];
    let former = ["chat", "-f", "openai", "--max-tokens", "95", TUESDAY, "--keep-prefix", MONDAY];
    let (code, today, _) = texts(&run(&folder, &today));
    let (_, printed, notes) = texts(&run(&folder, &former));
    assert_eq!((code, &printed), (Some(0), &today));
    assert!(notes.starts_with("`--format PROVIDER` is now `--provider PROVIDER`\n"), "{notes}");
}

#[test]
fn json_is_the_transcript_with_its_counts() {
    let folder = folder("json");
    let arguments = ["chat", TUESDAY, "--provider", "openai", "--budget", "95"];
    let (_, text, _) = texts(&run(&folder, &arguments));
    let (_, json, _) = texts(&run(&folder, &[&arguments[..], &["--format", "json"]].concat()));
    let answer: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(answer["transcript"], serde_json::from_str::<Value>(&text).unwrap());
    assert_eq!((&answer["tokenizer"], &answer["exactness"]), (&"o200k".into(), &"assumed".into()));
    assert!(answer["totals"]["tokens"].as_i64().unwrap() <= 95, "{json}");
    // The report may replace the transcript.
    let (_, report, _) = texts(&run(&folder, &[&arguments[..], &["--report=-"]].concat()));
    let report: Value = serde_json::from_str(&report).unwrap();
    assert!(report["report"]["included"].is_array() && report["repairs"].is_array());
}

#[test]
fn receipt_replays_with_the_same_previous_request_only() {
    let folder = folder("receipts");
    let arguments = ["chat", TUESDAY, "--provider", "openai", "--budget", "95"];
    let replay = |more: &[&str]| {
        texts(&run(&folder, &[&["inspect", "replay", "run.json", TUESDAY][..], more].concat()))
    };
    texts(&run(&folder, &[&arguments[..], &["--receipt", "run.json"]].concat()));
    assert_eq!(replay(&[]).1, "identical\n");
    let (code, _, error) = replay(&["--previous", MONDAY]);
    assert_eq!(code, Some(2));
    assert!(error.contains("it was made without a previous request"), "{error}");

    let previous = ["--previous", MONDAY, "--receipt", "run.json"];
    texts(&run(&folder, &[&arguments[..], &previous].concat()));
    assert_eq!(replay(&["--previous", MONDAY]).1, "identical\n");
    let (code, _, error) = replay(&[]);
    assert_eq!(code, Some(2));
    assert!(error.contains("it was made with another previous request"), "{error}");

    let changed = std::fs::read_to_string(TUESDAY).unwrap().replace("In blue?", "In green?");
    std::fs::write(folder.join("changed.json"), changed).unwrap();
    let changed = ["inspect", "replay", "run.json", "changed.json", "--previous", MONDAY];
    let (code, difference, _) = texts(&run(&folder, &changed));
    assert_eq!(code, Some(1));
    assert!(difference.starts_with("the pool differs: item"), "{difference}");
}

#[test]
fn errors_name_the_file_they_are_about() {
    let folder = folder("errors");
    std::fs::write(folder.join("broken.json"), "[{\"role\": 1}]").unwrap();
    let arguments = ["chat", TUESDAY, "--provider", "openai", "--budget", "95"];
    let previous = ["--previous", "broken.json"];
    let (code, _, error) = texts(&run(&folder, &[&arguments[..], &previous].concat()));
    assert_eq!(code, Some(2));
    assert!(error.starts_with("error: broken.json: messages[0].role: "), "{error}");
    let (code, _, error) =
        texts(&run(&folder, &["chat", "broken.json", "--provider", "openai", "--budget", "9"]));
    assert_eq!(code, Some(2));
    assert!(error.starts_with("error: broken.json: messages[0].role: "), "{error}");
}
