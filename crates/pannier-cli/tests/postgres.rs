//! Every command of docs/reference/postgres.md, with a real server, and what errors and receipts say.
#![cfg(unix)]

#[path = "../../pannier-postgres/tests/support/mod.rs"]
mod support;

#[path = "support/mod.rs"]
mod servers;

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

#[test]
fn a_flag_names_the_collection() {
    let Some((_, address)) = support::database() else { return };
    let scratch = Scratch::new();
    scratch.write("a/deploy.md", "Do not deploy on Fridays.\n");
    scratch.write("b/lunch.md", "The canteen closes at two. Deploy after lunch.\n");
    let run = |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        pannier(&scratch.0, &arguments)
    };
    let quoted = "it's \"b\"; DROP TABLE pannier.document; -- %00 &x=1";
    for (folder, name) in [("docs/a", "a"), ("docs/b", quoted)] {
        let built = run(&["docs", "index", folder, "--index", &address, "--collection", name]);
        assert!(text(&built).contains("1 document: 1 added"), "{}", text(&built));
    }
    // The flag comes before the address, and the address may be a setting.
    let named = format!("{address}&collection=a");
    fs::write(scratch.0.join("pannier.toml"), format!("index = \"{named}\"\n")).unwrap();
    for (arguments, path) in [
        (vec!["--index", &address, "--collection", "a"], "deploy.md"),
        (vec!["--index", &named, "--collection", quoted], "lunch.md"),
        (vec!["--index", &named], "deploy.md"),
        (vec![], "deploy.md"),
        (vec!["--collection", quoted], "lunch.md"),
    ] {
        for command in [
            vec!["docs", "search", "deploy"],
            vec!["docs", "read", "deploy"],
            vec!["docs", "chunks"],
        ] {
            let output = run(&[command.as_slice(), &arguments].concat());
            assert!(output.status.success(), "{command:?} {arguments:?}: {}", text(&output));
            assert!(text(&output).contains(path), "{command:?} {arguments:?}: {}", text(&output));
        }
        for command in [["docs", "stats"], ["docs", "verify"]] {
            let output = run(&[command.as_slice(), &arguments].concat());
            assert!(output.status.success(), "{command:?} {arguments:?}: {}", text(&output));
        }
    }
    let receipt = run(&["docs", "search", "lunch", "--collection", quoted, "--receipt", "r.json"]);
    assert!(receipt.status.success(), "{}", text(&receipt));
    let replay = run(&["inspect", "replay", "r.json", "--collection", quoted]);
    assert!(text(&replay).contains("identical"), "{}", text(&replay));
    let long = "x".repeat(129);
    for (arguments, problem) in [
        (vec!["--index", &address, "--collection", ""], "1 to 128 bytes"),
        (vec!["--index", &address, "--collection", &long], "1 to 128 bytes"),
        (vec!["--index", &address, "--collection", "none"], "there is no index"),
        (vec!["--index", "docs", "--collection", "a"], "only a database has collections"),
    ] {
        let output = run(&[&["docs", "search", "deploy"], arguments.as_slice()].concat());
        assert!(!output.status.success() && text(&output).contains(problem), "{}", text(&output));
    }
    // Without a folder, the documents of another one would be removed.
    let other = run(&["docs", "index"]);
    assert!(
        !other.status.success() && text(&other).contains("name the folder"),
        "{}",
        text(&other)
    );
    // The rules of the same folder are remembered.
    scratch.write("a/notes.txt", "deploy");
    for glob in [["--glob", "*.md"].as_slice(), &[]] {
        let built = run(&[["docs", "index", "docs/a"].as_slice(), glob].concat());
        assert!(text(&built).contains("1 document, nothing has changed"), "{}", text(&built));
    }
}

