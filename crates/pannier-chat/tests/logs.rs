//! Session logs of agents, and the histories that are read from them.

#![allow(clippy::needless_pass_by_value, reason = "lines are built from temporary values")]

mod support;

use pannier_chat::{LogFormat, Provider, SessionLog, Transcript};
use pannier_tokens::BytesOverFour;
use serde_json::{Value, json};
use support::rules::{self, problems};

/// Reads a log, and checks that the providers' rules hold for every history and every request of it.
fn read(format: LogFormat, text: &str) -> SessionLog {
    assert_eq!(LogFormat::detect(text), Some(format));
    let log = SessionLog::read(format, text).unwrap();
    for history in &log.histories {
        let value: Value = serde_json::from_str(&history.json).unwrap();
        let rules = match log.provider {
            Provider::Anthropic => rules::Provider::Anthropic,
            _ => rules::Provider::Responses,
        };
        assert_eq!(problems(rules, &value), Vec::<String>::new(), "{value:#}");
        let transcript = Transcript::read(log.provider, &history.json, &BytesOverFour).unwrap();
        assert_eq!(transcript.repairs(), []);
        let list = list(&value);
        for request in &history.requests {
            let response = &list[request.position];
            assert!(
                response["role"] == "assistant" || response.get("role").is_none(),
                "{response}"
            );
        }
    }
    log
}

fn list(history: &Value) -> &[Value] {
    let list = history.get("messages").or_else(|| history.get("input"));
    list.unwrap().as_array().unwrap()
}

/// Returns the messages of the last history.
fn messages(log: &SessionLog) -> Vec<Value> {
    let value: Value = serde_json::from_str(&log.histories.last().unwrap().json).unwrap();
    list(&value).to_vec()
}

fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

mod claude_code {
    use pannier_chat::ChatInput;
    use pannier_chat::replay::{BlockReader, RecordedSession};
    use pannier_tokens::BytesOverFour;

    use super::{LogFormat, SessionLog, Value, json, lines, messages, read};

    fn user(uuid: &str, parent: Option<&str>, content: Value) -> Value {
        json!({ "type": "user", "uuid": uuid, "parentUuid": parent, "isSidechain": false,
                "sessionId": "s", "message": { "role": "user", "content": content } })
    }

    fn assistant(uuid: &str, parent: &str, id: &str, block: Value) -> Value {
        json!({ "type": "assistant", "uuid": uuid, "parentUuid": parent, "isSidechain": false, "requestId": "r",
                "message": { "id": id, "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
                    "content": [block], "stop_reason": null,
                    "usage": { "input_tokens": 7, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 300,
                               "output_tokens": 5 } } })
    }

    fn call(id: &str) -> Value {
        json!({ "type": "tool_use", "id": id, "name": "Read", "input": { "path": "a.rs" } })
    }

    fn result(id: &str) -> Value {
        json!({ "type": "tool_result", "tool_use_id": id, "content": format!("output of {id}") })
    }

    fn text(text: &str) -> Value {
        json!({ "type": "text", "text": text })
    }

    #[test]
    fn calls_of_the_user_and_results_of_the_assistant_are_dropped() {
        let log = read(
            LogFormat::ClaudeCode,
            &lines(&[
                user("1", None, json!([{ "type": "text", "text": "Look." }, call("a")])),
                user("2", Some("1"), json!([result("a")])),
                assistant("3", "2", "m1", call("b")),
                assistant("4", "3", "m2", result("b")),
                assistant("5", "4", "m2", json!({ "type": "text", "text": "Done." })),
            ]),
        );
        let text = |text: &str| json!([{ "type": "text", "text": text }]);
        let expected = [("user", text("Look.")), ("assistant", text("Done."))];
        let expected = expected.map(|(role, content)| json!({ "role": role, "content": content }));
        assert_eq!(messages(&log), expected);
    }

