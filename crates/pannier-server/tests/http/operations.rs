//! Probes, metrics, fairness, half-open connections, draining and watching.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use pannier_server::{BearerTokens, WatchOptions, Watcher};
use serde_json::json;

use super::server::{PING, Response, Server, config, folder, large_pack, tool_call};

#[test]
fn metrics_count_requests_by_route_and_status() {
    let server = Server::with_examples("metrics");
    assert_eq!(server.get("/healthz", "").body, "ok\n");
    assert_eq!(server.get("/readyz", "").body, "ready\n");
    let first = server.post("/v1/count", "", r#"{"texts":["a secret text"]}"#);
    let second = server.post("/v1/count", "", "{");
    let id = |response: &Response| {
        let line = response.head.lines().find_map(|line| line.strip_prefix("x-request-id: "));
        line.unwrap().to_owned()
    };
    assert_ne!(id(&first), id(&second));
    server.post("/v1/nothing-at-all", "", "{}");
    let text = server.get("/metrics", "").body;
    for line in [
        r#"pannier_requests_total{route="/v1/count",status="200"} 1"#,
        r#"pannier_requests_total{route="/v1/count",status="400"} 1"#,
        r#"pannier_requests_total{route="other",status="404"} 1"#,
        r#"pannier_request_duration_seconds_count{route="/v1/count"} 2"#,
        r#"pannier_request_duration_seconds_bucket{route="/v1/count",le="+Inf"} 2"#,
        r#"pannier_request_bytes_total{route="/v1/count"} 28"#,
        "pannier_requests_in_flight 1",
        r#"pannier_index_info{index="handbook",version=""#,
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("secret") && !text.contains("nothing-at-all"));
}

#[test]
fn small_requests_pass_large_ones() {
    let mut config = pannier_mcp::ServerConfig::default();
    config.limits.input = 8 << 20;
    config.limits.calls = 1;
    let server = Server::start(config, |_| {});
    // With one permit for large bodies, these run one after the other.
    let body = tool_call("pack_items", &large_pack(3_600_000));
    let large: Vec<_> = (0..4)
        .map(|_| {
            let mut stream = server.connect();
            let request = server.request("/mcp", "", &body);
            std::thread::spawn(move || {
                stream.write_all(&request).unwrap();
                Response::read(stream)
            })
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(server.post("/mcp", "", PING).status, 200);
    }
    let is_waiting = large.iter().any(|call| !call.is_finished());
    assert!(is_waiting, "20 pings waited for all large calls");
    for call in large {
        let answer = call.join().unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert!(answer.body.contains("\"isError\":false"), "{:.400}", answer.body);
    }
}

#[test]
fn a_large_call_does_not_wait_for_slow_uploads() {
    let mut config = pannier_mcp::ServerConfig::default();
    config.limits.calls = 1;
    let server = Server::start(config, |_| {});
    let body = large_pack(100_000).to_string();
    let request = server.request("/v1/pack", "", &body);
    let (start, rest) = request.split_at(request.len() / 2);
    let mut slow: Vec<TcpStream> = (0..2).map(|_| server.connect()).collect();
    for stream in &mut slow {
        stream.write_all(start).unwrap();
    }
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(server.exchange(&request).status, 200);
    // They have not timed out meanwhile.
    for mut stream in slow {
        stream.write_all(rest).unwrap();
        assert_eq!(Response::read(stream).status, 200);
    }
}

#[test]
fn one_client_does_not_starve_another() {
    const CALLS: usize = 16;
    let mut config = pannier_mcp::ServerConfig::default();
    config.limits.calls = 1;
    let server = Server::start(config, |options| {
        let tokens = "greedy 0123456789abcdef\nother fedcba9876543210\n";
        options.tokens = BearerTokens::parse(tokens).unwrap();
    });
    let body = large_pack(1_500_000).to_string();
    let send = |token: &str| {
        let mut stream = server.connect();
        let headers = format!("Authorization: Bearer {token}\r\n");
        let request = server.request("/v1/pack", &headers, &body);
        std::thread::spawn(move || {
            stream.write_all(&request).unwrap();
            let sent = Instant::now();
            let answer = Response::read(stream);
            assert_eq!(answer.status, 200, "{:.400}", answer.body);
            (sent, Instant::now())
        })
    };
    let greedy: Vec<_> = (0..CALLS).map(|_| send("0123456789abcdef")).collect();
    let (sent, answered) = send("fedcba9876543210").join().unwrap();
    let ends = greedy.into_iter().map(|call| call.join().unwrap().1);
    // The calls that ended before it was sent are no matter of fairness; how many they are depends on the machine.
    let ahead = ends.filter(|end| (sent..answered).contains(end)).count();
    assert!(ahead <= CALLS / 2, "{ahead} of {CALLS} calls of the greedy client came first");
}

/// Connects from another address of this machine.
#[cfg(target_os = "linux")]
fn connect_from(from: [u8; 4], to: &str) -> TcpStream {
    let to: SocketAddr = to.parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        socket.connect(to).await.unwrap()
    });
    let stream = stream.into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    stream
}

