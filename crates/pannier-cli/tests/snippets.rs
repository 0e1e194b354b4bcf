//! `pannier snippets` for sessions, in concurrent processes, and in pipelines.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn write(folder: &Path, id: &str, rest: &str) {
    let docs = folder.join("docs");
    std::fs::create_dir_all(&docs).unwrap();
    let text = format!(
        "---\nid: {id}\ndescription: About {id}.\ntype: spec\nscope: global\n{rest}---\nText of {id}.\n"
    );
    std::fs::write(docs.join(format!("{id}.md")), text).unwrap();
}

fn start(folder: &Path, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_pannier"))
        .arg("snippets")
        .args(arguments)
        .current_dir(folder)
        .env("XDG_STATE_HOME", folder.join("state"))
        .env("NO_COLOR", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Returns exit code, standard output and standard error.
fn run(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let output = start(folder, arguments).wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn concurrent_processes_share_a_session() {
    let folder = folder("snippets-at-once");
    let ids: Vec<String> = (0..12).map(|number| format!("s{number:02}")).collect();
    ids.iter().for_each(|id| write(&folder, id, ""));
    // The root is `docs` below the current folder, unless another is named.
    assert_eq!(run(&folder, &["index"]).1, "docs/index.yaml: 12 snippets\n");
    let children: Vec<Child> =
        ids.iter().map(|id| start(&folder, &["get", id, "--session", "one"])).collect();
    for child in children {
        assert!(child.wait_with_output().unwrap().status.success());
    }
    let mut all = vec!["get"];
    all.extend(ids.iter().map(String::as_str));
    all.extend(["--session", "one"]);
    let (code, printed, _) = run(&folder, &all);
    assert_eq!(code, 0);
    assert_eq!(printed.matches("sent before: ").count(), 12, "{printed}");
    assert!(!printed.contains("[SNIPPET"), "{printed}");
    all.push("--resend");
    assert_eq!(run(&folder, &all).1.matches("[SNIPPET: ").count(), 12);
    // Sessions are independent.
    assert_eq!(
        run(&folder, &["get", "s00", "--session", "two"]).1.matches("[SNIPPET: ").count(),
        1
    );
    let (code, printed, stderr) = run(&folder, &["get", "s00", "--session", "../evil"]);
    assert_eq!((code, printed.as_str()), (2, ""));
    assert!(stderr.contains("cannot name a session"), "{stderr}");
}

#[test]
fn session_with_removed_snippets_gets_the_list() {
    let folder = folder("snippets-gone");
    write(&folder, "a", "");
    write(&folder, "b", "");
    run(&folder, &["index"]);
    run(&folder, &["get", "a", "b", "--session", "one"]);
    std::fs::remove_file(folder.join("docs/a.md")).unwrap();
    run(&folder, &["index"]);
    let (code, printed, _) = run(&folder, &["get", "b", "--session", "one", "--format", "json"]);
    assert_eq!(code, 0);
    assert!(
        printed.starts_with("{\"phase\":1,\"message\":\"The index has changed: a,"),
        "{printed}"
    );
    let (_, printed, _) = run(&folder, &["get", "b", "--session", "one", "--format", "json"]);
    assert!(
        printed.contains("\"phase\":2") && printed.contains("\"delivered\":[\"b\"]"),
        "{printed}"
    );
}

#[test]
fn changed_snippets_are_sent_again() {
    let folder = folder("snippets-changed");
    write(&folder, "a", "requires: [b]\n");
    write(&folder, "b", "");
    run(&folder, &["index"]);
    let get = ["get", "a", "--session", "one"];
    run(&folder, &get);
    assert_eq!(run(&folder, &get).1, "requested: a\nsent before: b\nsent before: a\n");
    let path = folder.join("docs/b.md");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("Text of", "New text of")).unwrap();
    let (_, printed, _) = run(&folder, &get);
    assert!(printed.contains("sent again, because it changed: b\n"), "{printed}");
    assert!(printed.ends_with("[SNIPPET: b]\nNew text of b.\n"), "{printed}");
    assert!(printed.contains("sent before: a\n"), "{printed}");
    assert_eq!(run(&folder, &get).1, "requested: a\nsent before: b\nsent before: a\n");
}

#[cfg(unix)]
#[test]
fn unwritable_state_folder_only_warns() {
    let folder = folder("snippets-unwritable");
    write(&folder, "a", "");
    run(&folder, &["index"]);
    let get = ["get", "a", "--session", "one"];
    run(&folder, &get);
    let mut folders = vec![folder.join("state")];
    let lock = loop {
        let at = folders.pop().unwrap();
        for entry in std::fs::read_dir(at).unwrap().map(|entry| entry.unwrap()) {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            }
        }
        if let Some(lock) = folders.iter().map(|at| at.join("lock")).find(|lock| lock.exists()) {
            break lock;
        }
    };
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    let (code, printed, stderr) = run(&folder, &["get", "a", "--session", "two"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(printed.contains("[SNIPPET: a]\nText of a.\n"), "{printed}");
    assert!(stderr.starts_with("warning: cannot lock "), "{stderr}");
    assert!(stderr.contains("get these snippets again; make the folder writable"), "{stderr}");
}

#[test]
fn failed_output_records_no_delivery() {
    let folder = folder("snippets-over");
    write(&folder, "a", "");
    run(&folder, &["index"]);
    let (code, printed, stderr) = run(&folder, &["get", "a", "--session", "one", "--budget", "3"]);
    assert_eq!((code, printed.as_str()), (3, ""));
    assert!(stderr.contains("raise the budget"), "{stderr}");
    assert!(run(&folder, &["get", "a", "--session", "one"]).1.contains("[SNIPPET: a]"));
}

#[test]
fn check_with_problems_exits_with_one() {
    let folder = folder("snippets-check");
    write(&folder, "a", "requires: [gone]\n");
    let (code, printed, _) = run(&folder, &["list"]);
    assert_eq!((code, printed.as_str()), (2, ""), "there is no index");
    run(&folder, &["index"]);
    let (code, printed, _) = run(&folder, &["check"]);
    assert_eq!(code, 1);
    assert_eq!(printed, "docs/a.md:6: it requires 'gone', which is not a snippet of these roots\n");
    write(&folder, "a", "");
    assert_eq!(
        run(&folder, &["check"]).1,
        "docs/index.yaml: it is out of date; index the root again\n"
    );
    run(&folder, &["index"]);
    assert_eq!(run(&folder, &["check"]), (0, "sound\n".to_owned(), String::new()));
    assert_eq!(run(&folder, &["check", "--root", "none"]).0, 2);
}

#[test]
fn aliases_budgets_and_empty_roots() {
    let folder = folder("options");
    let write = |path: &str, text: &str| {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let snippet = |id: &str, rest: &str| {
        format!("---\nid: {id}\ndescription: d\ntype: check\nscope: global\n{rest}---\n{id}!\n")
    };
    let output = |arguments: &[&str]| {
        let (code, text, problem) = run(&folder, arguments);
        assert_eq!(code, 0, "{problem}");
        text
    };
    write("empty/a.md", "# Words\n");
    let checked = output(&["check", "--root", "empty"]);
    assert!(checked.starts_with("nothing to check"), "{checked}");
    write("docs/global/names.md", &snippet("names", ""));
    write("docs/ledger.md", &snippet("ledger", "requires: ['@~/.tool/names.md']\n"));
    let alias = "@~/.tool=docs/global";
    output(&["index"]);
    let text = output(&["get", "ledger", "--alias", alias]);
    assert!(text.contains("names!") && !text.contains("warning"), "{text}");
    assert!(output(&["get", "ledger"]).contains("warning"));
    output(&["index", "--alias", alias]);
    assert!(output(&["get", "ledger"]).contains("names!"));
    assert_eq!(output(&["list"]).lines().next().unwrap(), "ledger  global  check  2  d");
    let list = output(&["list", "--budget", "3"]);
    assert!(list.starts_with("0 of 2 snippets fit the budget"), "{list}");
}