    #[test]
    fn blocks_of_one_message_and_parallel_results_are_merged() {
        // The result of the first call is a sibling of the second call.
        let log = read(
            LogFormat::ClaudeCode,
            &lines(&[
                json!({ "type": "summary", "summary": "A title", "leafUuid": "x" }),
                json!({ "type": "file-history-snapshot", "messageId": "m", "snapshot": {} }),
                user("1", None, json!("Look.")),
                assistant(
                    "2",
                    "1",
                    "m1",
                    json!({ "type": "thinking", "thinking": "hm", "signature": "s" }),
                ),
                assistant("3", "2", "m1", call("a")),
                user("4", Some("3"), json!([result("a")])),
                assistant("5", "3", "m1", call("b")),
                user("6", Some("5"), json!([result("b"), text("And now?")])),
                assistant("7", "6", "m2", text("Done.")),
            ]),
        );
        let thinking = json!({ "type": "thinking", "thinking": "hm", "signature": "s" });
        assert_eq!(
            messages(&log),
            [
                json!({ "role": "user", "content": "Look." }),
                json!({ "role": "assistant", "content": [thinking, call("a"), call("b")] }),
                json!({ "role": "user", "content": [result("a"), result("b"), text("And now?")] }),
                json!({ "role": "assistant", "content": [text("Done.")] }),
            ]
        );
        let history = &log.histories[0];
        assert!(history.json.starts_with(r#"{"model":"claude-sonnet-4-5","messages":["#));
        assert_eq!(history.requests.iter().map(|r| r.position).collect::<Vec<_>>(), [1, 3]);
        let usage = history.requests[1].usage.unwrap();
        assert_eq!(
            [
                usage.input_tokens,
                usage.cache_write_tokens,
                usage.cache_read_tokens,
                usage.output_tokens
            ],
            [7, 20, 300, 5]
        );
    }

    #[test]
    fn side_chains_notes_and_errors_are_skipped() {
        let mark = |mut line: Value, name: &str| {
            line[name] = json!(true);
            line
        };
        let log = read(
            LogFormat::ClaudeCode,
            &lines(&[
                user("1", None, json!("Look.")),
                mark(user("2", Some("1"), json!("caveat")), "isMeta"),
                mark(user("s", None, json!("a subagent's task")), "isSidechain"),
                mark(assistant("e", "2", "m0", text("API Error: overloaded")), "isApiErrorMessage"),
                json!({ "type": "progress", "uuid": "p", "parentUuid": "e" }),
                json!({ "type": "a new type", "data": [1] }),
                assistant("3", "p", "m1", text("Done.")),
                assistant("4", "3", "m2", text("  \n")),
            ]),
        );
        assert_eq!(
            messages(&log),
            [
                json!({ "role": "user", "content": "Look." }),
                json!({ "role": "assistant", "content": [text("Done.")] })
            ]
        );
    }

    #[test]
    fn the_log_of_a_subagent_is_a_side_chain() {
        let mut log = [user("1", None, json!("Look.")), assistant("2", "1", "m1", text("Done."))];
        log.iter_mut().for_each(|line| line["isSidechain"] = json!(true));
        assert_eq!(messages(&read(LogFormat::ClaudeCode, &lines(&log))).len(), 2);
    }

    #[test]
    fn unpaired_calls_and_results_are_dropped() {
        let log = read(
            LogFormat::ClaudeCode,
            &lines(&[
                assistant("0", "none", "m0", text("A leading message")),
                user("1", Some("0"), json!("Look.")),
                assistant("2", "1", "m1", call("interrupted")),
                user("3", Some("2"), json!([text("[Request interrupted by user]")])),
                user("4", Some("3"), json!([result("unknown"), text("Again.")])),
                assistant("5", "4", "m2", call("a")),
                user("6", Some("5"), json!([result("a")])),
                user("7", Some("6"), json!([result("a")])),
                assistant("8", "7", "m3", call("running")),
            ]),
        );
        assert_eq!(
            messages(&log),
            [
                json!({ "role": "user", "content": [text("Look."), text("[Request interrupted by user]"), text("Again.")] }),
                json!({ "role": "assistant", "content": [call("a")] }),
                json!({ "role": "user", "content": [result("a")] }),
            ]
        );
    }

    #[test]
    fn the_branch_of_the_last_line_is_followed() {
        let log = read(
            LogFormat::ClaudeCode,
            &lines(&[
                user("1", None, json!("Look.")),
                assistant("2", "1", "m1", text("Where?")),
                user("3", Some("2"), json!("In the wrong place.")),
                assistant("4", "3", "m2", text("It is not there.")),
                user("5", Some("2"), json!("In the right place.")),
                assistant("6", "5", "m3", text("Found.")),
            ]),
        );
        let contents: Vec<Value> =
            messages(&log).into_iter().map(|m| m["content"].clone()).collect();
        assert_eq!(
            contents,
            [
                json!("Look."),
                json!([text("Where?")]),
                json!("In the right place."),
                json!([text("Found.")])
            ]
        );
    }

    #[test]
    fn a_compact_boundary_starts_a_history() {
        let mut summary = user("4", Some("3"), json!("This session continues another."));
        summary["isCompactSummary"] = json!(true);
        let log = read(
            LogFormat::ClaudeCode,
            &lines(&[
                user("1", None, json!("Look.")),
                assistant("2", "1", "m1", text("Done.")),
                json!({ "type": "system", "subtype": "compact_boundary", "uuid": "3", "parentUuid": null,
                        "logicalParentUuid": "2", "content": "Conversation compacted" }),
                summary,
                assistant("5", "4", "m2", text("Continuing.")),
            ]),
        );
        assert_eq!(log.histories.len(), 2);
        assert_eq!(messages(&log)[0]["content"], "This session continues another.");
    }

    #[test]
    fn comments_and_broken_lines_are_skipped() {
        let whole =
            lines(&[user("1", None, json!("Look.")), assistant("2", "1", "m1", text("Done."))]);
        let cut = format!("\u{feff}// recorded by hand\n\n{whole}not json\n{}", &whole[..40]);
        let log = read(LogFormat::ClaudeCode, &cut);
        assert_eq!((messages(&log).len(), log.skipped_lines), (2, 2));
    }

    #[test]
    fn the_first_prompt_is_a_request_and_only_a_replay_needs_a_response() {
        let log = lines(&[user("1", None, json!("Look."))]);
        let input = ChatInput::open(&log, None, None).unwrap();
        assert_eq!(input.read(&BytesOverFour).unwrap().items().len(), 1);
        let mut reader = BlockReader::new(&BytesOverFour);
        let error = RecordedSession::read("log", &log, &mut reader).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is nothing to send: the claude-code log has no request with a response"
        );
        let log =
            lines(&[json!({ "type": "user", "isMeta": true, "message": { "content": "x" } })]);
        let error = SessionLog::read(LogFormat::ClaudeCode, &log).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is nothing to send: the claude-code log has no message"
        );
    }
}

