//! Golden outputs: the command's exact output for the cases of `golden/cases.txt`.
//!
//! After an intended change, `PANNIER_BLESS=1 cargo test -p pannier-cli --test golden` rewrites `golden/expected`; look at
//! `git diff` before you keep it. `golden/make_fixtures.py` wrote the larger inputs.

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn commands_print_their_golden_outputs() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let bless = std::env::var_os("PANNIER_BLESS").is_some();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("golden");
    let _ = fs::remove_dir_all(&folder);
    copy(&golden.join("../../../../examples"), &folder.join("examples"));
    copy(&golden.join("fixtures"), &folder.join("fixtures"));
    let expected_folder = golden.join("expected");
    if bless {
        let _ = fs::remove_dir_all(&expected_folder);
    }

    let cases = fs::read_to_string(golden.join("cases.txt")).unwrap();
    let cases = cases.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut differences = Vec::new();
    let mut files = Vec::new();
    for (name, arguments) in cases.map(|line| line.split_once(": ").unwrap()) {
        let output = run(&folder, arguments);
        if name.starts_with("setup") {
            assert!(!output.contains("\n--- exit code"), "{name}: {output}");
            continue;
        }
        let path = expected_folder.join(format!("{name}.txt"));
        if bless {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &output).unwrap();
        }
        match fs::read_to_string(&path) {
            Ok(expected) if expected == output => {}
            Ok(expected) => differences.push(difference(name, arguments, &expected, &output)),
            Err(error) => differences.push(format!("{name}: {error}")),
        }
        files.push(path);
    }
    for group in fs::read_dir(&expected_folder).unwrap() {
        for file in fs::read_dir(group.unwrap().path()).unwrap() {
            let file = file.unwrap().path();
            if !files.contains(&file) {
                differences.push(format!("{}: cases.txt has no such case", file.display()));
            }
        }
    }
    assert!(
        differences.is_empty(),
        "{} of {} golden outputs differ\n\n{}",
        differences.len(),
        files.len(),
        differences.join("\n")
    );
}

/// Tokens of the golden packets' budgets that were unused when each packet was packed by a loop of its own.
const MAX_UNUSED_TOKENS: i64 = 101;

#[test]
fn golden_packets_leave_no_more_of_their_budgets_unused() {
    let packets = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/expected/packet");
    let mut unused = 0;
    for file in fs::read_dir(packets).unwrap().map(|file| file.unwrap()) {
        // One packet holds all entries, and one is bounded by characters.
        let name = file.file_name().into_string().unwrap();
        if ["depot-all.txt", "depot-3000-chars.txt"].contains(&&*name) {
            continue;
        }
        let text = fs::read_to_string(file.path()).unwrap();
        let number = |after: &str| -> Option<i64> {
            let rest = &text[text.find(after)? + after.len()..];
            rest[..rest.find(|c: char| !c.is_ascii_digit())?].parse().ok()
        };
        let budget = number("Budget: ").or_else(|| number(r#""budget":"#));
        let used = number("Used: ").or_else(|| number(r#""tokens_used":"#));
        if let (Some(budget), Some(used)) = (budget, used) {
            unused += (budget - used).max(0);
        }
    }
    assert!(unused <= MAX_UNUSED_TOKENS, "{unused} tokens are unused");
}

/// Standard output; then, if there are any, standard error, the exit code and the file `out.json`.
fn run(folder: &Path, arguments: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_pannier"))
        .args(split(arguments))
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .env_remove("CLICOLOR_FORCE")
        .env_remove("CTX_TOKEN_BUDGET")
        .env("XDG_CONFIG_HOME", folder.join("config"))
        .output()
        .unwrap();
    let mut text = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    if !stderr.is_empty() {
        text.push_str(&format!("\n--- standard error\n{stderr}"));
    }
    if !output.status.success() {
        text.push_str(&format!("\n--- exit code {}\n", output.status.code().unwrap()));
    }
    let file = folder.join("out.json");
    if let Ok(written) = fs::read_to_string(&file) {
        text.push_str(&format!("\n--- out.json\n{written}"));
        fs::remove_file(&file).unwrap();
    }
    text
}

/// Splits at spaces outside of quotation marks.
fn split(line: &str) -> Vec<String> {
    let mut arguments = vec![String::new()];
    let mut quote = None;
    for character in line.chars() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (None, '"' | '\'') => quote = Some(character),
            (None, ' ') => arguments.push(String::new()),
            _ => arguments.last_mut().unwrap().push(character),
        }
    }
    arguments
}

/// The command and the first line that differs.
fn difference(name: &str, arguments: &str, expected: &str, output: &str) -> String {
    let mut lines = 1;
    let (mut left, mut right) = (expected.lines(), output.lines());
    loop {
        match (left.next(), right.next()) {
            (Some(left), Some(right)) if left == right => lines += 1,
            (None, None) => {
                return format!("{name}: pannier {arguments}\n  only line ends differ\n");
            }
            (left, right) => {
                let show = |line: Option<&str>| match line {
                    Some(line) => line.chars().take(400).collect(),
                    None => "(end)".to_owned(),
                };
                let (left, right) = (show(left), show(right));
                return format!(
                    "{name}, line {lines}: pannier {arguments}\n  - {left}\n  + {right}\n"
                );
            }
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
