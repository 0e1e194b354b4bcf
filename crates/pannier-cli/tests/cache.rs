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
    fs::write(
        cache.join("versions").join(version.split(' ').next().unwrap()).join("table"),
        "123456789012",
    )
    .unwrap();
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
