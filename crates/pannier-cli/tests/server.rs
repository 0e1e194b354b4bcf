//! The server as a process: the commands of its page, the log, and signals.
//!
//! `PANNIER_BLESS=1 cargo test -p pannier-cli --test server` rewrites the outputs of the page; look at `git diff` before you
//! keep it.

mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use support::HttpServer;

fn program(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pannier"));
    command.args(arguments).current_dir(folder);
    command.env("XDG_STATE_HOME", folder.join("state")).env_remove("PANNIER_MCP_TOKEN");
    command.env("XDG_CONFIG_HOME", folder.join("config")).env("NO_COLOR", "1");
    command
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("server-{name}"));
    let _ = fs::remove_dir_all(&folder);
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples"), &folder);
    let built = program(&folder, &["docs", "index", "handbook", "--index", "index"]).output();
    assert!(built.unwrap().status.success());
    folder
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (entry, to) = entry.map(|entry| (entry.path(), to.join(entry.file_name()))).unwrap();
        if entry.is_dir() { copy(&entry, &to) } else { _ = fs::copy(&entry, &to).unwrap() }
    }
}

/// Serves the examples.
fn serve(folder: &Path, more: &[&str]) -> HttpServer {
    let arguments = ["serve", "--http", "0", "--index", "handbook=index"].as_slice();
    let folders = ["--snippets", "snippets", "--memory", "harbour"].as_slice();
    HttpServer::start(&mut program(folder, &[arguments, folders, more].concat()))
}

