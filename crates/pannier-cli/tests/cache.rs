//! Builds from end to end: reproducible bytes, and a valid cache after an interrupted build.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

fn pannier(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pannier"));
    command.args(arguments);
    command
}

fn output(arguments: &[&str]) -> Output {
    pannier(arguments).output().unwrap()
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("docs")).unwrap();
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Writes the documents `numbers` in this order, with a text that depends on `state`.
fn write(folder: &Path, numbers: impl Iterator<Item = usize>, state: usize) {
    for number in numbers {
        let words: String =
            (0..200).map(|word| format!("w{} ", (number * 7 + word * state) % 97)).collect();
        fs::write(
            folder.join(format!("docs/Document {number:04}.md")),
            format!("# Title {number}\n\n{words}\n"),
        )
        .unwrap();
    }
}

#[test]
fn builds_are_reproducible() {
    let mut answers = Vec::new();
    for (name, is_reversed, threads) in [("same-a", false, "1"), ("same-b", true, "4")] {
        let folder = folder(name);
        let (docs, cache) = (folder.join("docs"), folder.join("cache"));
        let numbers = 0..300;
        if is_reversed {
            write(&folder, numbers.rev(), 3);
        } else {
            write(&folder, numbers, 3);
        }
        let build =
            ["build", "--sources", text(&docs), "--cache", text(&cache), "--format", "json"];
        let built = pannier(&build).env("RAYON_NUM_THREADS", threads).output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let resolve = |query: &str| {
            let arguments =
                ["resolve", "--cache", text(&cache), "--query", query, "--budget", "4000"];
            let (first, second) = (output(&arguments), output(&arguments));
            assert!(first.status.success() && first.stdout == second.stdout);
            first.stdout
        };
        let before = resolve("W3 w90");
        assert!(output(&[&build[..], &["--force"]].concat()).status.success());
        assert_eq!(resolve("W3 w90"), before, "a rebuild changes nothing");
        answers.push((built.stdout, before, resolve("")));
    }
    assert!(answers[0] == answers[1]);
}

#[test]
fn killed_build_leaves_a_valid_cache() {
    let folder = folder("killed");
    let (docs, cache) = (folder.join("docs"), folder.join("cache"));
    write(&folder, 0..400, 1);
    let build = ["build", "--sources", text(&docs), "--cache", text(&cache)];
    assert!(output(&build).status.success());
    let mut versions = 0;
    for round in 0..12_u64 {
        write(&folder, 0..400, round as usize + 2);
        let mut child = pannier(&build).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(round * 7 % 60));
        let _ = child.kill();
        child.wait().unwrap();
        let verified = output(&["verify", "--cache", text(&cache)]);
        assert_eq!(String::from_utf8_lossy(&verified.stdout), "sound\n", "round {round}");
        let count = fs::read_dir(cache.join("versions")).unwrap().count();
        versions = versions.max(count);
    }
    // The next complete build removes the leftovers.
    assert!(output(&build).status.success());
    assert_eq!(
        fs::read_dir(cache.join("versions")).unwrap().count(),
        1,
        "at most {versions} before"
    );
    assert_eq!(
        String::from_utf8_lossy(&output(&["verify", "--cache", text(&cache)]).stdout),
        "sound\n"
    );
}

/// A limit on the size of files simulates a full disk.
#[cfg(unix)]
#[test]
fn full_disk_leaves_the_cache_unchanged() {
    let folder = folder("full");
    let (docs, cache) = (folder.join("docs"), folder.join("cache"));
    write(&folder, 0..100, 1);
    let build = ["build", "--sources", text(&docs), "--cache", text(&cache)];
    assert!(output(&build).status.success());
    let resolve = ["resolve", "--cache", text(&cache), "--query", "w5", "--budget", "1000"];
    let before = output(&resolve).stdout;
    write(&folder, 0..400, 2);
    let script = format!(
        "ulimit -f 16; trap '' XFSZ; exec '{}' build --sources '{}' --cache '{}'",
        env!("CARGO_BIN_EXE_pannier"),
        text(&docs),
        text(&cache)
    );
    let full = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(full.status.code(), Some(6), "{}", String::from_utf8_lossy(&full.stderr));
    assert!(String::from_utf8_lossy(&full.stderr).contains("cannot write"));
    assert_eq!(output(&resolve).stdout, before);
    assert_eq!(
        String::from_utf8_lossy(&output(&["verify", "--cache", text(&cache)]).stdout),
        "sound\n"
    );
    assert_eq!(fs::read_dir(cache.join("versions")).unwrap().count(), 1, "no leftovers");
}

