//! Requests and responses that pass unchanged, and those that are fitted.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::mpsc::channel;

use super::support::{Folder, Gateway, OK, Provider, post, session};

#[test]
fn requests_that_fit_arrive_byte_for_byte() {
    let provider = Provider::always(OK);
    let gateway = Gateway::start(&provider.url, |_| {});
    let small = session(2, 10);
    for (path, body, fit) in [
        ("/v1/messages?beta=true", small.as_str(), Some("unchanged")),
        ("/v1/messages/count_tokens", &small, Some("unchanged")),
        (
            "/v1/chat/completions",
            r#"{"messages":[{"role":"user","content":"hi \u00e9"}],"n":1.0}"#,
            Some("unchanged"),
        ),
        ("/v1/responses", r#"{"input":"hi", "model":"gpt-5"}"#, Some("unchanged")),
        ("/v1/responses", r#"{"input":"hi","previous_response_id":"r"}"#, Some("not-visible")),
        // Not a chat that can be read: forwarded as it is.
        ("/v1/messages", "{\"messages\":", Some("failed")),
        ("/v1/embeddings", "{\"input\":[1,2]}", Some("passed")),
        ("/anything?key=1&x=%20", "\u{0}binary\u{1}", Some("passed")),
    ] {
        let request = post(path, "X-Custom: A  b\r\nKeep-Alive: 5\r\nPannier-Session: s\r\n", body);
        let answer = gateway.exchange(&request);
        let received = provider.received();
        assert_eq!(received.head[0], format!("POST {path} HTTP/1.1"));
        assert_eq!(received.body, body.as_bytes(), "{path}");
        let length = format!("Content-Length: {}", body.len());
        let headers = ["Content-Type: application/json", "X-Api-Key: key-1", "X-Custom: A  b"];
        let mut expected: Vec<String> = headers.map(str::to_owned).into();
        expected.push(length);
        expected.sort();
        assert_eq!(received.shared_headers(), expected, "{path}");
        assert_eq!(format!("http://{}", received.header("host").unwrap()), provider.url);
        assert_eq!((answer.status(), answer.text().as_str()), (200, "{}"));
        assert_eq!(answer.header("pannier-fit"), fit, "{path}");
        assert_eq!(answer.header("pannier-tokens-in"), answer.header("pannier-tokens-sent"));
        let head = ["Content-Length: 2", "Content-Type: application/json"];
        assert_eq!(answer.shared_headers(), head);
    }
}

#[test]
fn long_requests_that_certainly_fit_are_forwarded_before_they_are_counted() {
    let folder = Folder::new("gateway-early");
    let slow = Provider::start(|_, stream| {
        std::thread::sleep(std::time::Duration::from_secs(1));
        let _ = stream.write_all(OK.as_bytes());
    });
    for (provider, is_slow) in [(Provider::always(OK), false), (slow, true)] {
        let mut gateway = Gateway::start(&provider.url, |options| {
            options.budget = 1_000_000;
            options.tokenizer = Some("o200k".to_owned());
            options.state = Some(folder.0.clone());
        });
        for words in 400..404 {
            let body = session(30, words);
            let answer = gateway.post("/v1/messages", "", &body);
            assert!(body.len() > 64 << 10);
            assert_eq!(provider.received().body, body.as_bytes());
            assert_eq!(answer.header("pannier-fit"), Some("unchanged"));
            // A provider that works for some time leaves the time to count.
            assert!(!is_slow || answer.header("pannier-tokens-in").is_some(), "{:?}", answer.head);
        }
        // What is counted after the response is recorded before the gateway ends.
        gateway.stop();
        let sessions = std::fs::read_dir(folder.0.join("sessions")).unwrap();
        let lines = sessions.map(|file| {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            text.lines().filter(|line| line.contains("\"fit\":\"unchanged\"")).count()
        });
        assert_eq!(lines.sum::<usize>(), if is_slow { 8 } else { 4 });
    }
}

#[test]
fn long_sessions_are_fitted_and_keep_their_prefix() {
    let provider = Provider::always(OK);
    let gateway = Gateway::start(&provider.url, |_| {});
    let (mut previous, mut edits) = (String::new(), 0);
    for turns in 1..40 {
        let body = session(turns, 40);
        let answer = gateway.post("/v1/messages", "", &body);
        let sent = provider.received().text();
        let tokens: i64 = answer.header("pannier-tokens-sent").unwrap().parse().unwrap();
        assert!(tokens <= 3_900, "{turns}: {tokens}");
        match answer.header("pannier-fit").unwrap() {
            "unchanged" => assert_eq!(sent, body),
            fit => assert_eq!(fit, "fitted"),
        }
        // Without the final `]}`, the previous request is the beginning of this one, unless a batch was cut.
        edits += usize::from(!sent.starts_with(previous.trim_end_matches("]}")));
        previous = sent;
    }
    assert!((1..=8).contains(&edits), "{edits} edits of the prefix");
    assert!(previous.contains("Fix the build."));
    assert!(previous.contains(" left out") && !previous.contains("recall"), "{previous}");
}

#[test]
fn compressed_bodies_are_decoded_to_decide() {
    let provider = Provider::always(OK);
    let gateway = Gateway::start(&provider.url, |_| {});
    let compress = |text: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let small = compress(&session(2, 10));
    let answer = gateway.post("/v1/messages", "Content-Encoding: gzip\r\n", &small);
    let received = provider.received();
    assert_eq!((received.body, answer.header("pannier-fit")), (small, Some("unchanged")));
    let long = compress(&session(40, 40));
    let answer = gateway.post("/v1/messages", "Content-Encoding: gzip\r\n", &long);
    let received = provider.received();
    assert_eq!(
        (received.header("content-encoding"), answer.header("pannier-fit")),
        (None, Some("fitted"))
    );
    assert!(received.text().starts_with("{\"model\":\"claude-x\""), "{:.60}", received.text());
    let unknown = gateway.post("/v1/messages", "Content-Encoding: br\r\n", "x");
    assert_eq!(unknown.header("pannier-fit"), Some("failed"));
    assert_eq!(provider.received().header("content-encoding"), Some("br"));
    // What cannot be decoded cannot be counted.
    let strict = Gateway::start(&provider.url, |options| {
        (options.is_strict, options.max_body_bytes) = (true, 4_000);
    });
    let gzip = "Content-Encoding: gzip\r\n";
    for (headers, body, status) in [
        ("Content-Encoding: br\r\n", &b"x"[..], 422),
        ("Content-Encoding: gzip, gzip\r\n", &compress(&session(2, 10)), 422),
        ("Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n", &compress("{}"), 422),
        (gzip, &compress(&session(2, 10))[..50], 422),
        (gzip, &compress(&" ".repeat(5_000)), 413),
    ] {
        let answer = strict.post("/v1/messages", headers, body);
        assert_eq!(answer.status(), status, "{headers}: {}", answer.text());
        assert_eq!(answer.header("pannier-fit"), Some("failed"));
    }
    assert!(provider.received_nothing());
}

#[test]
fn a_result_without_its_call_is_inside_the_budget() {
    let provider = Provider::always(OK);
    let gateway = Gateway::start(&provider.url, |options| options.is_strict = true);
    let text = "word ".repeat(200_000);
    let orphan = format!(r#"{{"type":"tool_result","tool_use_id":"x","content":"{text}"}}"#);
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":[{orphan},{{"type":"text","text":"Hi"}}]}}]}}"#
    );
    let answer = gateway.post("/v1/messages", "", body);
    assert_eq!((answer.status(), answer.header("pannier-fit")), (413, Some("over-budget")));
    assert!(provider.received_nothing());
}

#[test]
fn pages_of_other_hosts_are_refused() {
    let provider = Provider::always(OK);
    let gateway = Gateway::start(&provider.url, |_| {});
    for (origin, status) in [
        ("https://evil.example", 403),
        ("null", 403),
        ("http://localhost:3000", 200),
        ("app://notes", 200),
    ] {
        for path in ["/v1/messages", "/v1/files"] {
            let answer = gateway.post(path, &format!("Origin: {origin}\r\n"), session(1, 5));
            assert_eq!(answer.status(), status, "{origin}");
        }
    }
}

#[test]
fn keys_go_to_the_provider_that_their_headers_name() {
    let (anthropic, openai) = (Provider::always(OK), Provider::always(OK));
    let urls = [format!("anthropic={}", anthropic.url), format!("openai={}", openai.url)];
    let gateway = Gateway::start(&anthropic.url, |options| {
        let urls = urls.each_ref().map(String::as_str);
        options.upstreams = pannier_gateway::Upstreams::parse(urls).unwrap();
    });
    let get = |path: &str, headers: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
        gateway.exchange(head.as_bytes())
    };
    let (own, other) =
        ("Authorization: Bearer sk-ant-own\r\n", "Authorization: Bearer sk-other\r\n");
    let key = "X-Api-Key: k\r\n";
    for (headers, to_anthropic) in [
        (key.to_owned(), true),
        (own.to_owned(), true),
        ("Anthropic-Beta: files\r\n".to_owned(), true),
        (format!("{key}{own}"), true),
        (other.to_owned(), false),
    ] {
        assert_eq!(get("/v1/models", &headers).status(), 200, "{headers}");
        let (expected, rest) =
            if to_anthropic { (&anthropic, &openai) } else { (&openai, &anthropic) };
        assert_eq!(expected.received().head[0], "GET /v1/models HTTP/1.1");
        assert!(rest.received_nothing(), "{headers}");
    }
    for (headers, status) in [(format!("{key}{other}"), 400), (String::new(), 404)] {
        let answer = get("/v1/models", &headers);
        assert_eq!(answer.status(), status, "{}", answer.text());
        assert_eq!(answer.header("pannier-fit"), Some("refused"));
    }
    assert!(anthropic.received_nothing() && openai.received_nothing());
}

#[test]
fn responses_stream_through_part_by_part() {
    let (go_on, wait) = channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let provider = Provider::start(move |_, stream| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        for event in ["data: 1\n\n", "data: 2\n\n", "data: \u{e9}\n\n"] {
            stream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).unwrap();
            // The next event is sent only after the client has this one.
            wait.lock().unwrap().recv().unwrap();
        }
        stream.write_all(b"0\r\nX-Sum: 3\r\n\r\n").unwrap();
    });
    let gateway = Gateway::start(&provider.url, |_| {});
    let mut stream = gateway.connect();
    stream.write_all(&post("/v1/messages", "TE: trailers\r\n", session(1, 5))).unwrap();
    let mut reader = BufReader::new(stream);
    let mut text = String::new();
    for event in ["data: 1", "data: 2", "data: \u{e9}"] {
        while !text.contains(event) {
            assert!(reader.read_line(&mut text).unwrap() > 0, "{text}");
        }
        go_on.send(()).unwrap();
    }
    reader.read_to_string(&mut text).unwrap();
    assert!(text.to_lowercase().contains("x-sum: 3"), "trailers: {text}");
}

