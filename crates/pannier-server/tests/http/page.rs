//! The inspector page.

use pannier_server::BearerTokens;

use crate::server::{Server, config, folder};

#[test]
fn the_page_is_served_without_data_and_for_this_host_only() {
    let server = Server::start(Default::default(), |_| {});
    let response = server.get("/", "");
    assert_eq!(response.status, 200);
    let head = response.head.to_lowercase();
    for header in [
        "content-type: text/html; charset=utf-8",
        "content-security-policy: frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "x-frame-options: deny",
    ] {
        assert!(head.contains(header), "{head}");
    }
    assert!(response.body.starts_with("<!doctype html>"));
    assert!(response.body.contains(" connect-src 'self';"));
    let data = r#"id="data">{"files":[],"live":"server"}</script>"#;
    assert!(response.body.contains(data));
    assert_eq!(server.get("/", "Host: evil.example\r\n").status, 403);
    assert_eq!(server.post("/", "", "{}").status, 405);
}

#[test]
fn the_page_needs_no_token_and_has_nothing_of_the_server() {
    let body = |name, tokens: &str| {
        let server = Server::start(config(&folder(name)), |options| {
            options.tokens = BearerTokens::parse(tokens).unwrap();
        });
        assert_eq!(server.get("/", "Origin: https://evil.example\r\n").status, 403);
        let response = server.get("/", "");
        assert_eq!(response.status, 200);
        response.body
    };
    let page = body("page-tokens", "ci 0123456789abcdef\n");
    // It is a constant of the build and does not depend on what is served.
    let server = Server::start(Default::default(), |_| {});
    assert!(page == server.get("/", "").body);
    for name in ["0123456789abcdef", "harbour"] {
        assert!(!page.contains(name), "{name}");
    }
}
