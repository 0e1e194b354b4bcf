//! Spans and metrics of the server, as a collector receives them.

#[path = "../../pannier-otel/tests/support/mod.rs"]
mod collector;
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message;
use serde_json::{Value, json};
use support::HttpServer;

const SECRET: &str = "topsecret";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// Returns a command without the variables of its environment.
fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pannier"));
    command.args(arguments);
    command.env_remove("PANNIER_MCP_TOKEN").env_remove("OTEL_EXPORTER_OTLP_ENDPOINT");
    for proxy in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        command.env_remove(proxy);
    }
    command
}

fn serve(more: &[&str]) -> Command {
    program(&[&["serve", "--http", "0"], more].concat())
}

/// Starts a collector, and returns its address and what it receives.
fn start_collector() -> (String, Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    (endpoint, collector::receive(listener))
}

/// Returns the spans and the names of metrics that arrived, none of which has the secret.
fn decode(received: &Receiver<(String, Vec<u8>)>) -> (Vec<Span>, BTreeSet<String>) {
    let (mut spans, mut metrics) = (Vec::new(), BTreeSet::new());
    for (path, body) in received.try_iter() {
        let has_secret = body.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
        assert!(!has_secret, "{path}: {}", String::from_utf8_lossy(&body));
        match path.as_str() {
            "/v1/traces" => {
                let request = ExportTraceServiceRequest::decode(&body[..]).unwrap();
                let scopes = request.resource_spans.into_iter().flat_map(|it| it.scope_spans);
                spans.extend(scopes.flat_map(|scope| scope.spans));
            }
            "/v1/metrics" => {
                let request = ExportMetricsServiceRequest::decode(&body[..]).unwrap();
                let scopes = request.resource_metrics.into_iter().flat_map(|it| it.scope_metrics);
                metrics.extend(scopes.flat_map(|scope| scope.metrics).map(|metric| metric.name));
            }
            other => panic!("unexpected request to {other}"),
        }
    }
    (spans, metrics)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn post(server: &HttpServer, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nConnection: close\r\nContent-Length: {length}\r\ntraceparent: 00-{TRACE}-b7ad6b7169203331-01\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[cfg(unix)]
#[test]
fn requests_and_selections_arrive_at_a_collector_without_contents() {
    let (endpoint, received) = start_collector();
    let server = HttpServer::start(serve(&[]).env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint));
    let items = json!([{ "content": format!("{SECRET} one"), "id": SECRET }, { "content": "two" }]);
    let pack = json!({ "items": items, "budget": 50, "query": SECRET });
    let answer = post(&server, "/v1/pack", &pack.to_string());
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let params = json!({ "name": "pack_items", "arguments": pack });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let answer = post(&server, "/mcp", &call.to_string());
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let refused = post(&server, "/v1/pack", &json!({ "policy": SECRET }).to_string());
    assert!(refused.starts_with("HTTP/1.1 400"), "{refused}");
    post(&server, &format!("/{SECRET}"), "{}");
    let (code, log) = server.terminate();
    assert_eq!(code, Some(0), "{log}");

    let (spans, metrics) = decode(&received);
    for name in ["http.server.request.duration", "cupel.selections", "cupel.selection.duration"] {
        assert!(metrics.contains(name), "{metrics:?}");
    }
    let mut names = BTreeMap::<&str, usize>::new();
    spans.iter().for_each(|span| *names.entry(&span.name).or_default() += 1);
    let count = |name: &str| names.get(name).copied().unwrap_or_default();
    assert_eq!(
        (count("POST /v1/pack"), count("POST /mcp"), count("POST other")),
        (2, 1, 1),
        "{names:?}"
    );
    assert!(count("cupel.pipeline") >= 2 && count("cupel.stage.slice") >= 2, "{names:?}");
    for span in &spans {
        assert_eq!(hex(&span.trace_id), TRACE, "{span:?}");
        let parent = spans.iter().find(|other| other.span_id == span.parent_span_id);
        match span.name.as_str() {
            "cupel.pipeline" => assert!(parent.unwrap().name.starts_with("POST "), "{parent:?}"),
            name if name.starts_with("cupel.") => {
                assert_eq!(parent.unwrap().name, "cupel.pipeline");
            }
            _ => {
                assert_eq!(span.kind, SpanKind::Server as i32);
                assert_eq!(hex(&span.parent_span_id), "b7ad6b7169203331");
                let keys: BTreeSet<&str> =
                    span.attributes.iter().map(|it| it.key.as_str()).collect();
                assert!(keys.contains("http.route") && keys.contains("http.response.status_code"));
            }
        }
    }
}

#[test]
fn calls_over_standard_streams_arrive_at_a_collector_without_contents() {
    for command in [["mcp"].as_slice(), &["serve", "--stdio"]] {
        let (endpoint, received) = start_collector();
        let parent = format!("00-{TRACE}-b7ad6b7169203331-01");
        let call = |id: u32, tool: &str, arguments: Value| {
            let meta = json!({ "traceparent": parent });
            let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
            json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
        };
        let items =
            json!([{ "content": format!("{SECRET} one"), "id": SECRET }, { "content": "two" }]);
        let start = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": SECRET, "version": "1" } });
        let lines = [
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": start }),
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
            call(1, "pack_items", json!({ "items": items, "budget": 50, "query": SECRET })),
            // A former name of the same tool.
            call(2, "select_context", json!({ "items": items, "budget": 50 })),
            call(3, "pack_items", json!({ "policy": SECRET })),
        ];
        let mut child = program(command)
            .args(["--otlp", &endpoint])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let answers = String::from_utf8(output.stdout).unwrap();
        assert_eq!(answers.lines().count(), 4, "{answers}");

        let (spans, metrics) = decode(&received);
        for name in ["mcp.server.operation.duration", "cupel.selections"] {
            assert!(metrics.contains(name), "{metrics:?}");
        }
        let calls: Vec<&Span> =
            spans.iter().filter(|span| span.name == "tools/call pack_items").collect();
        assert_eq!(calls.len(), 3, "{spans:?}");
        let keys = |span: &Span| -> BTreeSet<String> {
            span.attributes.iter().map(|attribute| attribute.key.clone()).collect()
        };
        for span in &calls {
            let keys = keys(span);
            let expected = ["mcp.method.name", "gen_ai.tool.name", "network.transport"];
            assert!(expected.iter().all(|key| keys.contains(*key)), "{keys:?}");
            assert_eq!(span.kind, SpanKind::Server as i32);
            assert_eq!(hex(&span.parent_span_id), "b7ad6b7169203331");
        }
        let failed = calls.iter().filter(|span| keys(span).contains("error.type"));
        assert_eq!(failed.count(), 1, "{calls:?}");
        let runs: Vec<&Span> = spans.iter().filter(|span| span.name == "cupel.pipeline").collect();
        assert!(runs.len() >= 2, "{spans:?}");
        for span in runs {
            assert_eq!(hex(&span.trace_id), TRACE);
            assert!(calls.iter().any(|call| call.span_id == span.parent_span_id), "{span:?}");
        }
    }
}

#[cfg(unix)]
#[test]
fn telemetry_is_off_by_default_and_a_missing_collector_does_not_matter() {
    let (code, log) = HttpServer::start(&mut serve(&[])).terminate();
    assert!(code == Some(0) && !log.contains("telemetry"), "{log}");
    let server = HttpServer::start(&mut serve(&["--otlp", "http://127.0.0.1:9"]));
    let counted = post(&server, "/v1/count", r#"{"texts":["x"]}"#);
    assert!(counted.starts_with("HTTP/1.1 200"), "{counted}");
    let (code, log) = server.terminate();
    assert_eq!(code, Some(0), "{log}");
    let wrong = serve(&["--otlp", "no address"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
}
