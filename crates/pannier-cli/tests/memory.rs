//! `pannier memory` in a shell and as a hook: folders, settings, sessions, hook formats and exit codes.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const HARBOUR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/harbour");
const NOW: &str = "2026-11-16T12:00:00Z";

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("memory").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The command in a folder, with a state folder inside it.
fn pannier(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pannier"));
    command.current_dir(folder).arg("memory").args(arguments);
    command.env("XDG_STATE_HOME", folder.join("state")).env_remove("CTX_TOKEN_BUDGET");
    command.env("XDG_CONFIG_HOME", folder.join("config"));
    command.stdin(Stdio::null());
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    pannier(folder, arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code));
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Creates a project with these files in `.context`.
fn project(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let root = folder(name);
    fs::create_dir_all(root.join(".context")).unwrap();
    for (path, text) in files {
        fs::write(root.join(path), text).unwrap();
    }
    root
}

#[test]
fn context_folder_is_found_in_parents_and_its_absence_gets_advice() {
    let root = project("below", &[(".context/TASKS.md", "- [ ] Mend the roof\n")]);
    let below = root.join("src/deep");
    fs::create_dir_all(&below).unwrap();
    let text = stdout(&run(&below, &[]));
    assert!(text.contains("1. .context/TASKS.md\n") && text.contains("- [ ] Mend the roof\n"));
    assert_eq!(text, stdout(&run(&root, &[])));
    assert_eq!(text, stdout(&run(&root, &[".context"])));
    assert_eq!(text, stdout(&run(&root, &["show", ".context"])));
    let error = stderr(&run(Path::new("/"), &[]), 2);
    assert!(error.contains("there is no .context folder") && error.contains("pannier memory init"));
}

#[test]
fn init_writes_a_usable_folder_and_never_overwrites() {
    let root = folder("init");
    let written = stdout(&run(&root, &["init"]));
    assert_eq!(written.lines().count(), 5, "{written}");
    let output = run(&root, &[]);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout(&output).contains("## Constitution (NEVER VIOLATE)"));
    let before = fs::read_to_string(root.join(".context/TASKS.md")).unwrap();
    let error = stderr(&run(&root, &["init"]), 2);
    assert!(error.contains("already exists"), "{error}");
    assert_eq!(before, fs::read_to_string(root.join(".context/TASKS.md")).unwrap());
}

#[test]
fn flag_overrides_environment_overrides_file() {
    let root = project(
        "settings",
        &[(".context/TASKS.md", "- [ ] a\n"), (".ctxrc", "token_budget: 700\nother: [1]\n")],
    );
    let budget = |arguments: &[&str], variable: Option<&str>| {
        let mut command = pannier(&root, arguments);
        if let Some(value) = variable {
            command.env("CTX_TOKEN_BUDGET", value);
        }
        let text = stdout(&command.output().unwrap());
        text.split("Budget: ").nth(1).unwrap().split(' ').next().unwrap().to_owned()
    };
    assert_eq!(budget(&[], None), "700");
    assert_eq!(budget(&[], Some("")), "700");
    assert_eq!(budget(&[], Some("800")), "800");
    assert_eq!(budget(&["--budget", "900"], Some("800")), "900");
    let error = pannier(&root, &[]).env("CTX_TOKEN_BUDGET", "many").output().unwrap();
    assert!(stderr(&error, 2).contains("CTX_TOKEN_BUDGET is 'many'"));
    fs::write(root.join(".ctxrc"), "task_budget_pct: 1.5\n").unwrap();
    let error = stderr(&run(&root, &[]), 2);
    assert!(error.contains(".ctxrc") && error.contains("task_budget_pct is 1.5"), "{error}");
    // The percentages come from the file.
    let tasks: String = (0..90).map(|number| format!("- [ ] task number {number}\n")).collect();
    fs::write(root.join(".context/TASKS.md"), tasks).unwrap();
    let conventions: String = (0..90).map(|number| format!("- convention {number}\n")).collect();
    fs::write(root.join(".context/CONVENTIONS.md"), conventions).unwrap();
    let count = |share: &str| {
        fs::write(root.join(".ctxrc"), format!("task_budget_pct: {share}\n")).unwrap();
        stdout(&run(&root, &["--budget", "300"])).matches("- [ ] ").count()
    };
    assert!(count("0.0") == 0 && count("0.2") < count("0.5"));
}

