//! The server under load: eight clients over HTTP, each with one connection, and a thousand mixed calls among them; and what
//! a fast call waits while slow ones are at work. Every answer is held against the one that the call gets alone.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::command;
use crate::measure::show;

const CLIENTS: usize = 8;
const CALLS: usize = 1_000;
const DOCUMENTS: usize = 2_000;

pub(crate) fn run() {
    let Some(binary) = command::build() else {
        println!("\nThe server: skipped, the command could not be built");
        return;
    };
    let folder = std::env::temp_dir().join(format!("pannier-bench-mcp-{}", std::process::id()));
    prepare(&binary, &folder);
    let server = Server::start(&binary, &folder);
    println!(
        "\nThe server over HTTP: {CALLS} mixed calls of {CLIENTS} clients at once, {DOCUMENTS} documents of 2 KB, 200 snippets.\n"
    );
    println!("    call                 calls       p50       p99   longest");
    let calls = calls();
    let mut alone = Client::connect(&server.address);
    let expected: Vec<String> = calls.iter().map(|(_, call)| alone.call(call)).collect();
    let start = Instant::now();
    let mut times: Vec<(usize, Duration)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CLIENTS)
            .map(|first| {
                let (calls, expected, address) = (&calls, &expected, &server.address);
                scope.spawn(move || {
                    let mut client = Client::connect(address);
                    let share = CALLS / CLIENTS;
                    let times = (0..share).map(|number| {
                        let which = (first + number) % calls.len();
                        let start = Instant::now();
                        let answer = client.call(&calls[which].1);
                        let time = start.elapsed();
                        assert_eq!(answer, expected[which], "another answer than alone");
                        (which, time)
                    });
                    times.collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a client")).collect()
    });
    let whole = start.elapsed();
    for (which, (name, _)) in calls.iter().enumerate() {
        let own = times.iter().filter(|(other, _)| *other == which).map(|(_, time)| *time);
        row(name, own.collect());
    }
    row("all", times.drain(..).map(|(_, time)| time).collect());
    println!("\n    {:.0} calls a second", CALLS as f64 / whole.as_secs_f64());

    println!(
        "\nA fast call (resolve_context), alone and next to two slow ones (pack_items that explains).\n"
    );
    println!("    next to              calls       p50       p99   longest");
    let fast = &calls[0].1;
    let measure = |client: &mut Client| -> Vec<Duration> {
        let time = |_| {
            let start = Instant::now();
            client.call(fast);
            start.elapsed()
        };
        (0..200).map(time).collect()
    };
    row("nothing", measure(&mut alone));
    std::thread::scope(|scope| {
        let slow: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let start = Instant::now();
                    Client::connect(&server.address).call(&slow());
                    start.elapsed()
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(50));
        row("two slow calls", measure(&mut alone));
        for thread in slow {
            println!("    a slow call took {}", show(thread.join().expect("a slow call")));
        }
    });
    drop(server);
    let _ = fs::remove_dir_all(&folder);
}

fn row(name: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    let (count, p50, p99, longest) = (times.len(), show(at(50)), show(at(99)), show(at(100)));
    println!("    {name:<18} {count:>7} {p50:>9} {p99:>9} {longest:>9}");
}