fn post(server: &HttpServer, path: &str, headers: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

fn read(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[cfg(unix)]
#[test]
fn page_shows_what_the_server_answers() {
    let folder = folder("page");
    let server = serve(&folder, &["--log-level", "warn"]);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/server.md");
    let page = fs::read_to_string(&path).unwrap();
    let (mut shown, mut routes) = (String::new(), Vec::new());
    let (mut is_output, mut is_console) = (false, false);
    for line in page.lines() {
        if line.starts_with("```") {
            (is_console, is_output) = (line == "```console", false);
        }
        if let Some(command) = line.strip_prefix("$ ").filter(|_| is_console) {
            is_output = true;
            let command = command.replace("localhost:8642", &server.address);
            let output = Command::new("sh").args(["-c", &command]).output().unwrap();
            assert!(output.status.success(), "{command}");
            let output = String::from_utf8(output.stdout).unwrap();
            shown.push_str(&format!("{line}\n{}\n\n", output.trim_end()));
            routes.extend(
                command
                    .split(' ')
                    .find_map(|word| word.split_once("/v1/"))
                    .map(|it| it.1.to_owned()),
            );
        } else if !is_output {
            shown.push_str(&format!("{line}\n"));
        }
    }
    if std::env::var_os("PANNIER_BLESS").is_some() {
        fs::write(&path, &shown).unwrap();
    }
    let page = fs::read_to_string(&path).unwrap();
    for (actual, expected) in shown.lines().zip(page.lines()) {
        assert_eq!(actual, expected);
    }
    assert_eq!(shown.len(), page.len());
    let openapi = fs::read_to_string(path.with_file_name("openapi.json")).unwrap();
    let openapi: Value = serde_json::from_str(&openapi).unwrap();
    for route in openapi["paths"].as_object().unwrap().keys() {
        let name = route.strip_prefix("/v1/").unwrap();
        assert!(routes.iter().any(|other| other == name), "{route} has no example");
    }
}

#[cfg(unix)]
#[test]
fn log_has_names_and_sizes_and_no_contents() {
    let folder = folder("log");
    fs::write(folder.join("tokens"), "ci 0123456789abcdef-secret\n").unwrap();
    let server = serve(&folder, &["--token-file", "tokens", "--log-format", "json"]);
    let headers = "Authorization: Bearer 0123456789abcdef-secret\r\n";
    let answer = read(post(&server, "/v1/count", headers, r#"{"texts":["topsecret"]}"#));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let denied =
        read(post(&server, "/v1/topsecret", "Authorization: Bearer topsecret-token-x\r\n", "{}"));
    assert!(denied.starts_with("HTTP/1.1 401"), "{denied}");
    let (code, log) = server.terminate();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("warning: other users can read the tokens in tokens"), "{log}");
    let lines: Vec<Value> =
        log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let request = |status: u64| lines.iter().find(|line| line["status"] == status).unwrap();
    let counted = request(200);
    assert_eq!(
        (&counted["client"], &counted["route"], &counted["request_bytes"]),
        (&json!("ci"), &json!("/v1/count"), &json!(23))
    );
    assert!(counted["ms"].is_number() && counted["id"].is_string(), "{counted}");
    assert_eq!((&request(401)["client"], &request(401)["route"]), (&json!("-"), &json!("other")));
    assert!(!log.contains("topsecret") && !log.contains("0123456789abcdef"), "{log}");
}

#[cfg(unix)]
#[test]
fn private_token_file_has_no_warning() {
    use std::os::unix::fs::PermissionsExt;

    let folder = folder("private");
    let path = folder.join("tokens");
    fs::write(&path, "0123456789abcdef\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let (code, log) = serve(&folder, &["--token-file", "tokens"]).terminate();
    assert!(code == Some(0) && !log.contains("warning"), "{log}");
}

#[cfg(unix)]
#[test]
fn sigterm_answers_fifty_calls_in_flight() {
    let folder = folder("drain");
    let server = serve(&folder, &[]);
    let items: Vec<Value> = (0..400)
        .map(|number| json!({ "content": format!("Item {number} about refunds. ").repeat(5) }))
        .collect();
    let body = json!({ "items": items, "budget": 500 }).to_string();
    let calls: Vec<_> = (0..50).map(|_| post(&server, "/v1/pack", "", &body)).collect();
    let reads: Vec<_> = calls.into_iter().map(|call| std::thread::spawn(|| read(call))).collect();
    let (code, log) = server.terminate();
    for answer in reads {
        let answer = answer.join().unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer:.300}");
    }
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("draining") && log.contains("stopped"), "{log}");
}

#[cfg(unix)]
#[test]
fn without_folders_the_server_has_those_of_the_project() {
    let folder = folder("project");
    fs::rename(folder.join("harbour/.context"), folder.join(".context")).unwrap();
    assert!(program(&folder, &["docs", "index", "handbook"]).output().unwrap().status.success());
    let server = HttpServer::start(&mut program(&folder, &["serve", "--http", "0"]));
    let ask = |path: &str, body: Value| read(post(&server, path, "", &body.to_string()));
    let found = ask("/v1/search", json!({ "query": "rollback" }));
    assert!(found.contains("guides/rollback.md"), "{found}");
    let memory = ask("/v1/memory", json!({}));
    assert!(memory.contains("NEVER VIOLATE"), "{memory}");
    let nothing = std::env::temp_dir();
    let server = HttpServer::start(&mut program(&nothing, &["serve", "--http", "0"]));
    let answer = read(post(&server, "/v1/search", "", r#"{"query":"rollback"}"#));
    assert!(answer.contains("--index"), "{answer}");
}

#[test]
fn invalid_options_end_the_server_at_once() {
    let folder = folder("invalid");
    for (arguments, code, reason) in [
        (["--tokenizer", "nix"], 2, "nix"),
        (["--allow-host", "https://box.example"], 2, "is not a host"),
        (["--allow-origin", "box.example"], 2, "is not an origin"),
        (["--index", "nowhere"], 4, "there is no index at nowhere"),
        (["--snippets", "nowhere"], 2, "nowhere is not a folder"),
        (["--token-file", "nowhere"], 6, "cannot read nowhere"),
        (["--http", "0.0.0.0:0"], 2, "--token-file"),
        (["--http", "box"], 2, "is not an address"),
        (["--timeout", "0"], 2, "--timeout"),
        (["--drain", "x"], 2, "--drain"),
    ] {
        let http = if arguments[0] == "--http" { [].as_slice() } else { &["--http", "0"] };
        let command = [&["serve"], http, &arguments].concat();
        let output = program(&folder, &command).output().unwrap();
        let problem = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {problem}");
        let errors: Vec<&str> =
            problem.lines().filter(|line| line.starts_with("error: ")).collect();
        assert!(matches!(errors[..], [error] if error.contains(reason)), "{problem}");
    }
}
