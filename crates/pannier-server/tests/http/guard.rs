//! Hosts, origins, tokens and content types.

use pannier_server::BearerTokens;

use super::server::{PING, Server};

#[test]
fn requests_need_one_allowed_host() {
    let server = Server::start(Default::default(), |options| {
        options.hosts = vec!["box.example".to_owned()];
    });
    for (headers, status) in [
        ("", 200),
        ("Host: localhost\r\n", 200),
        ("Host: box.example:99\r\n", 200),
        ("Host: evil.example\r\n", 403),
        ("Host: 127.0.0.1.evil.example\r\n", 403),
        ("Host: localhost\r\nHost: localhost\r\n", 400),
        ("Host: localhost\r\nHost: evil.example\r\n", 400),
        ("Origin: http://localhost:1234\r\n", 200),
        ("Origin: https://evil.example\r\n", 403),
        ("Origin: null\r\n", 403),
        ("Host: box.example:99\r\nOrigin: http://box.example:99\r\n", 200),
        ("Host: box.example:99\r\nOrigin: http://box.example:98\r\n", 403),
        ("Host: evil.example\r\nOrigin: http://evil.example\r\n", 403),
    ] {
        for (path, body) in [("/mcp", PING), ("/v1/count", r#"{"texts":["x"]}"#)] {
            let response = server.post(path, headers, body);
            assert_eq!(response.status, status, "{path} {headers}: {}", response.body);
        }
    }
    let no_host = b"POST /mcp HTTP/1.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    assert_eq!(server.exchange(no_host).status, 400);
    // Probes come under any name.
    assert_eq!(server.get("/healthz", "Host: 10.1.2.3\r\n").status, 200);
}

#[test]
fn everything_but_probes_and_the_page_needs_a_token() {
    let server = Server::start(Default::default(), |options| {
        let tokens = "ci 0123456789abcdef\nfedcba9876543210\n";
        options.tokens = BearerTokens::parse(tokens).unwrap();
    });
    let authorization = |token: &str| format!("Authorization: Bearer {token}\r\n");
    for token in ["0123456789abcdef", "fedcba9876543210"] {
        let headers = authorization(token);
        assert_eq!(server.post("/mcp", &headers, PING).status, 200);
        assert_eq!(server.get("/metrics", &headers).status, 200);
    }
    for headers in ["", &authorization("wrong"), "Authorization: Basic 0123456789abcdef\r\n"] {
        for path in ["/mcp", "/v1/count", "/nothing"] {
            let response = server.post(path, headers, "{}");
            assert_eq!(response.status, 401, "{path} {headers}");
            assert!(response.head.contains("www-authenticate: bearer"));
        }
        for path in ["/metrics", "/v1/openapi.json", "/v1", "/v1/", "//", "/index.html"] {
            assert_eq!(server.get(path, headers).status, 401, "{path} {headers}");
        }
        for path in ["/healthz", "/readyz"] {
            assert_eq!(server.get(path, headers).status, 200, "{path}");
        }
    }
}

#[test]
fn posts_are_json() {
    let server = Server::start(Default::default(), |_| {});
    for (kind, status) in [
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("application/jsonp", 415),
        ("", 415),
    ] {
        let headers = format!("Content-Type: {kind}\r\n");
        for (path, body) in [("/mcp", PING), ("/v1/count", r#"{"texts":["x"]}"#)] {
            assert_eq!(server.post(path, &headers, body).status, status, "{path} {kind}");
        }
    }
}

#[test]
fn compressed_bodies_and_wrong_methods_get_a_reason() {
    let server = Server::start(Default::default(), |_| {});
    let body = r#"{"texts":["x"]}"#;
    for (encoding, status) in [("identity", 200), ("gzip", 415), ("\u{e9}", 415)] {
        let headers = format!("Content-Encoding: {encoding}\r\n");
        let response = server.post("/v1/count", &headers, body);
        assert_eq!(response.status, status, "{encoding}");
        assert!(status == 200 || response.body.contains("Content-Encoding"), "{}", response.body);
    }
    let wrong = server.get("/v1/count", "");
    assert_eq!(wrong.status, 405);
    assert!(wrong.head.contains("allow: post"), "{}", wrong.head);
    assert!(wrong.body.contains("the path does not take GET"), "{}", wrong.body);
    let wrong = server.post("/metrics", "", body);
    assert_eq!((wrong.status, wrong.head.contains("allow: get,head")), (405, true));
}

#[test]
fn allowed_hosts_are_names() {
    let server = Server::start(Default::default(), |options| {
        for host in ["Box.example", "other.example:80", "[::2]:80"] {
            options.allow_host(host).unwrap();
        }
        for wrong in ["", "a b", "*", "https://x", "a@b", "x/y", "é.example"] {
            assert!(options.allow_host(wrong).is_err(), "{wrong}");
        }
    });
    let get = |host: &str| {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        server.exchange(request.as_bytes()).status
    };
    assert_eq!((get("box.example:1"), get("other.example:80"), get("[::2]:80")), (200, 200, 200));
    assert_eq!((get("other.example:81"), get("third.example")), (403, 403));
}

#[test]
fn cors_is_off_unless_origins_are_named() {
    let preflight = "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type\r\n";
    let options = |server: &Server| {
        let request = format!(
            "OPTIONS /v1/count HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{preflight}\r\n"
        );
        server.exchange(request.as_bytes())
    };
    let off = Server::start(Default::default(), |_| {});
    assert!(!options(&off).head.contains("access-control"));
    let on = Server::start(Default::default(), |options| {
        options.allow_origin("https://app.example/").unwrap();
        for wrong in ["app.example", "ftp://x", "https://a@b", "https://x/y", "*", ""] {
            assert!(options.allow_origin(wrong).is_err(), "{wrong}");
        }
        options.tokens = BearerTokens::parse("0123456789abcdef").unwrap();
    });
    let allowed = "access-control-allow-origin: https://app.example";
    assert!(options(&on).head.contains(allowed), "{}", options(&on).head);
    let headers = "Origin: https://app.example\r\nAuthorization: Bearer 0123456789abcdef\r\n";
    let response = on.post("/v1/count", headers, r#"{"texts":["x"]}"#);
    assert_eq!(response.status, 200);
    assert!(response.head.contains(allowed));
    let foreign = headers.replace("app", "other");
    assert_eq!(on.post("/v1/count", &foreign, "{}").status, 403);
}
