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
fn a_compressed_log_gives_the_request_of_the_log() {
    let folder = folder("compressed");
    let log = r#"{"type":"session_meta","payload":{"id":"1","cwd":"/"}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Fix the build."}]}}
{"type":"response_item","payload":{"type":"function_call","call_id":"c1","name":"shell","arguments":"{\"command\":\"make\"}"}}
{"type":"response_item","payload":{"type":"function_call_output","call_id":"c1","output":"error 404"}}
"#;
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    let compressed = ruzstd::encoding::compress_to_vec(log.as_bytes(), level);
    std::fs::write(folder.join("rollout.jsonl"), log).unwrap();
    std::fs::write(folder.join("rollout.jsonl.zst"), &compressed).unwrap();
    let plain = texts(&run(&folder, &["chat", "rollout.jsonl", "--budget", "1000"]));
    assert_eq!(plain.0, Some(0), "{plain:?}");
    let request: Value = serde_json::from_str(&plain.1).unwrap();
    assert_eq!(request["input"][2]["output"], "error 404");
    assert_eq!(texts(&run(&folder, &["chat", "rollout.jsonl.zst", "--budget", "1000"])), plain);
    // A damaged one is an error that names the file.
    std::fs::write(folder.join("short.jsonl.zst"), &compressed[..compressed.len() - 9]).unwrap();
    let (code, _, error) = texts(&run(&folder, &["chat", "short.jsonl.zst", "--budget", "1000"]));
    assert!(code == Some(6) && error.contains("short.jsonl.zst"), "{code:?} {error}");
}

#[test]
fn an_unchanged_request_is_printed_byte_for_byte() {
    let folder = folder("unchanged");
    let request = "{\n  \"messages\": [ { \"role\": \"user\", \"content\": \"Hi\" } ]\n}";
    for ending in ["", "\n", "\r\n"] {
        std::fs::write(folder.join("chat.json"), format!("{request}{ending}")).unwrap();
        let (code, text, _) = texts(&run(&folder, &["chat", "chat.json", "--budget", "1000"]));
        // A line ends with a line break.
        let expected = format!("{request}{}", if ending.is_empty() { "\n" } else { ending });
        assert_eq!((code, text), (Some(0), expected));
    }
}

#[test]
fn json_is_the_transcript_with_its_counts() {
    let folder = folder("json");
    let arguments = ["chat", TUESDAY, "--provider", "openai", "--budget", "95", "--once"];
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

/// A history with large results, as a request.
fn agent_history(steps: usize) -> Value {
    let mut messages = vec![serde_json::json!({ "role": "user", "content": "Fix the build." })];
    for step in 0..steps {
        let id = format!("call_{step}");
        let output: String =
            (0..60).map(|line| format!("line {line}: value_{step}_{line}\n")).collect();
        let call = serde_json::json!({
            "type": "tool_use", "id": id, "name": "read", "input": { "path": format!("src/{step}.rs") }
        });
        let result =
            serde_json::json!({ "type": "tool_result", "tool_use_id": id, "content": output });
        messages.push(serde_json::json!({ "role": "assistant", "content": [call] }));
        messages.push(serde_json::json!({ "role": "user", "content": [result] }));
    }
    serde_json::json!({ "messages": messages })
}

#[test]
fn sessions_cut_blocks_that_recall_returns() {
    let folder = folder("sessions");
    let history = agent_history(8);
    std::fs::write(folder.join("history.json"), history.to_string()).unwrap();
    let fit = ["chat", "history.json", "--budget", "1500", "--tokenizer", "bytes/4"];
    let (code, sent, _) = texts(&run(&folder, &[&fit[..], &["--store"]].concat()));
    assert_eq!(code, Some(0));
    let (_, json, _) = texts(&run(&folder, &[&fit[..], &["--format", "json"]].concat()));
    let answer: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(answer["transcript"], serde_json::from_str::<Value>(&sent).unwrap());
    assert!(answer["tokens"].as_i64().unwrap() <= 1500, "{json}");
    let cut = &answer["cuts"][0];
    let id = cut["id"].as_str().unwrap();
    assert!(sent.contains(id));
    let message = usize::try_from(cut["message"].as_u64().unwrap()).unwrap();
    let expected = history["messages"][message]["content"][0]["content"].as_str().unwrap();

    // From the history, and from the store.
    let recall = ["chat", "recall", id];
    for source in [&["--session", "history.json"][..], &[][..]] {
        let (_, content, _) = texts(&run(&folder, &[&recall[..], source].concat()));
        assert_eq!(content, expected);
        let lines = [&recall[..], source, &["--lines", "2-3"]].concat();
        let second: String = expected.split_inclusive('\n').skip(1).take(2).collect();
        assert_eq!(texts(&run(&folder, &lines)).1, second);
        let grep = [&recall[..], source, &["--grep", "line 7:"]].concat();
        assert_eq!(texts(&run(&folder, &grep)).1.lines().count(), 1);
    }
    let (code, _, error) = texts(&run(&folder, &[&recall[..], &["--budget", "9"]].concat()));
    assert_eq!(code, Some(3));
    assert!(error.contains("name some of the 60 lines"), "{error}");
    let (code, _, error) = texts(&run(&folder, &["chat", "recall", "00000000"]));
    assert_eq!(code, Some(2));
    assert!(error.contains("no block has the recall id `00000000`"), "{error}");
    let (code, _, error) = texts(&run(&folder, &[&recall[..], &["--lines", "3-2"]].concat()));
    assert_eq!(code, Some(2));
    assert!(error.contains("write two line numbers"), "{error}");

    // The breakpoint is at the last unchanged block and at the end.
    let (_, sent, _) = texts(&run(&folder, &[&fit[..], &["--cache-control"]].concat()));
    assert_eq!(sent.matches("\"cache_control\":{\"type\":\"ephemeral\"}").count(), 2);
    let (_, sent, _) = texts(&run(&folder, &[&fit[..], &["--once"]].concat()));
    assert!(!sent.contains("recall"));
}