/// An address where a folder is expected, or one that is not known, is not shown, and no folder gets its name.
#[test]
fn unknown_addresses_are_refused_without_their_password() {
    let scratch = Scratch::new();
    scratch.write("deploy.md", "Do not deploy on Fridays.\n");
    let known = "postgres://me:hunter2@127.0.0.1:1/db";
    let unknown = "postgresql+psycopg://me:hunter2@h/d";
    let run = |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        let output = pannier(&scratch.0, &arguments);
        assert!(
            !output.status.success() && !text(&output).contains("hunter2"),
            "{}",
            text(&output)
        );
        text(&output)
    };
    for address in [known, unknown] {
        for command in [
            ["resolve", "--query", "x", "--budget", "100"].as_slice(),
            &["assemble", "--query", "x", "--max-tokens", "100"],
            &["inspect"],
            &["build", "--sources", "docs"],
        ] {
            run(&[command, &["--cache", address]].concat());
        }
    }
    run(&["mcp", "--cache", unknown]);
    run(&["serve", "--index", &format!("team={unknown}")]);
    let folder = run(&["resolve", "--query", "x", "--budget", "100", "--cache", known]);
    assert!(folder.contains("pannier docs search --index"), "{folder}");
    let commands = [
        ["docs", "index", "docs"].as_slice(),
        &["docs", "search", "deploy"],
        &["docs", "read", "deploy"],
        &["docs", "stats"],
        &["docs", "verify"],
        &["docs", "search", "deploy", "--collection", "a"],
    ];
    for command in commands {
        let refused = run(&[command, &["--index", unknown]].concat());
        assert!(refused.contains("postgresql+psycopg:// is not"), "{command:?}: {refused}");
    }
    fs::write(scratch.0.join("pannier.toml"), format!("index = \"{unknown}\"\n")).unwrap();
    for command in commands {
        let refused = run(command);
        assert!(refused.contains("postgresql+psycopg:// is not"), "{command:?}: {refused}");
    }
    let names = fs::read_dir(&scratch.0).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.count(), 2);
}

#[test]
fn measuring_leaves_the_documents_of_the_collection() {
    let Some((_, address)) = support::database() else { return };
    let scratch = Scratch::new();
    scratch.write("deploy.md", "Do not deploy on Fridays.\n");
    for (file, content) in [
        (
            "docs.jsonl",
            "{\"id\": \"a\", \"title\": \"\", \"text\": \"the canteen closes at two\"}\n",
        ),
        ("queries.jsonl", "{\"id\": \"1\", \"text\": \"canteen\"}\n"),
        ("qrels.tsv", "1\ta\t1\n"),
    ] {
        fs::create_dir_all(scratch.0.join("set")).unwrap();
        fs::write(scratch.0.join("set").join(file), content).unwrap();
    }
    let run = |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        pannier(&scratch.0, &[arguments, vec!["--index".to_owned(), address.clone()]].concat())
    };
    assert!(run(&["docs", "index", "docs"]).status.success());
    let measured = run(&["eval", "docs", "--data", "set", "--tokenizer", "bytes/4"]);
    assert!(text(&measured).contains("nDCG@10          1.0000"), "{}", text(&measured));
    let found = run(&["docs", "search", "deploy"]);
    assert!(text(&found).contains("on Fridays"), "{}", text(&found));
    let collections =
        support::server().unwrap().sql(&address, "SELECT name FROM pannier.collection");
    assert_eq!(collections.trim(), "default");
}

/// A variable names the replica that searches read from; indexing uses the address itself.
#[test]
fn a_variable_names_a_replica() {
    let Some((_, address)) = support::database() else { return };
    let scratch = Scratch::new();
    scratch.write("deploy.md", "Do not deploy on Fridays.\n");
    let run = |replica: &str, arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pannier"));
        command.args(arguments).args(["--index", &address]).current_dir(&scratch.0);
        text(&command.env("PANNIER_POSTGRES_REPLICA", replica).output().unwrap())
    };
    let away = "postgres://me:hunter2@127.0.0.1:1/db";
    let built = run(away, &["docs", "index", "docs"]);
    assert!(built.contains("1 added"), "{built}");
    let away = run(away, &["docs", "search", "deploy"]);
    assert!(away.contains("the server is away") && !away.contains("hunter2"), "{away}");
    let found = run(&address, &["docs", "search", "deploy"]);
    assert!(found.contains("on Fridays"), "{found}");
}