mod codex {
    use super::{LogFormat, SessionLog, Value, json, lines, messages, read};

    fn line(kind: &str, payload: Value) -> Value {
        json!({ "timestamp": "2026-01-01T00:00:00Z", "type": kind, "payload": payload })
    }

    fn item(payload: Value) -> Value {
        line("response_item", payload)
    }

    fn message(role: &str, text: &str) -> Value {
        let kind = if role == "assistant" { "output_text" } else { "input_text" };
        json!({ "type": "message", "role": role, "content": [{ "type": kind, "text": text }] })
    }

    fn call(id: &str) -> Value {
        json!({ "type": "function_call", "name": "shell", "arguments": "{}", "call_id": id })
    }

    fn output(id: &str) -> Value {
        json!({ "type": "function_call_output", "call_id": id, "output": "ok" })
    }

    fn reasoning(id: &str) -> Value {
        json!({ "type": "reasoning", "id": id, "summary": [], "encrypted_content": "gAAAA" })
    }

    fn usage(input: i64, cached: i64) -> Value {
        let usage =
            json!({ "input_tokens": input, "cached_input_tokens": cached, "output_tokens": 9 });
        line("event_msg", json!({ "type": "token_count", "info": { "last_token_usage": usage } }))
    }

    fn session() -> Vec<Value> {
        vec![
            line(
                "session_meta",
                json!({ "id": "s", "base_instructions": { "text": "Be brief." } }),
            ),
            item(message("user", "<environment_context>linux</environment_context>")),
            line("turn_context", json!({ "model": "gpt-5-codex", "cwd": "/" })),
            line("event_msg", json!({ "type": "user_message", "message": "Look." })),
            item(message("user", "Look.")),
            item(reasoning("rs_1")),
            item(call("a")),
            item(call("b")),
            usage(100, 0),
            item(output("a")),
            item(output("b")),
            item(reasoning("rs_2")),
            item(message("assistant", "Done.")),
            line("event_msg", json!({ "type": "agent_message", "message": "Done." })),
            usage(150, 96),
        ]
    }