#[test]
fn session_gets_one_packet_per_cooldown() {
    let root = project("sessions", &[(".context/TASKS.md", "- [ ] a\n")]);
    let at = |session: &str, time: &str, more: &[&str]| {
        let mut arguments = vec!["--session", session, "--now", time];
        arguments.extend(more);
        stdout(&run(&root, &arguments))
    };
    assert!(!at("one", "2026-11-16T12:00:00Z", &[]).is_empty());
    assert!(at("one", "2026-11-16T12:09:59Z", &[]).is_empty());
    assert!(!at("two", "2026-11-16T12:00:01Z", &[]).is_empty());
    assert!(!at("one", "2026-11-16T12:10:00Z", &[]).is_empty());
    assert!(at("one", "2026-11-16T12:15:00Z", &["--cooldown", "1h"]).is_empty());
    assert!(!at("one", "2026-11-16T12:15:00Z", &["--cooldown", "90s"]).is_empty());
    fs::write(root.join(".ctxrc"), "agent_cooldown_minutes: 1\n").unwrap();
    assert!(!at("one", "2026-11-16T12:16:00Z", &[]).is_empty());
    // Cooldowns are per folder.
    let other = project("sessions-too", &[(".context/TASKS.md", "- [ ] b\n")]);
    let mut command = pannier(&root, &[other.to_str().unwrap(), "--session", "one"]);
    assert!(!stdout(&command.args(["--now", "2026-11-16T12:16:01Z"]).output().unwrap()).is_empty());
    // A failed packet starts no cooldown.
    let failed = ["--session", "three", "--now", NOW, "--tokenizer", "none-such"];
    assert!(!run(&root, &failed).status.success());
    assert!(!at("three", NOW, &[]).is_empty());
}

#[test]
fn session_ids_cannot_escape_the_state_folder() {
    let root = project("names", &[(".context/TASKS.md", "- [ ] a\n")]);
    for name in ["x/../../evil", "..", ".hidden", "a b", "", "a\u{0}b", "/tmp/x", "é"] {
        if name.contains('\u{0}') {
            continue;
        }
        let error = stderr(&run(&root, &["--session", name]), 2);
        assert!(error.contains("cannot name a session"), "{error}");
    }
    let entries: Vec<_> =
        fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(entries, [".context"]);
    let error = stderr(&run(&root, &["--cooldown", "10m"]), 2);
    assert!(error.contains("--session"), "{error}");
    for wrong in ["10", "m", "-1m", "1d", "99999999999999999999h"] {
        assert_eq!(
            run(&root, &["--session", "a", &format!("--cooldown={wrong}")]).status.code(),
            Some(2)
        );
    }
}