/// The settings of a server name databases; its clients get names, over HTTP and MCP, and never an address.
#[test]
fn servers_take_addresses_from_their_settings() {
    let Some((_, address)) = support::database() else { return };
    let address = address.replace("pannier@", "pannier:hunter2@");
    let scratch = Scratch::new();
    scratch.write("deploy.md", "Do not deploy on Fridays.\n");
    let settings =
        format!("index = \"{address}\"\n[serve.indexes]\nteam = \"{address}&collection=team\"\n");
    fs::write(scratch.0.join("pannier.toml"), settings).unwrap();
    let program = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pannier"));
        command.args(arguments).current_dir(&scratch.0);
        command
    };
    for collection in ["default", "team"] {
        let index = ["docs", "index", "docs", "--collection", collection];
        let built = program(&index).output().unwrap();
        assert!(built.status.success(), "{}", text(&built));
    }
    let server = servers::HttpServer::start(&mut program(&["serve", "--http", "0", "--watch"]));
    let mut answers = String::new();
    let bodies = [
        ("project", true),
        ("team", true),
        ("other", false),
        (address.as_str(), false),
        ("postgres://127.0.0.1/x", false),
    ];
    for (index, is_known) in bodies {
        let body = serde_json::json!({ "query": "deploy", "index": index });
        let answer = post(&server.address, "/v1/search", &body.to_string());
        assert_eq!(answer.contains("HTTP/1.1 200"), is_known, "{answer}");
        assert_eq!(answer.contains("on Fridays"), is_known, "{answer}");
        // A message names what the client sent.
        answers.push_str(&answer.replace(index, ""));
    }
    let body = serde_json::json!({ "query": "deploy", "index": "team", "collection": "default" });
    let refused = post(&server.address, "/v1/search", &body.to_string());
    assert!(refused.contains("HTTP/1.1 400") && refused.contains("collection"), "{refused}");
    let call = serde_json::json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "search_docs", "arguments": { "query": "deploy", "index": "team" } },
    });
    let called = post(&server.address, "/mcp", &call.to_string());
    assert!(called.contains("on Fridays"), "{called}");
    let (_, log) = server.terminate();
    assert_eq!(log.matches("not watched").count(), 2, "{log}");
    for text in [answers, refused, called, log] {
        assert!(!text.contains("hunter2") && !text.contains("postgres://"), "{text}");
    }
    // A mistake in the file does not show the line.
    fs::write(scratch.0.join("pannier.toml"), format!("index = \"{address}\n")).unwrap();
    let output = program(&["docs", "search", "deploy"]).output().unwrap();
    assert!(!output.status.success() && !text(&output).contains("hunter2"), "{}", text(&output));
    assert!(text(&output).contains("line 1"), "{}", text(&output));
}

fn post(address: &str, path: &str, body: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Queries, paths and names that are SQL, NULs, invalid UTF-8, or long: answers or errors in words, never those of the server.
#[test]
fn hostile_input_never_shows_sql() {
    let Some((_, address)) = support::database() else { return };
    let scratch = Scratch::new();
    scratch.write("it's.md", "Robert'); DROP TABLE pannier.posting; -- deploy\n");
    fs::write(scratch.docs().join("invalid.md"), [0xff, 0xfe, b'a']).unwrap();
    fs::write(scratch.docs().join("nul.md"), b"deploy \0 now").unwrap();
    scratch.write("long.md", &"deploy '; -- ".repeat(80_000));
    let run = |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        pannier(&scratch.0, &[arguments, vec!["--index".to_owned(), address.clone()]].concat())
    };
    let built = run(&["docs", "index", "docs"]);
    assert!(built.status.success(), "{}", text(&built));
    let long = "word' ".repeat(10_900);
    let too_long = "word' ".repeat(12_000);
    for arguments in [
        vec!["docs", "search", "'; DROP TABLE pannier.document; --"],
        vec!["docs", "search", "$1 $$ \\ % _ \"quoted"],
        vec!["docs", "search", &long],
        vec!["docs", "search", &too_long],
        vec!["docs", "search", "deploy", "--glob", "it's.md"],
        vec!["docs", "search", "deploy", "--glob", "[z-a]'; --"],
        vec!["docs", "search", "deploy", "--glob", "{a,b}(*)+?\\"],
        vec!["docs", "search", "deploy", "--must-contain", "'); --"],
        vec!["docs", "search", "deploy", "--after", "'; --"],
        vec!["docs", "read", "it's.md"],
        vec!["docs", "search", "deploy", "--candidates", "1000000"],
        vec!["docs", "search", "deploy", "--collection", "'; DROP SCHEMA pannier CASCADE; --"],
    ] {
        let output = run(&arguments);
        let text = text(&output);
        for word in [
            "SELECT",
            "syntax error",
            "db error",
            "ERROR:",
            "panicked",
            "SQLSTATE",
            "reports the error",
        ] {
            assert!(
                !text.contains(word) || arguments[2].contains(word),
                "{arguments:?}: {text:.300}"
            );
        }
        let is_clear =
            ["error: ", "No passage matches"].iter().any(|start| text.starts_with(start));
        let is_clear = is_clear || output.status.success();
        assert!(is_clear, "{arguments:?}: {text:.300}");
    }
    let verified = run(&["docs", "verify"]);
    assert!(text(&verified).contains("sound"), "{}", text(&verified));
}
