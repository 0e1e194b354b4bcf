//! A running server, fixture folders, and a client for raw messages.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// The folder of a test: examples, a cache of the handbook, and a secret outside of the served folders.
pub(crate) struct Fixture(pub(crate) PathBuf);

impl Fixture {
    pub(crate) fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mcp-{name}"));
        let _ = fs::remove_dir_all(&folder);
        copy(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples"),
            &folder.join("examples"),
        );
        fs::write(folder.join("secret.md"), "the secret is 1187").unwrap();
        let fixture = Self(folder);
        fixture.command(&["build", "--sources", "examples/handbook", "--cache", "handbook"]);
        fixture
    }

    /// Returns the output of a command.
    pub(crate) fn command(&self, arguments: &[&str]) -> String {
        let output = self.program(arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn program(&self, arguments: &[impl AsRef<std::ffi::OsStr>]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pannier"));
        command
            .args(arguments)
            .current_dir(&self.0)
            .env("XDG_STATE_HOME", self.0.join("state"))
            .env("XDG_CONFIG_HOME", self.0.join("config"))
            .env("NO_COLOR", "1")
            .env_remove("PANNIER_MCP_TOKEN")
            .env_remove("CTX_TOKEN_BUDGET");
        command
    }

    /// Serves all folders.
    pub(crate) fn serve(&self) -> Client {
        self.serve_with(&[])
    }

    pub(crate) fn serve_with(&self, more: &[&str]) -> Client {
        let everything =
            ["--cache", "handbook", "--docs", "examples/snippets", "--context", "examples/harbour"];
        self.serve_only(&[&everything, more].concat())
    }

    pub(crate) fn serve_only(&self, arguments: &[&str]) -> Client {
        let mut child = self
            .program(&[&["mcp"], arguments].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Client { child, input, output, next: 0, notifications: Vec::new() }
    }
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (entry, to) = entry.map(|entry| (entry.path(), to.join(entry.file_name()))).unwrap();
        if entry.is_dir() { copy(&entry, &to) } else { _ = fs::copy(&entry, &to).unwrap() }
    }
}

/// The metadata of every request in the new protocol version.
pub(crate) fn metadata() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" }
    })
}

pub(crate) struct Client {
    pub(crate) child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next: u64,
    /// The received notifications.
    pub(crate) notifications: Vec<Value>,
}

impl Client {
    pub(crate) fn write(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_bytes()).unwrap();
        input.write_all(b"\n").unwrap();
        input.flush().unwrap();
    }

    /// Returns the next line.
    pub(crate) fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.output.read_line(&mut line).unwrap() {
            0 => None,
            _ => Some(serde_json::from_str(&line).unwrap()),
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "a test writes it where it is used")]
    pub(crate) fn send(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let request =
            json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        self.write(&request.to_string());
        self.next
    }

    /// Returns the next response.
    pub(crate) fn answer(&mut self) -> Value {
        loop {
            let line = self.line().expect("the server is gone");
            if line.get("id").is_some() || line.get("error").is_some() {
                return line;
            }
            self.notifications.push(line);
        }
    }

    /// Sends a request and returns its response.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let answer = self.answer();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    pub(crate) fn initialize(&mut self, version: &str) -> Value {
        let client = json!({ "name": "test", "version": "1" });
        let params =
            json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client });
        let answer = self.request("initialize", params);
        self.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        answer["result"].clone()
    }

    #[expect(clippy::needless_pass_by_value, reason = "a test writes it where it is used")]
    pub(crate) fn call(&mut self, name: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", json!({ "name": name, "arguments": arguments }));
        assert!(answer.get("result").is_some(), "{answer}");
        answer["result"].clone()
    }

    /// Returns the text of a successful call.
    pub(crate) fn text(&mut self, name: &str, arguments: Value) -> String {
        let result = self.call(name, arguments);
        assert_eq!(result["isError"], false, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Returns code, message and hint of a failed call.
    pub(crate) fn problem(&mut self, name: &str, arguments: Value) -> (String, String, String) {
        let result = self.call(name, arguments);
        assert_eq!(result["isError"], true, "{result}");
        let text = result["content"][0]["text"].as_str().unwrap();
        let problem: Value = serde_json::from_str(text).unwrap();
        let field = |name: &str| problem[name].as_str().unwrap().to_owned();
        (field("code"), field("message"), field("hint"))
    }

    /// Closes the input and waits for the exit; returns the code and standard error.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        drop(self.input.take());
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        (self.child.wait().unwrap().code(), stderr)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