fn prepare(binary: &Path, folder: &Path) {
    let _ = fs::remove_dir_all(folder);
    let (docs, snippets) = (folder.join("docs"), folder.join("snippets"));
    fs::create_dir_all(&docs).expect("a folder");
    fs::create_dir_all(&snippets).expect("a folder");
    let words = ["harbour", "booking", "refund", "ledger", "rollback", "deploy", "guest", "berth"];
    for number in 0..DOCUMENTS {
        let text: Vec<String> = (0..280)
            .map(|place| match (number * 31 + place * 17) % 23 {
                found if found < words.len() => words[found].to_owned(),
                other => format!("word{}", other * 7 + number % 13),
            })
            .collect();
        let text = format!("# Document {number}\n\n{}\n", text.join(" "));
        fs::write(docs.join(format!("{number:04}.md")), text).expect("a document");
    }
    for number in 0..200 {
        let requires =
            if number > 0 { format!("requires: [s{}]\n", number / 2) } else { String::new() };
        let text = format!(
            "---\nid: s{number}\ndescription: About {}.\ntype: policy\nscope: project\n{requires}---\n{}\n",
            words[number % words.len()],
            "A line of the handbook.\n".repeat(40)
        );
        fs::write(snippets.join(format!("s{number}.md")), text).expect("a snippet");
    }
    let context = folder.join("project/.context");
    fs::create_dir_all(&context).expect("a folder");
    fs::write(context.join("CONSTITUTION.md"), "# Rules\n\n- Never lose a booking.\n")
        .expect("a file");
    let decisions: String = (0..100)
        .map(|number| {
            format!(
                "## [2026-0{}-11] Decision {number}\n\n**Decision**: About the {}.\n\n",
                1 + number % 9,
                words[number % 8]
            )
        })
        .collect();
    fs::write(context.join("DECISIONS.md"), format!("# Decisions\n\n{decisions}")).expect("a file");
    for arguments in [
        &["build", "--sources", "docs", "--cache", "cache"][..],
        &["snippets", "index", "--root", "snippets"],
    ] {
        let done = Command::new(binary).args(arguments).current_dir(folder).output();
        assert!(done.expect("the command").status.success(), "{arguments:?}");
    }
}

fn calls() -> Vec<(&'static str, Value)> {
    let call = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
    let items: Vec<Value> = (0..200)
        .map(|number| json!({ "content": format!("item {number} about a refund"), "priority": number % 7 }))
        .collect();
    vec![
        (
            "resolve_context",
            call("resolve_context", json!({ "query": "refund ledger", "budget": 4000 })),
        ),
        (
            "search_docs",
            call("search_docs", json!({ "query": "how is a refund booked?", "budget": 2000 })),
        ),
        ("get_context, list", call("get_context", json!({ "query": "refund" }))),
        ("get_context, texts", call("get_context", json!({ "snippet_ids": ["s150", "s90"] }))),
        ("get_memory", call("get_memory", json!({ "now": "2026-11-01", "budget": 2000 }))),
        (
            "pack_items",
            call("pack_items", json!({ "items": items, "budget": 600, "query": "refund" })),
        ),
    ]
}

fn slow() -> Value {
    let items: Vec<Value> = (0..1_500)
        .map(|number| json!({ "content": format!("item {number}"), "tokens": 50 + number * 7919 % 997, "futureRelevanceHint": f64::from(number % 101) / 101.0 }))
        .collect();
    let policy = json!({ "scorers": [{ "type": "reflexive", "weight": 1.0 }], "slicer": "knapsack", "bucket_size": 1 });
    let arguments = json!({ "items": items, "budget": 300_000, "policy": policy, "explain": ["#7", "#11", "#13", "#17"] });
    json!({ "name": "pack_items", "arguments": arguments })
}

struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(binary: &Path, folder: &Path) -> Self {
        let mut child = Command::new(binary)
            .args([
                "mcp",
                "--cache",
                "cache",
                "--docs",
                "snippets",
                "--context",
                "project",
                "--http",
                "0",
            ])
            .current_dir(folder)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server");
        let mut line = String::new();
        let told = child.stderr.as_mut().expect("what it says");
        BufReader::new(told).read_line(&mut line).expect("an address");
        let address =
            line.trim().trim_start_matches("listening at http://").trim_end_matches("/mcp");
        Self { address: address.to_owned(), child }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One connection that is kept.
struct Client {
    stream: BufReader<TcpStream>,
    host: String,
}

impl Client {
    fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        Self { stream: BufReader::new(stream), host: address.to_owned() }
    }

    /// The text of the answer to a call.
    fn call(&mut self, params: &Value) -> String {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let body = body.to_string();
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\nContent-Length: {}\r\n\r\n{body}",
            self.host,
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes()).expect("a request");
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).expect("a head");
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
        }
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).expect("a body");
        let answer: Value = serde_json::from_slice(&bytes).expect("JSON");
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        answer["result"]["content"][0]["text"].as_str().expect("a text").to_owned()
    }
}
