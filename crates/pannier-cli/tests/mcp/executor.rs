//! Concurrent, slow and cancelled calls.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::server::Fixture;

/// A call that runs long enough to overlap with others.
pub(crate) fn slow() -> Value {
    let items: Vec<Value> = (0..500)
        .map(|number| {
            let tokens = 50 + number * 7919 % 997;
            json!({ "content": format!("item {number}"), "tokens": tokens, "futureRelevanceHint": f64::from(number % 101) / 101.0 })
        })
        .collect();
    let explain = ["#7", "#11"];
    let policy = json!({ "scorers": [{ "type": "reflexive", "weight": 1.0 }], "slicer": "knapsack", "bucket_size": 1 });
    let arguments =
        json!({ "items": items, "budget": 100_000, "policy": policy, "explain": explain });
    json!({ "name": "select_context", "arguments": arguments })
}

fn fast() -> Value {
    json!({ "name": "resolve_context", "arguments": { "query": "deploy", "budget": 50 } })
}

#[test]
fn slow_calls_do_not_block_fast_ones() {
    let fixture = Fixture::new("slow");
    let mut client = fixture.serve();
    let slow = client.send("tools/call", slow());
    let fast = client.send("tools/call", fast());
    // By order, not by time: the second request is answered first.
    assert_eq!(client.answer()["id"], fast);
    let answer = client.answer();
    assert_eq!(answer["id"], slow);
    assert_eq!(answer["result"]["isError"], false, "{}", answer["result"]["content"][0]["text"]);
}

#[test]
fn timed_out_call_gets_an_error_and_others_are_served() {
    let fixture = Fixture::new("timeout");
    let mut client = fixture.serve_with(&["--timeout", "0.2"]);
    let answer = client.request("tools/call", slow());
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("\"code\":\"timeout\"") && text.contains("0.2 seconds"), "{text}");
    assert_eq!(client.request("tools/call", fast())["result"]["isError"], false);
}

#[test]
fn cancelled_call_gets_no_response() {
    let fixture = Fixture::new("cancel");
    let mut client = fixture.serve();
    client.initialize("2025-11-25");
    let slow = client.send("tools/call", slow());
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": slow } });
    client.write(&cancel.to_string());
    for _ in 0..3 {
        assert_eq!(client.request("tools/call", fast())["result"]["isError"], false);
    }
    // Its id stays reserved: a late response could be attributed to another request.
    let again = json!({ "jsonrpc": "2.0", "id": slow, "method": "ping" });
    client.write(&again.to_string());
    assert_eq!(client.answer()["error"]["code"], -32600);
    let (code, stderr) = client.end();
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
}

#[test]
fn call_cancelled_in_the_queue_records_no_delivery() {
    let fixture = Fixture::new("turn");
    let mut client = fixture.serve_with(&["--jobs", "1"]);
    client.initialize("2025-11-25");
    let mut first = slow();
    first["_meta"] = json!({ "progressToken": 1 });
    let slow = client.send("tools/call", first);
    // It holds the only permit once it reports progress.
    assert_eq!(client.line().unwrap()["method"], "notifications/progress");
    let arguments = json!({ "snippet_ids": ["project/spec/refund-endpoint"], "session": "s" });
    let params = json!({ "name": "get_context", "arguments": arguments });
    let waiting = client.send("tools/call", params.clone());
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": waiting } });
    client.write(&cancel.to_string());
    assert_eq!(client.answer()["id"], slow);
    // A recorded delivery would be listed here.
    let answer = client.request("tools/call", params);
    assert!(answer["result"]["content"][0]["text"].to_string().contains("[SNIPPET: "), "{answer}");
}

#[test]
fn progress_is_monotonic_and_sent_on_request_only() {
    let fixture = Fixture::new("progress");
    let mut client = fixture.serve();
    let mut params = slow();
    params["_meta"] = json!({ "progressToken": "mine" });
    client.request("tools/call", params);
    let notifications = std::mem::take(&mut client.notifications);
    assert!(notifications.len() >= 3, "{notifications:?}");
    let mut last = 0.0;
    for notification in &notifications {
        assert_eq!(notification["method"], "notifications/progress");
        assert_eq!(notification["params"]["progressToken"], "mine");
        let progress = notification["params"]["progress"].as_f64().unwrap();
        assert!(progress > last, "{notifications:?}");
        assert!(!notification["params"]["message"].as_str().unwrap().is_empty());
        last = progress;
    }
    client.request("tools/call", fast());
    assert!(client.notifications.is_empty());
}

#[test]
fn concurrent_calls_get_the_same_output_as_sequential_ones() {
    let fixture = Fixture::new("thousand");
    let calls = [
        fast(),
        json!({ "name": "assemble_context", "arguments": { "query": "roll back", "budget": 60 } }),
        json!({ "name": "get_context", "arguments": { "areas": ["policy"] } }),
        json!({ "name": "get_context", "arguments": { "snippet_ids": ["project/spec/refund-endpoint"] } }),
        json!({ "name": "memory_packet", "arguments": { "now": "2026-03-01" } }),
        json!({ "name": "select_context", "arguments": { "items": [{ "content": "a" }, { "content": "b" }], "budget": 1 } }),
        json!({ "name": "resolve_context", "arguments": { "query": 3 } }),
    ];
    let mut alone = fixture.serve();
    let expected: Vec<Value> = calls
        .iter()
        .map(|call| alone.request("tools/call", call.clone())["result"].clone())
        .collect();
    std::thread::scope(|scope| {
        for start in 0..8 {
            let (fixture, calls, expected) = (&fixture, &calls, &expected);
            scope.spawn(move || {
                let mut client = fixture.serve();
                // All requests first, so that the calls overlap.
                let mut in_flight = BTreeMap::new();
                for number in 0..125 {
                    let which = (start + number) % calls.len();
                    in_flight.insert(client.send("tools/call", calls[which].clone()), which);
                }
                while !in_flight.is_empty() {
                    let answer = client.answer();
                    let which = in_flight.remove(&answer["id"].as_u64().unwrap()).unwrap();
                    assert_eq!(answer["result"], expected[which]);
                }
                assert_eq!(client.end(), (Some(0), String::new()));
            });
        }
    });
}
