//! Every command of docs/reference/postgres.md, with a real server, and what errors and receipts say.
#![cfg(unix)]

#[path = "../../pannier-postgres/tests/support/mod.rs"]
mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use support::Scratch;

/// The address in the document.
const EXAMPLE: &str = "postgres://docs@db.example.org/team";

fn pannier(folder: &Path, arguments: &[String]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pannier"))
        .args(arguments)
        .current_dir(folder)
        .env("PGPASSWORD", "hunter2")
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn the_commands_of_the_document_run() {
    let Some((_, address)) = support::database() else { return };
    let scratch = Scratch::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut copy = Command::new("cp");
    copy.arg("-r").arg(root.join("examples/handbook")).arg(scratch.0.join("handbook"));
    assert!(copy.status().unwrap().success());
    let document = fs::read_to_string(root.join("docs/reference/postgres.md")).unwrap();
    let mut commands = 0;
    for block in document.split("```sh\n").skip(1) {
        let block = block.split("```").next().unwrap();
        for line in block.lines().filter(|line| line.starts_with("pannier ")) {
            // The example has options after `?`, and so has the address of the test.
            let line = line
                .replace(&format!("{EXAMPLE}?"), &format!("{address}&"))
                .replace(EXAMPLE, &address);
            let arguments: Vec<String> = line
                .split('"')
                .enumerate()
                .flat_map(|(index, part)| match index % 2 {
                    0 => part.split_whitespace().map(str::to_owned).collect(),
                    _ => vec![part.to_owned()],
                })
                .skip(1)
                .collect();
            let output = pannier(&scratch.0, &arguments);
            assert!(output.status.success(), "{line}: {}", text(&output));
            commands += 1;
        }
    }
    assert!(commands >= 5, "{commands}");
}

#[test]
fn answers_and_receipts_are_those_of_a_folder_and_have_no_credentials() {
    let Some((_, address)) = support::database() else { return };
    let address = address.replace("pannier@", "pannier:hunter2@");
    let scratch = Scratch::new();
    scratch.write("deploy.md", "# Deploy\n\nDo not deploy on Fridays.\n");
    scratch.write("lunch.md", "# Lunch\n\nThe canteen closes at two.\n");
    let run = |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        pannier(&scratch.0, &arguments)
    };
    let missing = run(&["docs", "search", "deploy", "--index", &address]);
    assert!(
        !missing.status.success() && text(&missing).contains("there is no index"),
        "{}",
        text(&missing)
    );
    for index in [address.as_str(), "index"] {
        let built = run(&["docs", "index", "docs", "--index", index]);
        assert!(text(&built).contains("2 documents: 2 added; 2 chunks"), "{}", text(&built));
    }
    for arguments in [
        vec!["docs", "search", "deploy Fridays"],
        vec!["docs", "search", "deploy", "-f", "json"],
        vec!["docs", "read", "lunch"],
        vec!["docs", "verify"],
    ] {
        let with = |index: &str| run(&[arguments.as_slice(), &["--index", index]].concat());
        let (own, folder) = (with(&address), with("index"));
        assert!(own.status.success(), "{}", text(&own));
        assert_eq!(text(&own), text(&folder), "{arguments:?}");
    }
    let receipt =
        run(&["docs", "search", "deploy", "--receipt", "receipt.json", "--index", &address]);
    assert!(receipt.status.success(), "{}", text(&receipt));
    let stored = fs::read_to_string(scratch.0.join("receipt.json")).unwrap();
    let replay = run(&["inspect", "replay", "receipt.json", "--index", &address]);
    assert!(replay.status.success(), "{}", text(&replay));
    let away =
        run(&["-v", "docs", "search", "deploy", "--index", "postgres://me:hunter2@127.0.0.1:1/db"]);
    let malformed =
        run(&["docs", "search", "deploy", "--index", "postgres://me:hunter2@host:port/db"]);
    for output in [&missing, &receipt, &replay, &away, &malformed] {
        assert!(!text(output).contains("hunter2"), "{}", text(output));
    }
    assert!(!stored.contains("hunter2") && !stored.contains("postgres://"), "{stored}");
    assert!(text(&away).contains("the server is away"), "{}", text(&away));
    assert!(!away.status.success() && !malformed.status.success());
}
