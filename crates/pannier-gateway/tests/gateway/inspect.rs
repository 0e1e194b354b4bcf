//! The running sessions on an address of their own.

use std::io::{BufReader, Write};

use pannier_gateway::{GatewayError, GatewayOptions, InspectOptions, Upstreams};
use pannier_server::BearerTokens;
use serde_json::Value;

use super::support::{Folder, Gateway, Message, OK, Provider, free_address, session};

const TOKEN: &str = "0123456789abcdef";

fn get(address: &str, path: &str, headers: &str) -> Message {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    Message::read(&mut BufReader::new(stream)).unwrap()
}

fn read(address: &str, path: &str) -> Value {
    let headers = format!("Host: {address}\r\nAuthorization: Bearer {TOKEN}\r\n");
    let answer = get(address, path, &headers);
    assert_eq!(answer.status(), 200, "{path}: {}", answer.text());
    serde_json::from_slice(&answer.body).unwrap()
}

#[test]
fn sessions_turns_and_receipts_are_shown_without_contents() {
    let provider = Provider::always(OK);
    let folder = Folder::new("gateway-inspect");
    let (state, address) = (folder.0.clone(), free_address());
    let gateway = Gateway::start(&provider.url, |options| {
        let tokens = BearerTokens::parse(TOKEN).unwrap();
        options.inspect = Some(InspectOptions::new(address.parse().unwrap(), tokens));
        options.state = Some(state);
    });
    let mut receipts = Vec::new();
    for turns in 36..40 {
        let answer = gateway.post("/v1/messages", "", session(turns, 40));
        receipts.push(answer.header("pannier-receipt").unwrap().to_owned());
    }
    let list = read(&address, "/v1/sessions");
    let sessions = list["sessions"].as_array().unwrap();
    assert_eq!((sessions.len(), &sessions[0]["requests"]), (1, &4.into()), "{list}");
    assert_eq!(
        (&sessions[0]["protocol"], &sessions[0]["model"]),
        (&"anthropic".into(), &"claude-x".into())
    );
    let id = sessions[0]["id"].as_str().unwrap();
    let detail = read(&address, &format!("/v1/sessions/{id}"));
    let turns = detail["turns"].as_array().unwrap();
    let named: Vec<&str> = turns.iter().map(|turn| turn["receipt"].as_str().unwrap()).collect();
    assert_eq!(named, receipts);
    assert_eq!(turns[0]["fit"], "fitted");
    assert_eq!((&detail["budget"], &detail["prices"]["read"]), (&4_000.into(), &0.1.into()));
    let receipt = read(&address, &format!("/v1/receipts/{}", receipts[0]));
    assert_eq!(receipt["tokens_sent"], turns[0]["tokens_sent"]);
    let cuts = receipt["new_cuts"].as_array().unwrap();
    assert_eq!(turns[0]["cuts"], cuts.len(), "{receipt}");
    assert!(cuts.iter().all(|cut| cut["form"].is_string() && cut["tokens_before"].is_i64()));
    // The name of a receipt is the hash of its text.
    let text = get(
        &address,
        &format!("/v1/receipts/{}", receipts[0]),
        &format!("Host: {address}\r\nAuthorization: Bearer {TOKEN}\r\n"),
    )
    .text();
    let hash = blake3::hash(text.as_bytes()).to_hex();
    assert_eq!(receipts[0], format!("{id}-{}", &hash[..32]));
    for text in [list.to_string(), detail.to_string(), text] {
        for secret in ["key-1", "word1x", "Fix the build", "run 1"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
}

#[test]
fn sessions_need_a_token_and_this_host() {
    let provider = Provider::always(OK);
    let address = free_address();
    let _gateway = Gateway::start(&provider.url, |options| {
        let tokens = BearerTokens::parse(TOKEN).unwrap();
        options.inspect = Some(InspectOptions::new(address.parse().unwrap(), tokens));
    });
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    for (headers, status) in [
        (format!("Host: {address}\r\n{token}"), 200),
        (format!("Host: localhost\r\n{token}Origin: http://localhost:8000\r\n"), 200),
        (format!("Host: {address}\r\n"), 401),
        (format!("Host: {address}\r\nAuthorization: Bearer wrong-wrong-wrong\r\n"), 401),
        (format!("Host: evil.example\r\n{token}"), 403),
        (format!("Host: {address}\r\n{token}Origin: https://evil.example\r\n"), 403),
        (token.clone(), 403),
    ] {
        let answer = get(&address, "/v1/sessions", &headers);
        assert_eq!(answer.status(), status, "{headers}: {}", answer.text());
    }
    let headers = format!("Host: {address}\r\n{token}");
    for path in
        ["/index.html", "/v1/sessions/none", "/v1/receipts/none", "/v1/receipts/..%2fsecret-x"]
    {
        assert_eq!(get(&address, path, &headers).status(), 404, "{path}");
    }
}

#[cfg(feature = "inspector")]
#[test]
fn the_page_has_no_data_and_needs_this_host() {
    let provider = Provider::always(OK);
    let address = free_address();
    let gateway = Gateway::start(&provider.url, |options| {
        let tokens = BearerTokens::parse(TOKEN).unwrap();
        options.inspect = Some(InspectOptions::new(address.parse().unwrap(), tokens));
    });
    let page = || get(&address, "/", &format!("Host: {address}\r\n"));
    let before = page();
    assert_eq!(before.status(), 200);
    assert!(before.text().contains(r#"id="data">{"files":[],"live":"gateway"}</script>"#));
    assert_eq!(before.header("x-frame-options"), Some("DENY"));
    gateway.post("/v1/messages", "", session(3, 40));
    assert_eq!(page().body, before.body, "a session changes nothing in it");
    for headers in [
        "Host: evil.example\r\n".to_owned(),
        format!("Host: {address}\r\nOrigin: https://evil.example\r\n"),
    ] {
        assert_eq!(get(&address, "/", &headers).status(), 403, "{headers}");
    }
}

#[test]
fn sessions_are_not_shown_to_others() {
    let options = |address: &str, tokens| {
        let upstreams = Upstreams::parse(["http://localhost:1"]).unwrap();
        let mut options = GatewayOptions::new("0".parse().unwrap(), upstreams, 1_000);
        options.inspect = Some(InspectOptions::new(address.parse().unwrap(), tokens));
        options
    };
    let error = pannier_gateway::serve(&options("0", BearerTokens::default()), |_| {});
    assert!(matches!(error, Err(GatewayError::InspectWithoutToken)));
    let tokens = BearerTokens::parse(TOKEN).unwrap();
    let error = pannier_gateway::serve(&options("0.0.0.0:0", tokens), |_| {});
    assert!(matches!(error, Err(GatewayError::Open { .. })));
}