#[test]
fn each_failure_has_its_exit_code() {
    let folder = folder("codes");
    let (docs, cache) = (folder.join("docs"), folder.join("cache"));
    let code = |arguments: &[&str]| output(arguments).status.code();
    let resolve = ["resolve", "--cache", text(&cache), "--query", "x", "--budget", "10"];
    assert_eq!(code(&resolve), Some(4));
    assert_eq!(code(&["verify", "--cache", text(&cache)]), Some(4));
    assert_eq!(code(&["build", "--sources", "no/such/folder", "--cache", text(&cache)]), Some(2));
    fs::write(docs.join("a.md"), "x").unwrap();
    assert_eq!(code(&["build", "--sources", text(&docs), "--cache", text(&cache)]), Some(0));
    assert_eq!(code(&resolve), Some(0));
    fs::write(docs.join("b.md"), b"\xff").unwrap();
    assert_eq!(code(&["build", "--sources", text(&docs), "--cache", text(&cache)]), Some(2));
    assert_eq!(code(&["verify", "--cache", text(&cache)]), Some(0));
    let version = fs::read_to_string(cache.join("CURRENT")).unwrap();
    assert!(cache.join("versions").join(version.split(' ').next().unwrap()).is_dir());
    let segment = fs::read_dir(cache.join("segments")).unwrap().next().unwrap().unwrap().path();
    let mut table = fs::read(segment.join("table")).unwrap();
    *table.last_mut().unwrap() ^= 1;
    fs::write(segment.join("table"), table).unwrap();
    assert_eq!(code(&resolve), Some(5));
    assert_eq!(code(&["inspect", "--cache", text(&cache)]), Some(5));
    let verified = output(&["verify", "--cache", text(&cache)]);
    assert_eq!(verified.status.code(), Some(5));
    assert!(
        String::from_utf8_lossy(&verified.stdout).contains("table: its checksum does not match")
    );
    fs::write(cache.join("CURRENT"), "../../x").unwrap();
    assert_eq!(code(&resolve), Some(5));
    let receipt = folder.join("receipt.json");
    fs::remove_file(docs.join("b.md")).unwrap();
    assert_eq!(
        code(&["build", "--sources", text(&docs), "--cache", text(&cache)]),
        Some(0),
        "built again, it is sound"
    );
    assert_eq!(code(&[&resolve[..], &["--receipt", text(&receipt)]].concat()), Some(0));
    assert_eq!(code(&["replay", text(&receipt), "--cache", text(&cache)]), Some(0));
    fs::write(docs.join("a.md"), "y").unwrap();
    assert_eq!(code(&["build", "--sources", text(&docs), "--cache", text(&cache)]), Some(0));
    assert_eq!(code(&["replay", text(&receipt), "--cache", text(&cache)]), Some(1));
    assert_eq!(code(&["replay", text(&receipt), "items.jsonl"]), Some(2));
}