#[test]
fn statuses_and_redirects_are_passed_on() {
    for response in [
        "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 5\r\n\r\nlater",
        "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 4\r\n\r\noops",
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 204 No Content\r\nX-Empty: yes\r\n\r\n",
    ] {
        let provider = Provider::always(response);
        let gateway = Gateway::start(&provider.url, |_| {});
        let answer = gateway.post("/v1/messages", "", session(1, 5));
        let mut sent = response.as_bytes();
        let sent = super::support::Message::read(&mut sent).unwrap();
        assert_eq!(answer.status(), sent.status());
        assert_eq!(answer.body, sent.body);
        assert_eq!(answer.shared_headers(), sent.shared_headers());
    }
}

#[test]
fn requests_that_cannot_fit_are_forwarded_or_refused() {
    let provider = Provider::always(OK);
    let body = session(3, 40);
    let lenient = Gateway::start(&provider.url, |options| options.budget = 130);
    let answer = lenient.post("/v1/messages", "", &body);
    assert_eq!((answer.status(), answer.header("pannier-fit")), (200, Some("over-budget")));
    assert_eq!(provider.received().text(), body);
    let strict = |budget| {
        Gateway::start(&provider.url, move |options| {
            (options.budget, options.is_strict) = (budget, true);
        })
    };
    let answer = strict(130).post("/v1/messages", "", &body);
    assert_eq!((answer.status(), answer.header("pannier-fit")), (413, Some("over-budget")));
    let text = answer.text();
    let (_, smallest) = text.split_once("--budget ").unwrap();
    let smallest = smallest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
    let answer = strict(smallest).post("/v1/messages", "", &body);
    assert_eq!((answer.status(), answer.header("pannier-fit")), (200, Some("fitted")));
    let sent = provider.received().text();
    assert!(sent.len() < body.len());
    assert_eq!(strict(4_000).post("/v1/messages", "", "{").status(), 422);
    assert!(provider.received_nothing());
}