/// Runs the command as a hook with this input.
fn hook(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut command = pannier(folder, arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

#[test]
fn hooks_print_the_format_of_their_host() {
    let root = folder("hooks");
    let packet = stdout(&run(&root, &[HARBOUR, "--now", NOW, "--max-chars", "10000"]));
    let input = |event: &str| {
        let event = format!("{{\"hook_event_name\":\"{event}\",\"session_id\":\"s-1\"}}");
        event.replace("\"hook_event_name\":\"\",", "")
    };
    let output = |host: &str, event: &str| {
        let output = hook(&root, &[HARBOUR, "--now", NOW, "--hook", host], &input(event));
        serde_json::from_str::<serde_json::Value>(&stdout(&output)).unwrap()
    };
    for event in ["SessionStart", "UserPromptSubmit", "PreToolUse"] {
        let value = output("claude-code", event);
        assert_eq!(value["hookSpecificOutput"]["hookEventName"], event);
        assert_eq!(value["hookSpecificOutput"]["additionalContext"], *packet);
    }
    assert_eq!(output("claude-code", "")["hookSpecificOutput"]["hookEventName"], "SessionStart");
    let value = output("copilot", "sessionStart");
    assert_eq!(value["additionalContext"], *packet);
    assert_eq!(value["hookSpecificOutput"]["additionalContext"], *packet);
    let plain = hook(&root, &[HARBOUR, "--now", NOW, "--hook", "plain"], "");
    assert_eq!(stdout(&plain), stdout(&run(&root, &[HARBOUR, "--now", NOW])));
    // An unknown host may write anything, and may keep its input open.
    assert_eq!(
        stdout(&hook(&root, &[HARBOUR, "--now", NOW, "--hook", "plain"], "hello")),
        stdout(&plain)
    );
    let mut open = pannier(&root, &[HARBOUR, "--now", NOW, "--hook", "claude-code"]);
    let mut open = open.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = open.stdin.take().unwrap();
    input.write_all(b"{\"hook_event_name\":\"SessionStart\"}\n").unwrap();
    assert!(open.wait().unwrap().success());
    drop(input);
    // Session ids of hosts may have any characters.
    let odd = "{\"session_id\":\"a:b/../c\",\"hook_event_name\":\"PreToolUse\"}";
    let arguments = [HARBOUR, "--now", NOW, "--hook", "claude-code", "--cooldown", "10m"];
    assert!(!stdout(&hook(&root, &arguments, odd)).is_empty());
    assert_eq!(stdout(&hook(&root, &arguments, odd)), "");
    // The host names the session and the working directory.
    let input = format!(
        "{{\"hook_event_name\":\"PreToolUse\",\"session_id\":\"s-2\",\"cwd\":{HARBOUR:?}}}"
    );
    let arguments = ["--now", NOW, "--hook", "claude-code", "--cooldown", "10m"];
    assert!(stdout(&hook(&root, &arguments, &input)).contains("Berth numbers"));
    assert_eq!(stdout(&hook(&root, &arguments, &input)), "");
}

/// Hosts read exit code 2 as an order to block the user.
#[test]
fn failing_hook_never_exits_with_two() {
    let root = folder("failing-hooks");
    for (arguments, input) in [
        (vec![HARBOUR, "--hook", "claude-code", "--budgt", "5"], ""),
        (vec![HARBOUR, "--hook=claude-code", "--budget", "many"], ""),
        (vec![HARBOUR, "--hook", "claude"], ""),
        (vec![HARBOUR, "--hook", "claude-code"], "no JSON"),
        (vec![HARBOUR, "--hook", "claude-code"], "{\"hook_event_name\":\"Stop\"}"),
        (vec![HARBOUR, "--hook", "copilot", "--tokenizer", "none-such"], "{}"),
        (vec![HARBOUR, "--hook", "claude-code", "--session", "../x"], "{}"),
        (vec!["hook", "claude-code", HARBOUR, "--budgt", "5"], ""),
        (vec!["hook", "claude", HARBOUR], ""),
        (vec!["hook", "claude-code", HARBOUR], "no JSON"),
        (vec!["hook", "copilot", HARBOUR, "--explain", "1"], "{}"),
        (vec!["hook", "copilot", HARBOUR, "--format", "jsonl"], "{}"),
    ] {
        let error = stderr(&hook(&root, &arguments, input), 1);
        assert!(error.starts_with("error: "), "{error}");
    }
    // A project without memory is not a failure.
    for arguments in [["/", "--hook", "claude-code"], ["hook", "claude-code", "/"]] {
        let output = hook(&root, &arguments, "{}");
        assert!(output.status.success() && output.stdout.is_empty());
    }
}

#[test]
fn session_start_ignores_the_cooldown() {
    let root = project("begins", &[(".context/TASKS.md", "- [ ] a\n")]);
    let arguments = ["--hook", "claude-code", "--cooldown", "10m", "--now", NOW];
    let output = |event: &str| {
        let input = format!("{{\"hook_event_name\":\"{event}\",\"session_id\":\"s\"}}");
        stdout(&hook(&root, &arguments, &input))
    };
    assert!(!output("PreToolUse").is_empty() && output("PreToolUse").is_empty());
    assert!(!output("SessionStart").is_empty() && !output("SessionStart").is_empty());
    assert!(output("PreToolUse").is_empty());
}

#[test]
fn each_event_and_each_prompt_of_a_hook_has_its_own_cooldown() {
    let root = project("hook-cooldowns", &[(".context/TASKS.md", "- [ ] a\n")]);
    let output = |event: &str, prompt: &str, now: &str| {
        let input = format!(
            "{{\"hook_event_name\":\"{event}\",\"session_id\":\"s\",\"prompt\":\"{prompt}\"}}"
        );
        stdout(&hook(&root, &["hook", "claude-code", "--now", now], &input))
    };
    assert!(!output("SessionStart", "", NOW).is_empty());
    // Also without the flag, and after another event.
    assert!(!output("UserPromptSubmit", "one", NOW).is_empty());
    assert!(output("UserPromptSubmit", "one", "2026-11-16T12:09:59Z").is_empty());
    assert!(!output("UserPromptSubmit", "two", NOW).is_empty());
    assert!(!output("UserPromptSubmit", "one", "2026-11-16T12:10:00Z").is_empty());
    fs::write(root.join(".ctxrc"), "agent_cooldown_minutes: 60\n").unwrap();
    assert!(output("UserPromptSubmit", "one", "2026-11-16T12:30:00Z").is_empty());
    fs::write(root.join(".ctxrc"), "agent_cooldown_minutes: 0\n").unwrap();
    assert!(!output("UserPromptSubmit", "one", "2026-11-16T12:30:00Z").is_empty());
}

#[test]
fn hook_prompt_and_file_are_part_of_the_query() {
    let root = folder("prompts");
    let arguments = [HARBOUR, "--hook", "plain", "--now", NOW, "--budget", "400"];
    let packet = |input: &str| stdout(&hook(&root, &arguments, input));
    let (heading, input) =
        ("One database, with the harbour in every key.", |field: &str| format!("{{{field}}}"));
    assert!(!packet("{}").contains(heading));
    assert!(packet(&input("\"prompt\":\"back up the database of one harbour\"")).contains(heading));
    let file = input("\"tool_input\":{\"file_path\":\"src/database/harbour.rs\"}");
    assert!(packet(&file).contains(heading));
    let arguments = ["--now", NOW, "--budget", "400", "--files", "src/database/harbour.rs"];
    let packet = stdout(&run(Path::new(HARBOUR), &arguments));
    assert!(packet.contains(heading));
}

#[test]
fn packet_is_printed_without_a_state_folder() {
    let root = project("stateless", &[(".context/TASKS.md", "- [ ] a\n"), ("file", "")]);
    let run = |state: &str| {
        let mut command = pannier(&root, &["--session", "s"]);
        command.env("XDG_STATE_HOME", state).env_remove("HOME").env_remove("LOCALAPPDATA");
        command.output().unwrap()
    };
    for state in ["", root.join("file").to_str().unwrap()] {
        let output = run(state);
        assert!(stdout(&output).contains("- [ ] a\n"));
        assert!(String::from_utf8(output.stderr).unwrap().starts_with("warning: "));
    }
}

#[test]
fn packet_respects_the_character_limit_of_its_host() {
    let learnings: String = (0..300)
        .map(|number| format!("## [2026-11-01] Learning {number}\n\n{}\n\n", "wörd ".repeat(40)))
        .collect();
    let root = project("characters", &[(".context/LEARNINGS.md", &learnings)]);
    let output = hook(&root, &["--hook", "claude-code", "--now", NOW, "--budget", "50000"], "{}");
    let value: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let text = value["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    let characters = text.chars().count();
    assert!((9_000..=10_000).contains(&characters), "{characters}");
    assert!(text.contains("more: "), "{text}");
    let text = stdout(&run(&root, &["--max-chars", "2000", "--now", NOW]));
    assert!(text.chars().count() <= 2_000);
}

#[test]
fn invalid_entries_are_reported_with_their_line_and_skipped() {
    let root = project("warnings", &[]);
    fs::write(root.join(".context/TASKS.md"), b"- [ ] good\n- [ ] b\xffd\n").unwrap();
    let output = run(&root, &[]);
    let text = stdout(&output);
    assert!(text.contains("- [ ] good\n- [ ] b\u{fffd}d\n"), "{text}");
    let warnings = String::from_utf8(output.stderr).unwrap();
    assert!(warnings.starts_with("warning: .context/TASKS.md:2: byte 18"), "{warnings}");
}

#[test]
fn items_and_policy_of_a_packet_work_with_other_commands() {
    let root = folder("questions");
    let write = |name: &str, format: &str| {
        let text = stdout(&run(&root, &[HARBOUR, "--now", NOW, "--format", format]));
        fs::write(root.join(name), text).unwrap();
    };
    write("items.jsonl", "jsonl");
    write("policy.toml", "policy");
    let simulate = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pannier"));
        stdout(&command.current_dir(&root).args(arguments).output().unwrap())
    };
    let select =
        ["pack", "items.jsonl", "--policy", "policy.toml", "--budget", "300", "--format", "table"];
    assert!(simulate(&select).contains("Shortened"), "{}", simulate(&select));
    let sweep = simulate(&[
        "simulate",
        "items.jsonl",
        "--policy",
        "policy.toml",
        "--sweep",
        "--from",
        "100",
        "--to",
        "600",
    ]);
    assert!(sweep.contains("learning-2026-11-12"), "{sweep}");
}

#[test]
fn packet_replays_from_its_receipt() {
    let root = project("receipts", &[(".context/LEARNINGS.md", "## [2026-11-01] One\n\nbody\n")]);
    stdout(&run(&root, &["--now", NOW, "--receipt", "run.json", "--query", "one"]));
    let replay = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pannier"));
        command.current_dir(&root).arg("replay").arg("run.json").args(arguments).output().unwrap()
    };
    assert_eq!(stdout(&replay(&["--context", "."])), "identical\n");
    let error = stderr(&replay(&[]), 2);
    assert!(error.contains("it was made from memory; add --context"), "{error}");
    fs::write(root.join(".context/LEARNINGS.md"), "## [2026-11-01] One\n\nbodies\n").unwrap();
    let changed = replay(&["--context", "."]);
    assert_eq!(changed.status.code(), Some(1));
    assert!(
        String::from_utf8(changed.stdout).unwrap().starts_with("the context folder has changed")
    );
}

#[test]
fn hook_command_prints_what_the_former_flag_printed() {
    let root = folder("hook-command");
    let input = "{\"hook_event_name\":\"PreToolUse\",\"prompt\":\"back up the database\"}";
    for host in ["claude-code", "copilot", "plain"] {
        let input = if host == "copilot" { "{}" } else { input };
        let more = ["--now", NOW, "--budget", "400"];
        let former = hook(&root, &[&[HARBOUR, "--hook", host][..], &more].concat(), input);
        let today = hook(&root, &[&["hook", host, HARBOUR][..], &more].concat(), input);
        assert_eq!(stdout(&former), stdout(&today), "{host}");
        assert!(!today.stdout.is_empty());
    }
}

/// `agent` is the command of the format's specification: its defaults and bytes do not depend on a project's settings.
#[test]
fn agent_prints_the_specified_packet_regardless_of_settings() {
    let learnings: String = (0..60)
        .map(|number| format!("## [2026-11-01] Learning {number}\n\nsrc/a.rs\n\n"))
        .collect();
    let root = project("agent", &[(".context/LEARNINGS.md", &learnings)]);
    let command = |name: &str, arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pannier"));
        command.current_dir(&root).arg(name).args(["--now", NOW]).args(arguments);
        command.env_remove("CTX_TOKEN_BUDGET").env("PANNIER_BUDGET", "300");
        let output = command.output().unwrap();
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        stdout(&output)
    };
    let plain = command("agent", &["--budget", "8k", "--tokenizer", "bytes/4"]);
    fs::write(root.join("pannier.toml"), "tokenizer = \"o200k\"\n").unwrap();
    assert_eq!(command("agent", &[]), plain);
    let specified = command("agent", &["--budget", "300"]);
    assert!(specified.contains("\nAlso noted:\n\n- Learning "), "{specified}");
    let today = command("memory", &[]);
    assert!(today.contains("Budget: 300 tokens") && today.contains("\n## Also noted\n"), "{today}");
    for (former, today) in [
        (&["--format", "md"][..], &["--format", "text"][..]),
        (&["--format", "items"], &["--format", "jsonl"]),
        (&["--files", "src/a.rs", "src/b.rs"], &["--file", "src/a.rs", "--file", "src/b.rs"]),
        (&["--format", "json", "--query", "back up"], &["-f", "json", "--query", "back up"]),
        (&["--explain", "9"], &["--explain", "9"]),
    ] {
        let specified = ["--budget", "8000", "--tokenizer", "bytes/4"];
        let today = command("agent", &[&specified, today].concat());
        assert_eq!(command("agent", former), today, "{former:?}");
    }
    let explained = command("agent", &["--format", "json", "--explain", "9"]);
    assert!(explained.starts_with("[{"), "{explained}");
    let explained = command("memory", &["--format", "json", "--explain", "9"]);
    assert!(explained.starts_with("{\"explanations\":[{"), "{explained}");
}