/// Runs a command in a folder, and returns its exit code, output and notes.
fn run_in(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = pannier(arguments).current_dir(folder).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_search_updates_the_index_first() {
    let folder = folder("follows");
    fs::write(folder.join("docs/a.md"), "The canteen closes at two.").unwrap();
    let (code, text, _) = run_in(&folder, &["docs", "index", "docs"]);
    assert_eq!((code, text.as_str()), (Some(0), "1 document: 1 added; 1 chunk\n"));
    fs::write(folder.join("docs/b.txt"), "The library opens at nine.").unwrap();
    let search = ["docs", "search", "library", "--no-update"];
    assert_eq!(run_in(&folder, &search).0, Some(1));
    let read = ["docs", "read", "--path", "b.txt"];
    let (code, text, notes) = run_in(&folder, &read);
    assert!(code == Some(0) && text.contains("opens at nine") && notes.is_empty(), "{notes}");
    fs::write(folder.join("docs/b.txt"), "The library opens at eight.").unwrap();
    let (code, text, _) = run_in(&folder, &search[..3]);
    assert!(code == Some(0) && text.contains("at eight"), "{text}");
    fs::remove_file(folder.join("docs/b.txt")).unwrap();
    assert_eq!(run_in(&folder, &search[..3]).0, Some(1));

    // Without its folder, the index is searched as it is.
    fs::rename(folder.join("docs"), folder.join("elsewhere")).unwrap();
    let (code, text, notes) = run_in(&folder, &["docs", "search", "canteen"]);
    assert!(code == Some(0) && text.contains("at two"), "{text}");
    assert!(notes.contains("without an update"), "{notes}");
    fs::rename(folder.join("elsewhere"), folder.join("docs")).unwrap();
    // So is one that is being built.
    fs::write(folder.join("docs/c.md"), "The canteen has soup.").unwrap();
    let lock = fs::File::open(folder.join(".pannier/index/LOCK")).unwrap();
    lock.lock().unwrap();
    let (code, text, notes) = run_in(&folder, &["docs", "search", "canteen"]);
    assert!(code == Some(0) && !text.contains("soup"), "{text}");
    assert!(notes.contains("another build"), "{notes}");
    assert_eq!(run_in(&folder, &["docs", "index"]).0, Some(6));
    let mut waiting = pannier(&["docs", "index", "--wait"]).current_dir(&folder).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(waiting.try_wait().unwrap().is_none(), "it waits");
    lock.unlock().unwrap();
    assert!(waiting.wait().unwrap().success());
    assert!(run_in(&folder, &["docs", "search", "canteen", "--no-update"]).1.contains("soup"));
}

#[test]
fn an_index_remembers_its_folder_and_rules() {
    let folder = folder("remembers");
    for name in ["a.rs", "b.rs", "c.md"] {
        fs::write(folder.join("docs").join(name), name).unwrap();
    }
    fs::write(folder.join("docs/logo.png"), b"\0").unwrap();
    assert_eq!(run_in(&folder, &["docs", "index", "docs", "--glob", "*.rs"]).0, Some(0));
    fs::write(folder.join("docs/d.md"), "d").unwrap();
    fs::write(folder.join("docs/e.rs"), "e").unwrap();
    let plain = run_in(&folder, &["docs", "index"]).1;
    assert_eq!(plain, "3 documents: 1 added, 2 unchanged; 3 chunks\n");
    let all = run_in(&folder, &["docs", "index", "--glob", "*"]).1;
    assert_eq!(all, "5 documents: 2 added, 3 unchanged; 5 chunks\nskipped: 1 binary (logo.png)\n");
    let fewer = run_in(&folder, &["docs", "index", "--glob", "*.md"]).1;
    assert_eq!(
        fewer,
        "2 documents: 3 removed, 2 unchanged; 2 chunks\nremoved: 3 no longer selected (a.rs, b.rs, e.rs)\n"
    );
    let (code, _, error) = run_in(&folder, &["docs", "index", "--glob", "*.png", "--strict"]);
    assert!(code == Some(2) && error.contains("logo.png: it is binary"), "{error}");
    // Another folder has rules of its own.
    fs::create_dir(folder.join("other")).unwrap();
    fs::write(folder.join("other/x.rs"), "x").unwrap();
    let other = run_in(&folder, &["docs", "index", "other", "--format", "json"]).1;
    assert!(other.contains("\"removed\":{\"other-folder\":{\"count\":2"), "{other}");
    // An index that cannot be read does not name its folder.
    fs::write(folder.join(".pannier/index/CURRENT"), "x").unwrap();
    let (code, _, error) = run_in(&folder, &["docs", "index"]);
    assert!(code == Some(2) && error.contains("name the folder"), "{error}");
    assert_eq!(run_in(&folder, &["docs", "index", "other"]).0, Some(0));
}

/// An index that comes with a project must not make a search read other folders.
#[test]
fn a_remembered_folder_is_beside_the_index() {
    let folder = folder("beside");
    let project = folder.join("project");
    fs::create_dir_all(&project).unwrap();
    fs::write(folder.join("docs/secret.md"), "The password is a secret.").unwrap();
    let (code, ..) = run_in(&project, &["docs", "index", "../docs"]);
    assert_eq!(code, Some(0));
    fs::write(folder.join("docs/more.md"), "Another password.").unwrap();
    let (code, text, notes) = run_in(&project, &["docs", "search", "password"]);
    assert!(code == Some(0) && !text.contains("Another"), "{text}");
    assert!(notes.contains("which is not next to it"), "{notes}");
    let (code, _, error) = run_in(&project, &["docs", "index"]);
    assert!(code == Some(2) && error.contains("name the folder"), "{error}");
    assert_eq!(run_in(&project, &["docs", "index", "../docs"]).0, Some(0));
    // Another place for the index, in the folder that has the documents.
    let index = ["docs", "index", "docs", "--index", "index"];
    assert_eq!(run_in(&folder, &index).0, Some(0));
    assert_eq!(run_in(&folder, &["docs", "index", "--index", "index"]).0, Some(0));
}

#[test]
fn killed_updates_leave_a_valid_cache() {
    let folder = folder("killed-updates");
    write(&folder, 0..200, 1);
    let index = ["docs", "index", "docs", "--index", "cache"];
    assert_eq!(run_in(&folder, &index).0, Some(0));
    for round in 0..16_usize {
        write(&folder, round * 5..round * 5 + 1 + round % 4, round + 2);
        let _ = fs::remove_file(folder.join(format!("docs/Document {:04}.md", 199 - round)));
        let mut child = pannier(&index).current_dir(&folder).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(round as u64 * 5 % 37));
        let _ = child.kill();
        child.wait().unwrap();
        let verified = run_in(&folder, &["docs", "verify", "--index", "cache"]).1;
        assert_eq!(verified, "sound\n", "round {round}");
    }
    assert_eq!(run_in(&folder, &index).0, Some(0));
    assert_eq!(run_in(&folder, &["docs", "index", "docs", "--index", "fresh"]).0, Some(0));
    let search = |index: &str| {
        let format = ["--format", "jsonl", "--no-update", "--budget", "20k"];
        let arguments =
            [&["docs", "search", "w3 w90 title", "--index", index][..], &format].concat();
        run_in(&folder, &arguments)
    };
    let (updated, fresh) = (search("cache"), search("fresh"));
    assert_eq!(updated.0, Some(0));
    assert_eq!(updated, fresh);
}