#[cfg(target_os = "linux")]
#[test]
fn half_open_connections_do_not_lock_others_out() {
    let server = Server::start(Default::default(), |_| {});
    let mut half_open = Vec::new();
    for _ in 0..256 {
        let mut stream = connect_from([127, 0, 0, 2], &server.address);
        let _ = stream.write_all(b"POST /mcp HTTP/1.1\r\nHost: loc");
        half_open.push(stream);
        if half_open.len() % 32 == 0 {
            assert_eq!(server.post("/mcp", "", PING).status, 200);
        }
    }
    // Above the allowance, a connection without a request is closed after a second, the others after thirty.
    let is_open = |stream: &TcpStream| {
        stream.set_nonblocking(true).unwrap();
        let read = (&mut &*stream).read(&mut [0]);
        read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    let started = Instant::now();
    let mut open = half_open.len();
    while open > 32 && started.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(50));
        open = half_open.iter().filter(|stream| is_open(stream)).count();
    }
    assert_eq!(open, 32);
    assert_eq!(server.post("/mcp", "", PING).status, 200);
}

#[test]
fn drain_answers_calls_in_flight_and_refuses_new_connections() {
    let mut server = Server::start(Default::default(), |_| {});
    let _idle = server.connect();
    let body = large_pack(1_000_000).to_string();
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let mut stream = server.connect();
            let request = server.request("/v1/pack", "", &body);
            std::thread::spawn(move || {
                stream.write_all(&request).unwrap();
                Response::read(stream)
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(50));
    server.stop();
    for call in calls {
        let answer = call.join().unwrap();
        assert_eq!(answer.status, 200, "{:.400}", answer.body);
    }
    server.join();
    assert!(TcpStream::connect(&server.address).is_err());
}

#[test]
fn drain_ends_in_time_if_a_call_does_not() {
    let mut config = pannier_mcp::ServerConfig::default();
    config.limits.input = 8 << 20;
    let mut server = Server::start(config, |options| options.drain = Duration::from_millis(300));
    // The body never ends.
    let mut stream = server.connect();
    let head = "POST /v1/count HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{";
    stream.write_all(head.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let started = Instant::now();
    server.stop();
    server.join();
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[test]
fn watched_index_follows_its_sources() {
    let folder = folder("watch");
    let config = config(&folder);
    let mut options = WatchOptions::new(config.caches.clone());
    options.interval = Duration::from_millis(100);
    let _watcher = Watcher::start(options).unwrap();
    let server = Server::start(config, |_| {});
    let search = || {
        let (status, answer) = server.call("/v1/search", json!({ "query": "zeppelin" }));
        assert_eq!(status, 200, "{answer}");
        answer.to_string().contains("airships.md")
    };
    assert!(!search());
    let text = "# Airships\n\nThe zeppelin leaves at noon.\n";
    std::fs::write(folder.join("examples/handbook/airships.md"), text).unwrap();
    let started = Instant::now();
    while !search() {
        assert!(started.elapsed() < Duration::from_secs(30), "the index is not updated");
        std::thread::sleep(Duration::from_millis(50));
    }
    std::fs::remove_file(folder.join("examples/handbook/airships.md")).unwrap();
    while search() {
        assert!(started.elapsed() < Duration::from_secs(60), "the index is not updated");
        std::thread::sleep(Duration::from_millis(50));
    }
}
