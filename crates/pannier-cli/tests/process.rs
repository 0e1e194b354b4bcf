//! The command as a process: colors, pipes, files, completions and manuals.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const ITEMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/support-chat.jsonl");

fn pannier(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pannier"));
    command.args(arguments).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
    command
}

fn run(arguments: &[&str]) -> Output {
    pannier(arguments).output().unwrap()
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn colors_need_a_terminal_or_a_request() {
    let table = ["pack", ITEMS, "--budget", "100", "--format", "table"];
    let has_colors = |output: Output| output.stdout.contains(&0x1b);
    assert!(!has_colors(run(&table)));
    assert!(has_colors(pannier(&table).env("CLICOLOR_FORCE", "1").output().unwrap()));
    let refused = pannier(&table).env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1").output();
    assert!(!has_colors(refused.unwrap()));
}

#[test]
fn data_has_no_colors_and_keeps_control_characters() {
    let content = "\u{1b}[31mred\u{1b}[0m \u{0} \r\n end";
    let item = format!("{{\"content\":{content:?},\"tokens\":1}}")
        .replace("\\u{1b}", "\\u001b")
        .replace("\\0", "\\u0000");
    let mut child = pannier(&["pack", "--budget", "10"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(item.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{content}\n"));
}

#[test]
fn closed_output_is_not_an_error() {
    // More than a pipe buffers.
    let long = format!("{{\"content\":\"{}\",\"tokens\":1}}\n", "x".repeat(4_000_000));
    let mut child = pannier(&["pack", "--budget", "10"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(long.as_bytes()).unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 10]).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn receipts_are_replaced_atomically() {
    let folder = folder("receipts");
    let receipt = folder.join("run.json");
    let select = |receipt: &Path| {
        run(&["pack", ITEMS, "--budget", "100", "--receipt", receipt.to_str().unwrap()])
    };
    assert!(select(&receipt).status.success());
    let first = std::fs::read(&receipt).unwrap();
    assert!(select(&receipt).status.success());
    assert_eq!(std::fs::read(&receipt).unwrap(), first, "the same run has the same receipt");

    let occupied = folder.join("occupied");
    std::fs::create_dir(&occupied).unwrap();
    let failed = select(&occupied);
    assert_eq!(failed.status.code(), Some(6));
    assert!(failed.stdout.is_empty(), "nothing is written if the receipt cannot be");
    let mut names: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["occupied", "run.json"]);
}

#[test]
fn items_are_read_from_files_and_standard_input() {
    let folder = folder("several");
    let (first, second) = (folder.join("first.json"), folder.join("second.jsonl"));
    std::fs::write(&first, "\u{feff}[{\"content\":\"one\"},{\"content\":\"two\"}]").unwrap();
    std::fs::write(&second, "\n{\"content\":\"four\"}\r\n\n").unwrap();
    let files = [first.to_str().unwrap(), "-", second.to_str().unwrap()];
    let mut child = pannier(&["pack", "--budget", "10", files[0], files[1], files[2]])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"{\"content\":\"three\"}").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "one\n\ntwo\n\nthree\n\nfour\n");
}

/// Runs the command with `input` on standard input.
fn fed(arguments: &[&str], input: &str) -> Output {
    let mut child = pannier(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn arrays_and_lines_can_be_mixed_across_files() {
    let folder = folder("order");
    let (first, second) = (folder.join("first.jsonl"), folder.join("second.json"));
    std::fs::write(&first, "{\"content\":\"one\"}\n").unwrap();
    std::fs::write(&second, "\n [{\"content\":\"two\"}]").unwrap();
    let output =
        run(&["pack", "--budget", "10", first.to_str().unwrap(), second.to_str().unwrap()]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "one\n\ntwo\n");
}

#[test]
fn control_characters_are_escaped_for_people() {
    let hostile = "\\u001b]0;title\\u0007";
    let item = format!(
        "{{\"content\":\"text {hostile}\",\"tokens\":9,\"id\":\"{hostile}\",\"kind\":\"{hostile}\",\"group\":\"{hostile}\"}}"
    );
    let output = |arguments: &[&str], input: &str| {
        let output = fed(arguments, input);
        [output.stdout, output.stderr].concat()
    };
    for arguments in [
        &["pack", "--budget", "5", "--format", "table"][..],
        &["pack", "--budget", "5", "--explain", "0"],
        &["simulate", "--sweep"],
        &["simulate", "--marginal", "9", "--budget", "9"],
        &["compare", "--budget", "9", "-p", "chat", "-p", "rag"],
    ] {
        let bytes = output(arguments, &item);
        assert!(
            !bytes.is_empty() && !bytes.contains(&0x1b) && !bytes.contains(&0x07),
            "{arguments:?}"
        );
    }
    let unknown = format!("{{\"content\":\"x\",\"{hostile}\":1}}");
    let bytes = output(&["pack", "--budget", "5"], &unknown);
    assert!(String::from_utf8_lossy(&bytes).contains("unknown field") && !bytes.contains(&0x1b));
}

#[test]
fn failed_check_keeps_its_exit_code_when_output_is_closed() {
    let folder = folder("closed");
    let receipt = folder.join("run.json");
    let receipt = receipt.to_str().unwrap();
    assert!(run(&["pack", ITEMS, "--budget", "100", "--receipt", receipt]).status.success());
    let mut child =
        pannier(&["replay", receipt]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    child.stdin.take().unwrap().write_all(b"{\"content\":\"other\"}").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn trailing_data_after_a_receipt_is_rejected() {
    let folder = folder("trailing");
    let receipt = folder.join("run.json");
    let path = receipt.to_str().unwrap();
    assert!(run(&["pack", ITEMS, "--budget", "100", "--receipt", path]).status.success());
    let text = std::fs::read_to_string(&receipt).unwrap();
    std::fs::write(&receipt, text + "{\"more\": true}").unwrap();
    let output = run(&["replay", path, ITEMS]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("data follows the receipt"));
}

#[test]
#[cfg(target_os = "linux")]
fn closed_stderr_does_not_change_the_exit_code() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let failed = pannier(&["pack", "missing", "--budget", "5"]).stderr(full()).status().unwrap();
    assert_eq!(failed.code(), Some(6));
    let timed = pannier(&["pack", ITEMS, "--budget", "100", "--verbose"])
        .stdout(Stdio::null())
        .stderr(full())
        .status();
    assert!(timed.unwrap().success());
    let output = pannier(&["pack", ITEMS, "--budget", "100"]).stdout(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(6));
}

#[test]
fn completions_and_manuals_exist_for_all_shells_and_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(&["completions", shell]);
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && script.contains("min-budget"), "{shell}");
        // Flags know policies, tokenizers and formats.
        for value in ["long-running", "cl100k", "jsonl"] {
            let has_values = shell != "elvish" && shell != "powershell";
            assert!(script.contains(value) || !has_values, "{shell} has no {value}");
        }
    }
    let manual = String::from_utf8(run(&["man"]).stdout).unwrap();
    assert!(manual.contains("the budget cannot be met"), "the exit codes are in the manual");
    let commands = [
        "pack",
        "chat",
        "docs search",
        "docs index",
        "memory",
        "snippets get",
        "serve",
        "inspect sweep",
        "inspect compare",
        "inspect replay",
        "policy",
        "tokens",
        "conformance",
    ];
    for command in commands {
        let words: Vec<&str> = command.split(' ').collect();
        let manual = run(&[&["man"], &words[..]].concat()).stdout;
        let manual = String::from_utf8(manual).unwrap();
        let title = format!(".TH pannier-{} 1", words.join("-"));
        assert!(manual.contains(&title), "{manual}");
        let help = String::from_utf8(run(&[&words[..], &["--help"]].concat()).stdout).unwrap();
        assert!(help.contains("Example"), "{command} has examples in its help");
    }
}

#[test]
fn a_knapsack_that_is_not_exact_warns() {
    let policy = folder("larger-buckets").join("policy.toml");
    let select = |memory_limit: u64| {
        let text =
            format!("slicer = \"knapsack\"\nmemory_limit = {memory_limit}\nscorers = [\"kind\"]");
        std::fs::write(&policy, text).unwrap();
        let policy = policy.to_str().unwrap();
        let output = run(&["pack", ITEMS, "--budget", "100", "--policy", policy, "-f", "json"]);
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (json, warning) = select(16);
    assert!(json.contains(r#""notes":[{"note":"LargerBuckets","#), "{json}");
    assert!(warning.contains("the knapsack is not exact"), "{warning}");
    let (json, warning) = select(1 << 20);
    assert!(!json.contains("notes"), "{json}");
    assert_eq!(warning, "");
}

#[cfg(feature = "schema")]
#[test]
fn committed_schema_is_up_to_date() {
    let schema = run(&["policy", "schema"]).stdout;
    let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/policy.schema.json");
    assert_eq!(String::from_utf8(schema).unwrap(), std::fs::read_to_string(committed).unwrap());
}

/// A device is written to directly, and a link stays a link.
#[cfg(unix)]
#[test]
fn receipts_follow_links_and_write_to_pipes() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("receipt-places");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let (file, link) = (folder.join("file.json"), folder.join("link.json"));
    std::fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let items = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/support-chat.jsonl");
    let select = |receipt: &Path| {
        let output = Command::new(env!("CARGO_BIN_EXE_pannier"))
            .args(["pack", items, "--budget", "100", "--receipt"])
            .arg(receipt)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    select(&link);
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("{\"receipt\":2"));
    select(Path::new("/dev/null"));
    assert!(!std::fs::symlink_metadata("/dev/null").unwrap().is_file());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_ends_a_search_with_what_is_known() {
    const COUNTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/commands/counts.toml");
    const SIGINT: u64 = 1 << 1;
    let path = folder("interrupt").join("items.jsonl");
    let item = |i: u32| {
        let (tokens, hint) = (50 + i * 7_919 % 400, f64::from(3_000 - i) / 3_000.0);
        format!("{{\"content\":\"item {i}\",\"tokens\":{tokens},\"futureRelevanceHint\":{hint}}}\n")
    };
    std::fs::write(&path, (0..3_000).map(item).collect::<String>()).unwrap();
    let path = path.to_str().unwrap();
    let question = ["simulate", path, "--policy", COUNTS, "--min-budget-for", "2999"];
    let mut command = pannier(&question);
    command.arg("--exhaustive").stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    // A signal that comes before the command listens ends it as usual.
    let catches = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
        u64::from_str_radix(mask, 16).unwrap() & SIGINT != 0
    };
    while !catches() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let (stdout, stderr) = (String::from_utf8(output.stdout), String::from_utf8(output.stderr));
    let (stdout, stderr) = (stdout.unwrap(), stderr.unwrap());
    assert!(stdout.ends_with("; larger ones were not tried\n"), "{stdout}");
    assert!(stderr.contains("error: interrupted"), "{stderr}");
}
