//! A fake provider that records what it gets, a running gateway, and a client for raw requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use pannier_gateway::{GatewayError, GatewayOptions, Upstreams, serve_until};
use tokio::sync::oneshot;

/// A request or a response: its head line by line, and its body as it was sent, without chunk sizes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    pub(crate) head: Vec<String>,
    pub(crate) body: Vec<u8>,
    /// Trailers of a chunked body.
    pub(crate) trailers: Vec<String>,
}

impl Message {
    /// Reads a message; returns `None` if the connection has ended.
    pub(crate) fn read(reader: &mut impl BufRead) -> Option<Self> {
        let head = lines(reader);
        if head.is_empty() {
            return None;
        }
        let mut message = Self { head, ..Self::default() };
        if message.header("transfer-encoding").is_some() {
            loop {
                let mut size = String::new();
                reader.read_line(&mut size).ok()?;
                let size = usize::from_str_radix(size.trim(), 16).ok()?;
                if size == 0 {
                    message.trailers = lines(reader);
                    return Some(message);
                }
                let start = message.body.len();
                message.body.resize(start + size, 0);
                reader.read_exact(&mut message.body[start..]).ok()?;
                reader.read_exact(&mut [0; 2]).ok()?;
            }
        }
        let length = message.header("content-length").map_or(0, |value| value.parse().unwrap());
        message.body.resize(length, 0);
        reader.read_exact(&mut message.body).ok()?;
        Some(message)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.head.iter().skip(1).filter_map(|line| line.split_once(": "));
        headers.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn status(&self) -> u16 {
        self.head.first().and_then(|line| line.split(' ').nth(1)).map_or(0, |s| s.parse().unwrap())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The headers that both sides must see alike, sorted.
    pub(crate) fn shared_headers(&self) -> Vec<String> {
        let own = ["connection", "host", "pannier-", "transfer-encoding", "te:"];
        let is_own = |line: &&String| own.iter().any(|name| line.to_lowercase().starts_with(name));
        let mut headers: Vec<String> =
            self.head.iter().skip(1).filter(|line| !is_own(line)).cloned().collect();
        headers.sort();
        headers
    }
}

fn lines(reader: &mut impl BufRead) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        let read = reader.read_line(&mut line).unwrap_or(0);
        let line = line.trim_end().to_owned();
        if read == 0 || line.is_empty() {
            return lines;
        }
        lines.push(line);
    }
}

/// A provider that answers each connection with a function.
pub(crate) struct Provider {
    pub(crate) url: String,
    received: Receiver<Message>,
}

impl Provider {
    /// Answers each request by writing to its connection, which is then closed.
    pub(crate) fn start(answer: impl Fn(&Message, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, received) = channel();
        let answer = std::sync::Arc::new(answer);
        // It ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (sender, answer) = (sender.clone(), std::sync::Arc::clone(&answer));
                std::thread::spawn(move || {
                    let mut reader = BufReader::new(stream.try_clone().unwrap());
                    let Some(message) = Message::read(&mut reader) else { return };
                    let _ = sender.send(message.clone());
                    answer(&message, &mut { stream });
                });
            }
        });
        Self { url, received }
    }

    /// Answers each request with bytes, and keeps the connection.
    pub(crate) fn keep_alive(answer: impl Fn(&Message) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (_, received) = channel();
        let answer = std::sync::Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let answer = std::sync::Arc::clone(&answer);
                std::thread::spawn(move || {
                    let mut reader = BufReader::new(stream.try_clone().unwrap());
                    let mut stream = stream;
                    let _ = stream.set_nodelay(true);
                    while let Some(message) = Message::read(&mut reader) {
                        if stream.write_all(&answer(&message)).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { url, received }
    }

    /// Answers each request with the same bytes.
    pub(crate) fn always(response: &'static str) -> Self {
        Self::start(move |_, stream| _ = stream.write_all(response.as_bytes()))
    }

    /// Returns the next request.
    pub(crate) fn received(&self) -> Message {
        self.received.recv_timeout(Duration::from_secs(60)).unwrap()
    }

    pub(crate) fn received_nothing(&self) -> bool {
        self.received.try_recv().is_err()
    }
}

pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";

pub(crate) struct Gateway {
    pub(crate) address: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), GatewayError>>>,
}

impl Gateway {
    pub(crate) fn start(url: &str, set: impl FnOnce(&mut GatewayOptions)) -> Self {
        let upstreams = Upstreams::parse([url]).unwrap();
        let mut options = GatewayOptions::new("0".parse().unwrap(), upstreams, 4_000);
        options.tokenizer = Some("bytes/4".to_owned());
        set(&mut options);
        let (ready, address) = channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
            let served = runtime.block_on(serve_until(
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

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Sends bytes; returns the response, without one an empty message.
    pub(crate) fn exchange(&self, request: &[u8]) -> Message {
        let mut stream = self.connect();
        let _ = stream.write_all(request);
        Message::read(&mut BufReader::new(stream)).unwrap_or_default()
    }

    pub(crate) fn post(&self, path: &str, headers: &str, body: impl AsRef<[u8]>) -> Message {
        self.exchange(&post(path, headers, body))
    }

    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(crate) fn post(path: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    post_as("key-1", path, headers, body)
}

/// A request with a key.
pub(crate) fn post_as(key: &str, path: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: {key}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// A session of `turns` tool calls with results of about `words` words each.
pub(crate) fn session(turns: usize, words: usize) -> String {
    let mut messages = vec![r#"{"role":"user","content":"Fix the build."}"#.to_owned()];
    for turn in 0..turns {
        let result: String = (0..words).map(|word| format!("word{turn}x{word} ")).collect();
        messages.push(format!(
            r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"c{turn}","name":"Bash","input":{{"command":"run {turn}"}}}}]}}"#
        ));
        messages.push(format!(
            r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"c{turn}","content":"{result}"}}]}}"#
        ));
    }
    // Spaces that a parser would lose.
    format!(
        "{{ \"model\" : \"claude-x\",\"max_tokens\":100, \"messages\":[{}]}}",
        messages.join(", ")
    )
}

/// A folder that is removed at the end.
pub(crate) struct Folder(pub(crate) std::path::PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&folder);
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An address that nobody listens at.
pub(crate) fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// Reads all of a stream.
pub(crate) fn read_to_end(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    bytes
}
