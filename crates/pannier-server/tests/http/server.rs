//! A running server, its folders, and a client for raw requests.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use pannier::ops::{Control, IndexRequest, Request};
use pannier::{NamedFolder, Shelf};
use pannier_mcp::ServerConfig;
use pannier_server::{HttpError, HttpOptions};
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// A folder with a copy of the examples, an index of the handbook, and a secret outside of the served folders.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("http-{name}"));
    let _ = fs::remove_dir_all(&folder);
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    copy(&examples, &folder.join("examples"));
    fs::write(folder.join("secret.toml"), "the secret is 1187").unwrap();
    let index =
        json!({ "folder": folder.join("examples/handbook"), "index": folder.join("index") });
    let index = IndexRequest::from_value(index).unwrap();
    index.run(&Shelf::local(), &Control::default()).unwrap();
    folder
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (entry, to) = entry.map(|entry| (entry.path(), to.join(entry.file_name()))).unwrap();
        if entry.is_dir() { copy(&entry, &to) } else { _ = fs::copy(&entry, &to).unwrap() }
    }
}

/// Returns the configuration of a server with all folders.
pub(crate) fn config(folder: &Path) -> ServerConfig {
    let named = |name: &str, path: &str| vec![NamedFolder::new(name, folder.join(path)).unwrap()];
    let mut config = ServerConfig::default();
    config.caches = named("handbook", "index");
    config.docs = named("snippets", "examples/snippets");
    config.contexts = named("harbour", "examples/harbour");
    config.state = Some(folder.join("state"));
    config
}

pub(crate) struct Server {
    pub(crate) address: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), HttpError>>>,
}

impl Server {
    pub(crate) fn start(config: ServerConfig, set: impl FnOnce(&mut HttpOptions)) -> Self {
        let server = pannier_mcp::Server::open(config).unwrap();
        let mut options = HttpOptions::new("0".parse().unwrap());
        set(&mut options);
        let (ready, address) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
            let served = runtime.block_on(pannier_server::serve_until(
                server,
                &options,
                |url| ready.send(url.strip_prefix("http://").unwrap().to_owned()).unwrap(),
                async {
                    let _ = stopped.await;
                },
            ));
            runtime.shutdown_background();
            served
        });
        Self { address: address.recv().unwrap(), stop: Some(stop), thread: Some(thread) }
    }

    /// Starts a server with the folders of the examples.
    pub(crate) fn with_examples(name: &str) -> Self {
        Self::start(config(&folder(name)), |_| {})
    }

    /// Starts to drain the server.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits for the end of the server.
    pub(crate) fn join(&mut self) {
        self.thread.take().unwrap().join().unwrap().unwrap();
    }

    pub(crate) fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).unwrap()
    }

    /// Sends bytes; returns the response.
    pub(crate) fn exchange(&self, request: &[u8]) -> Response {
        let mut stream = self.connect();
        // The server may respond and close before it has read everything.
        let _ = stream.write_all(request);
        Response::read(stream)
    }

    pub(crate) fn get(&self, path: &str, headers: &str) -> Response {
        self.exchange(&self.head("GET", path, headers, 0))
    }

    pub(crate) fn post(&self, path: &str, headers: &str, body: &str) -> Response {
        self.exchange(&self.request(path, headers, body))
    }

    /// Posts JSON, and returns the status and the JSON of the response.
    #[expect(clippy::needless_pass_by_value, reason = "a test writes it where it is used")]
    pub(crate) fn call(&self, path: &str, body: Value) -> (u16, Value) {
        let response = self.post(path, "", &body.to_string());
        let json = serde_json::from_str(&response.body);
        (response.status, json.unwrap_or_else(|_| panic!("{}", response.body)))
    }

    pub(crate) fn request(&self, path: &str, headers: &str, body: &str) -> Vec<u8> {
        [&self.head("POST", path, headers, body.len())[..], body.as_bytes()].concat()
    }

    /// The default headers are left out if `headers` has others.
    fn head(&self, method: &str, path: &str, headers: &str, length: usize) -> Vec<u8> {
        let lower = format!("\n{}", headers.to_lowercase());
        let default = |name: &str, value: &str| match lower.contains(&format!("\n{name}:")) {
            true => String::new(),
            false => format!("{name}: {value}\r\n"),
        };
        let defaults = [
            default("host", &self.address),
            default("content-type", "application/json"),
            default("accept", "application/json, text/event-stream"),
        ];
        let defaults = defaults.concat();
        format!(
            "{method} {path} HTTP/1.1\r\n{defaults}connection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
        )
        .into_bytes()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(crate) struct Response {
    pub(crate) status: u16,
    /// In lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Response {
    /// Reads until the end of a connection; the status is 0 if there is no response.
    pub(crate) fn read(mut stream: TcpStream) -> Self {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        Self { status, head: head.to_lowercase(), body: body.to_owned() }
    }
}

/// A pack request whose JSON has about this many bytes.
pub(crate) fn large_pack(bytes: usize) -> Value {
    let content = "Refunds take five days after the parcel is back. ".repeat(20);
    let count = bytes / (content.len() + 40);
    let items: Vec<Value> = (0..count)
        .map(|number| json!({ "content": format!("{number} {content}"), "id": number.to_string() }))
        .collect();
    json!({ "items": items, "budget": 2_000, "tokenizer": "bytes/4" })
}

/// A tool call of the Model Context Protocol.
pub(crate) fn tool_call(name: &str, arguments: &Value) -> String {
    let params = json!({ "name": name, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string()
}

pub(crate) const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
