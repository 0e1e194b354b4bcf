//! Runs the README, the tutorial and the how-to pages as a reader would: each page in a folder of its own, its blocks
//! `sh` and `console` from top to bottom, in bash. Blocks `json` and `toml` of all pages must parse.
//!
//! A `console` block has commands after `$ `, each with its output. `(exit code 2)` precedes the output of a command that fails, and a line
//! `...` stands for any lines. `PANNIER_BLESS=1` writes the outputs into the pages; look at `git diff` before you keep them.

#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Programs that a page may name and a test cannot run. A server would not end, and a model is elsewhere: only the arguments of
/// such a command are checked.
const PRELUDE: &str = r#"
exec 2>&1
set -euo pipefail
ANTHROPIC_API_KEY=key
pip() { :; }; npm() { :; }; claude() { registered "$@"; }; codex() { registered "$@"; }; ollama() { :; }; curl() { :; }
registered() { while [ $# -gt 0 ] && [ "$1" != -- ]; do shift; done; if [ $# -gt 0 ]; then command "${@:2}" --help >/dev/null; fi; }
cargo() { if [ "$1" = pannier ]; then pannier "${@:2}"; fi; }
pannier() {
    case " $*" in
        " serve "* | " gateway "* | *" http://"* | *" https://"* | *" minilm:"* | *"postgres://"*) command pannier "$@" --help >/dev/null ;;
        *) command pannier "$@" ;;
    esac
}
"#;

#[test]
fn pages_work_from_top_to_bottom() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    let _ = fs::remove_dir_all(&scratch);
    let mut pages = vec![root.join("README.md"), root.join("docs/tutorial.md")];
    for folder in ["docs/explanation", "docs/how-to"] {
        let entries = fs::read_dir(root.join(folder)).unwrap();
        pages.extend(entries.map(|page| page.unwrap().path()));
    }
    pages.sort();
    let mut failures = Vec::new();
    let mut count = 0;
    for page in &pages {
        let folder = scratch.join(page.file_stem().unwrap());
        copy(&root.join("examples"), &folder.join("examples"));
        count += check(page, &folder, &mut failures);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(count > 50, "only {count} commands");
}

#[test]
fn data_in_pages_parses() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders =
        ["", "docs", "docs/explanation", "docs/how-to", "docs/reference", "docs/internals"];
    let mut count = 0;
    for folder in folders {
        for page in fs::read_dir(root.join(folder)).unwrap().map(|page| page.unwrap().path()) {
            if page.extension().is_none_or(|extension| extension != "md") {
                continue;
            }
            let text = fs::read_to_string(&page).unwrap();
            for block in text.split("\n```").filter_map(|block| block.split_once('\n')) {
                let error = match block.0 {
                    "json" | "jsonl" => serde_json::Deserializer::from_str(block.1)
                        .into_iter::<serde_json::Value>()
                        .find_map(Result::err)
                        .map(|error| error.to_string()),
                    "toml" => {
                        toml::from_str::<toml::Table>(block.1).err().map(|error| error.to_string())
                    }
                    _ => continue,
                };
                assert_eq!(error, None, "{}: {}", page.display(), block.1);
                count += 1;
            }
        }
    }
    assert!(count > 30, "only {count} blocks");
}

/// Returns the number of commands of the page.
fn check(page: &Path, folder: &Path, failures: &mut Vec<String>) -> usize {
    let text = fs::read_to_string(page).unwrap();
    let mut lines = text.lines();
    let mut blessed = String::new();
    let mut count = 0;
    while let Some(line) = lines.next() {
        blessed += &format!("{line}\n");
        let is_console = line == "```console";
        if !is_console && line != "```sh" {
            continue;
        }
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        if is_console {
            for (position, case) in cases(&block).iter().enumerate() {
                let actual = run(case.command, folder);
                if !is_match(&case.expected, &actual) {
                    failures.push(format!(
                        "{}: $ {}\n--- expected\n{}\n--- actual\n{}",
                        page.display(),
                        case.command,
                        case.expected.join("\n"),
                        actual.join("\n")
                    ));
                }
                let output = if case.expected.contains(&"...") {
                    case.expected.iter().map(ToString::to_string).collect()
                } else {
                    actual
                };
                blessed += if position > 0 { "\n" } else { "" };
                blessed += &format!("$ {}\n{}", case.command, output.join("\n"));
                blessed += if output.is_empty() { "" } else { "\n" };
                count += 1;
            }
        } else {
            let output = run(&block.join("\n"), folder);
            if output.first().is_some_and(|line| line.starts_with("(exit code ")) {
                failures.push(format!("{}: {block:#?}\n{}", page.display(), output.join("\n")));
            }
            blessed += &block.iter().map(|line| format!("{line}\n")).collect::<String>();
            count += block.iter().filter(|line| !line.is_empty() && !line.starts_with('#')).count();
        }
        blessed += "```\n";
    }
    if std::env::var_os("PANNIER_BLESS").is_some() && blessed != text {
        fs::write(page, blessed).unwrap();
    }
    count
}

struct Case<'a> {
    command: &'a str,
    expected: Vec<&'a str>,
}

fn cases<'a>(block: &[&'a str]) -> Vec<Case<'a>> {
    let mut cases: Vec<Case<'a>> = Vec::new();
    for line in block {
        match (line.strip_prefix("$ "), cases.last_mut()) {
            (Some(command), _) => cases.push(Case { command, expected: Vec::new() }),
            (None, Some(case)) => case.expected.push(line),
            (None, None) => panic!("a console block must begin with a command: {line}"),
        }
    }
    for case in &mut cases {
        trim(&mut case.expected);
    }
    cases
}

/// Returns what a script prints, after `(exit code CODE)` if it fails.
fn run(script: &str, folder: &Path) -> Vec<String> {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_pannier"));
    let path =
        format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .args(["-c", &format!("{PRELUDE}{script}")])
        .current_dir(folder)
        .envs([("PATH", path.as_str()), ("NO_COLOR", "1")])
        .env("XDG_CONFIG_HOME", folder.join("config"))
        .env("XDG_STATE_HOME", folder.join("state"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if !output.status.success() {
        lines.insert(0, format!("(exit code {})", output.status.code().unwrap_or(-1)));
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

fn trim(lines: &mut Vec<&str>) {
    while lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
}

/// Whether the lines are the expected ones, where `...` stands for any number of lines.
fn is_match(expected: &[&str], actual: &[String]) -> bool {
    match expected.split_first() {
        None => actual.is_empty(),
        Some((&"...", rest)) => (0..=actual.len()).any(|start| is_match(rest, &actual[start..])),
        Some((first, rest)) => {
            actual.first().is_some_and(|line| line == first) && is_match(rest, &actual[1..])
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (entry, to) = entry.map(|entry| (entry.path(), to.join(entry.file_name()))).unwrap();
        if entry.is_dir() { copy(&entry, &to) } else { _ = fs::copy(&entry, &to).unwrap() }
    }
}