#[test]
fn report_lists_all_entries() {
    let root = folder("reports");
    let arguments = [HARBOUR, "--now", NOW, "--budget", "300"];
    let packet = stdout(&run(&root, &arguments));
    let output = run(&root, &[&arguments[..], &["--report"]].concat());
    assert_eq!(stdout(&output), packet);
    let table = String::from_utf8(output.stderr).unwrap();
    assert!(table.contains("In, in the order to send") && table.contains("learning-2026-11-12"));
    stdout(&run(&root, &[&arguments[..], &["--report=report.json"]].concat()));
    let report = fs::read_to_string(root.join("report.json")).unwrap();
    assert!(report.contains("\"excluded\":["), "{report}");
}

#[test]
fn get_prints_whole_entries_by_id() {
    let root = project(
        "get",
        &[(
            ".context/DECISIONS.md",
            "## ADR-1: Row\n\nTo the east.\n\n## ADR-2: Rest\n\nAt noon.\n",
        )],
    );
    let packet = stdout(&run(&root, &["--budget", "100000", "--format", "jsonl"]));
    let item: serde_json::Value = serde_json::from_str(packet.lines().next().unwrap()).unwrap();
    let id = item["id"].as_str().unwrap();
    let text = stdout(&run(&root, &["get", id]));
    assert!(text.contains("ADR-1: Row\n\n.context/DECISIONS.md:1\n\nTo the east.\n"), "{text}");
    // The short id is in the heading.
    let short = text.split_whitespace().nth(1).unwrap();
    assert_eq!(stdout(&run(&root, &["get", short])), text);
    let some = run(&root, &["get", short, "d000000"]);
    assert_eq!(stdout(&some), text);
    assert!(String::from_utf8(some.stderr).unwrap().contains("no entry with the id d000000"));
    assert!(stderr(&run(&root, &["get", "d000000"]), 1).contains("no entry with the id d000000"));
    assert_eq!(run(&root, &["get"]).status.code(), Some(2));
}

