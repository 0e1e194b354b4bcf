//! Sessions: prefixes, receipts, users and restarts.

use std::io::Write;

use super::support::{Folder, Gateway, OK, Provider, free_address, post_as, session};
use super::usage::metrics;

fn number(answer: &super::support::Message, name: &str) -> i64 {
    answer.header(name).unwrap().parse().unwrap()
}

#[test]
fn prefixes_are_those_of_the_last_request() {
    let provider = Provider::always(OK);
    let gateway = Gateway::start(&provider.url, |_| {});
    let (mut previous, mut tokens, mut edits) = (String::new(), 0, 0);
    for turns in 1..40 {
        let answer = gateway.post("/v1/messages", "", session(turns, 40));
        let sent = provider.received().text();
        let prefix = number(&answer, "pannier-tokens-prefix");
        match sent.starts_with(previous.trim_end_matches("]}")) {
            // The start of the response is not a part of the next request.
            true => assert_eq!(prefix, if turns == 1 { 0 } else { tokens - 3 }, "{turns}"),
            false => {
                edits += 1;
                assert!(prefix < tokens - 3, "{turns}: {prefix} of {tokens}");
            }
        }
        (previous, tokens) = (sent, number(&answer, "pannier-tokens-sent"));
    }
    assert!((1..=8).contains(&edits), "{edits}");
    // The same request again, with another model, and as a history that the client has changed.
    let body = session(39, 40);
    let again = gateway.post("/v1/messages", "", &body);
    assert_eq!(number(&again, "pannier-tokens-prefix"), tokens - 3);
    let other = gateway.post("/v1/messages", "", body.replace("claude-x", "claude-y"));
    assert_eq!(number(&other, "pannier-tokens-prefix"), 0);
    let edited = gateway.post("/v1/messages", "", body.replace("Fix the", "Mend the"));
    assert_eq!(number(&edited, "pannier-tokens-prefix"), 0);
}

#[test]
fn requests_that_are_only_counted_or_refused_are_not_recorded() {
    let provider = Provider::start(|message, stream| {
        let is_refused = message.text().contains("\"model\" : \"busy\"");
        let answer = match is_refused {
            true => "HTTP/1.1 429 Slow\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
            false => OK,
        };
        let _ = stream.write_all(answer.as_bytes());
    });
    let address = free_address();
    let gateway = Gateway::start(&provider.url, |options| {
        options.metrics = Some(address.parse().unwrap());
    });
    let body = session(5, 20);
    let busy = body.replace("claude-x", "busy");
    for (path, body, status) in [
        ("/v1/messages/count_tokens", &body, 200),
        ("/v1/messages", &busy, 429),
        ("/v1/messages", &busy, 429),
    ] {
        let answer = gateway.post(path, "", body);
        assert_eq!(answer.status(), status);
        assert!(number(&answer, "pannier-tokens-in") > 0);
        assert_eq!(answer.header("pannier-tokens-prefix"), None);
        assert_eq!(answer.header("pannier-receipt"), None);
    }
    let first = gateway.post("/v1/messages", "", &body);
    assert_eq!(number(&first, "pannier-tokens-prefix"), 0);
    let tokens = number(&first, "pannier-tokens-in");
    let second = gateway.post("/v1/messages", "", &body);
    assert_eq!(number(&second, "pannier-tokens-prefix"), tokens - 3);
    let expected = format!("pannier_gateway_tokens_in_total {}", 2 * tokens);
    let is_counted = || metrics(&address).lines().any(|line| line == expected);
    // A response may be read before it is counted.
    let polls = (0..2_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        is_counted()
    });
    assert!(polls, "{expected} is not in\n{}", metrics(&address));
}

#[test]
fn users_with_identical_requests_share_nothing() {
    let provider = Provider::always(OK);
    let gateway = Gateway::start(&provider.url, |_| {});
    let mut receipts = Vec::new();
    for turns in [5, 6, 7] {
        for (key, headers) in
            [("key-1", ""), ("key-2", ""), ("key-1", "Pannier-Session: b\r\n"), ("", "")]
        {
            let body = session(turns, 20);
            let answer = gateway.exchange(&post_as(key, "/v1/messages", headers, &body));
            let prefix = number(&answer, "pannier-tokens-prefix");
            // Each has a session of its own, which begins with its own first request.
            assert_eq!(prefix > 0, turns > 5, "{key} {headers}");
            let (session, _) = answer.header("pannier-receipt").unwrap().split_once('-').unwrap();
            receipts.push(session.to_owned());
        }
    }
    let (first, rest) = receipts.split_at(4);
    assert!(rest.chunks(4).all(|sessions| sessions == first));
    let distinct: std::collections::BTreeSet<_> = first.iter().collect();
    assert_eq!(distinct.len(), 4);
}

#[test]
fn a_restart_between_any_two_requests_keeps_the_prefix() {
    let provider = Provider::always(OK);
    let folder = Folder::new("gateway-restart");
    let state = folder.0.clone();
    let start = || Gateway::start(&provider.url, |options| options.state = Some(state.clone()));
    let steady = Gateway::start(&provider.url, |_| {});
    for turns in 1..30 {
        let body = session(turns, 40);
        let expected = steady.post("/v1/messages", "", &body);
        let steady_sent = provider.received().text();
        let answer = start().post("/v1/messages", "", &body);
        assert!(provider.received().text() == steady_sent, "{turns}");
        for name in ["pannier-fit", "pannier-tokens-sent", "pannier-tokens-prefix"] {
            assert_eq!(answer.header(name), expected.header(name), "{turns}: {name}");
        }
    }
    // No content and no key is in the folder.
    let files = std::fs::read_dir(state.join("sessions")).unwrap();
    for file in files.map(|entry| entry.unwrap().path()) {
        let text = std::fs::read_to_string(file).unwrap();
        assert_eq!(text.lines().count(), 29);
        for secret in ["key-1", "Fix the build", "word1x", "run 1"] {
            assert!(!text.contains(secret), "{secret}");
        }
    }
}