    #[test]
    fn envelopes_are_opened_and_events_are_skipped() {
        let log = read(LogFormat::Codex, &lines(&session()));
        assert_eq!(
            messages(&log),
            [
                message("user", "<environment_context>linux</environment_context>"),
                message("user", "Look."),
                reasoning("rs_1"),
                call("a"),
                call("b"),
                output("a"),
                output("b"),
                reasoning("rs_2"),
                message("assistant", "Done."),
            ]
        );
        let history = &log.histories[0];
        assert!(
            history
                .json
                .starts_with(r#"{"model":"gpt-5-codex","instructions":"Be brief.","input":["#)
        );
        let requests: Vec<_> = history
            .requests
            .iter()
            .map(|request| {
                let usage = request.usage.unwrap();
                (request.position, usage.input_tokens, usage.cache_read_tokens, usage.output_tokens)
            })
            .collect();
        assert_eq!(requests, [(2, 100, 0, 9), (7, 54, 96, 9)]);
    }

    #[test]
    fn bare_items_are_read() {
        let log = lines(&[
            json!({ "id": "s", "timestamp": "2025-05-01", "instructions": null }),
            message("user", "Look."),
            json!({ "record_type": "state" }),
            call("a"),
            output("a"),
        ]);
        let log = SessionLog::read(LogFormat::Codex, &log).unwrap();
        assert_eq!(messages(&log), [message("user", "Look."), call("a"), output("a")]);
    }

    #[test]
    fn unpaired_items_are_dropped() {
        let mut session = session();
        session.extend([
            item(message("user", "Again.")),
            item(output("unknown")),
            item(reasoning("rs_3")),
            item(call("interrupted")),
            item(json!({ "type": "ghost_snapshot", "ghost_commit": {} })),
        ]);
        let log = read(LogFormat::Codex, &lines(&session));
        assert_eq!(messages(&log)[9..], [message("user", "Again.")]);
    }

    #[test]
    fn a_compaction_starts_a_history() {
        let mut session = session();
        session.extend([
            line("compacted", json!({ "message": "The user wants to look." })),
            item(message("user", "Again.")),
            item(message("assistant", "Done again.")),
            line("compacted", json!({ "message": "", "replacement_history": [message("user", "Look."), message("assistant", "x")] })),
            item(message("user", "Once more.")),
            item(message("assistant", "Done.")),
        ]);
        let log = read(LogFormat::Codex, &lines(&session));
        assert_eq!(log.histories.len(), 3);
        assert!(
            log.histories[1].json.contains(
                r#"{"type":"message","role":"user","content":"The user wants to look."}"#
            )
        );
        assert_eq!(messages(&log)[0], message("user", "Look."));
        assert_eq!(log.histories[2].requests[0].position, 3);
    }

    #[test]
    fn the_parents_copy_is_not_part_of_a_subagent() {
        let numbered = |(ordinal, mut line): (usize, Value)| {
            line["ordinal"] = json!(ordinal);
            line
        };
        let mut session =
            vec![line("session_meta", json!({ "id": "s", "subagent_history_start_ordinal": 3 }))];
        session.extend(
            ["The parent's task", "Its second", "The subagent's task"]
                .map(|text| item(message("user", text))),
        );
        session.push(item(message("assistant", "Done.")));
        let session: Vec<Value> = session.into_iter().enumerate().map(numbered).collect();
        let log = read(LogFormat::Codex, &lines(&session));
        assert_eq!(
            messages(&log),
            [message("user", "The subagent's task"), message("assistant", "Done.")]
        );
    }
}