#[test]
fn check_lists_what_is_not_read() {
    let root = project("check", &[(".context/TASKS.md", "# Tasks\n\n- [ ] a\n- [x] b\n")]);
    let text = stdout(&run(&root, &["check"]));
    assert_eq!(
        text,
        ".context/TASKS.md: entries 1, lines 3 (in entries 1, headings 1, completed tasks 1, comments and separators 0, not read 0)\n"
    );
    fs::write(root.join(".context/TASKS.md"), "- [ ]\n<!-- open\n- [ ] a\n").unwrap();
    let output = run(&root, &["check"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("  .context/TASKS.md:1: not read\n"), "{text}");
    assert!(text.contains(".context/TASKS.md:2: the comment is not closed"), "{text}");
    fs::write(root.join(".context/TASKS.md"), "- [ ] a\n").unwrap();
    fs::write(root.join(".context/NOTES.md"), "- a\n").unwrap();
    let text = stdout(&run(&root, &["check"]));
    assert!(text.contains(".context/NOTES.md: not read, because packets use no file of"), "{text}");
}

#[test]
fn one_of_many_parallel_hooks_prints() {
    let root = project("parallel", &[(".context/TASKS.md", "- [ ] a\n")]);
    let arguments = ["hook", "claude-code", "--now", NOW];
    let input = "{\"hook_event_name\":\"UserPromptSubmit\",\"session_id\":\"s\",\"prompt\":\"p\"}";
    let printed: usize = std::thread::scope(|scope| {
        let call = || usize::from(!stdout(&hook(&root, &arguments, input)).is_empty());
        let calls: Vec<_> = (0..24).map(|_| scope.spawn(call)).collect();
        calls.into_iter().map(|call| call.join().unwrap()).sum()
    });
    assert_eq!(printed, 1);
}

#[test]
fn hook_of_an_empty_memory_prints_nothing() {
    let root = project("empty", &[(".context/TASKS.md", "# Tasks\n")]);
    let output = hook(&root, &["hook", "claude-code"], "{\"hook_event_name\":\"SessionStart\"}");
    assert_eq!(stdout(&output), "");
    // The packet itself asks for no claim.
    assert_eq!(
        stdout(&run(&root, &["--now", NOW])),
        "# Context Packet\n\nBudget: 8000 tokens | Used: 17 tokens\n\n"
    );
    assert!(!stdout(&run(&root, &["--format", "json"])).contains("instruction"));
    // A budget that holds nothing but the frame.
    fs::create_dir_all(root.join(".context/learnings")).unwrap();
    fs::write(root.join(".context/learnings/a.md"), "## Oars float\n\nWords.\n").unwrap();
    let arguments = ["--budget", "24", "--now", NOW];
    let packet = stdout(&run(&root, &arguments));
    assert!(packet.contains("+1 more") && !packet.contains("Before you begin"), "{packet}");
    assert_eq!(stdout(&hook(&root, &[&["hook", "plain"], &arguments[..]].concat(), "")), "");
}

#[test]
fn files_of_other_tools_and_of_the_user_are_in_the_packet() {
    let root = folder("sources");
    let error = stderr(&run(&root, &["add", "task", "x"]), 2);
    assert!(error.contains("there is no .context folder"), "{error}");
    fs::write(root.join("CLAUDE.md"), "Row east.\n").unwrap();
    let user = root.join("config/pannier/context");
    fs::create_dir_all(&user).unwrap();
    fs::write(user.join("NOTES.md"), "Answer in French.\n").unwrap();
    let text = stdout(&run(&root, &[]));
    let label = format!("### {}/NOTES.md\n\nAnswer in French.\n", user.display());
    assert!(text.contains("### CLAUDE.md\n\nRow east.\n") && text.contains(&label), "{text}");
    let text = stdout(&run(&root, &["--no-user"]));
    assert!(text.contains("Row east.") && !text.contains("French"), "{text}");
    let receipt = root.join("packet.json").display().to_string();
    stdout(&run(&root, &["--receipt", &receipt]));
    let mut replay = Command::new(env!("CARGO_BIN_EXE_pannier"));
    replay.args(["inspect", "replay", &receipt, "--context", "."]).current_dir(&root);
    stdout(&replay.env("XDG_CONFIG_HOME", root.join("config")).output().unwrap());
    let checked = stdout(&run(&root, &["check"]));
    assert!(checked.contains("CLAUDE.md: entries 1, lines 1 (in entries 1,"), "{checked}");
    // The host shows its model this file itself.
    let hook = stdout(&run(&root, &["hook", "claude-code"]));
    assert!(hook.contains("French") && !hook.contains("Row east."), "{hook}");
    assert_eq!(stdout(&run(&root, &["hook", "claude-code", "--no-user"])), "");
    // The specified command reads the context folder only.
    let mut agent = Command::new(env!("CARGO_BIN_EXE_pannier"));
    let agent = agent.arg("agent").current_dir(&root).output().unwrap();
    assert!(stderr(&agent, 2).contains("there is no .context folder"));
}

#[test]
fn added_entries_are_in_the_packet() {
    let root = project("add", &[]);
    let added =
        stdout(&run(&root, &["add", "decision", "Row east. The wind is better.", "--now", NOW]));
    assert!(added.starts_with('d') && added.ends_with(" .context/DECISIONS.md:3\n"), "{added}");
    let id = added.split(' ').next().unwrap();
    let text = stdout(&run(&root, &["get", id]));
    assert!(
        text.contains("[2026-11-16] Row east") && text.contains("The wind is better."),
        "{text}"
    );
    stdout(&run(&root, &["add", "task", "Paint the oars", "--now", NOW]));
    let packet = stdout(&run(&root, &["--now", NOW]));
    assert!(packet.contains("- [ ] Paint the oars #added:2026-11-16-120000\n"), "{packet}");
    let error = stderr(&run(&root, &["add", "task", " "]), 2);
    assert!(error.contains("the entry was not added: it has no text"), "{error}");
}
