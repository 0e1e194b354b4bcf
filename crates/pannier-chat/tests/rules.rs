//! Tests of the oracle itself: hand-written transcripts for every rule, then the generators.
//!
//! Each rejected transcript states a part of the expected reason, so that one rule cannot mask another.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use serde_json::{Value, json};

mod support;

use support::rules::{Provider, problems};
use support::transcripts::{damaged, valid};

fn accept(provider: Provider, cases: &[(&str, Value)]) {
    for (name, transcript) in cases {
        let found = problems(provider, transcript);
        assert!(found.is_empty(), "{name}: {found:#?}");
    }
}

fn reject(provider: Provider, cases: &[(&str, Value, &str)]) {
    for (name, transcript, reason) in cases {
        let found = problems(provider, transcript);
        assert!(found.iter().any(|problem| problem.contains(reason)), "{name}: {found:#?}");
    }
}

mod openai {
    use super::{Provider, Value, accept, json, reject};

    fn user() -> Value {
        json!({ "role": "user", "content": "hi" })
    }

    fn call(id: &str) -> Value {
        json!({ "id": id, "type": "function", "function": { "name": "f", "arguments": "{}" } })
    }

    /// An assistant message that makes these calls.
    fn asks(ids: &[&str]) -> Value {
        let calls: Value = ids.iter().map(|id| call(id)).collect();
        json!({ "role": "assistant", "content": null, "tool_calls": calls })
    }

    fn result(id: &str) -> Value {
        json!({ "role": "tool", "tool_call_id": id, "content": "42" })
    }

    /// A list of one message with this content.
    fn said(role: &str, content: &Value) -> Value {
        json!([{ "role": role, "content": content }])
    }

    /// A list whose one assistant message has these fields besides its role.
    fn assistant(fields: &Value) -> Value {
        let mut message = fields.clone();
        message["role"] = json!("assistant");
        json!([message])
    }

    fn part(part: &Value) -> Value {
        said("user", &json!([part]))
    }

    #[test]
    fn accepts_plain_messages() {
        accept(
            Provider::OpenAi,
            &[
                ("one question", json!([user()])),
                ("whole request", json!({ "model": "gpt-4o", "messages": [user()] })),
                ("system only", said("system", &json!("be brief"))),
                ("developer", said("developer", &json!([{ "type": "text", "text": "a" }]))),
                ("late system", json!([user(), { "role": "system", "content": "x" }, user()])),
                ("blank text", said("user", &json!(" "))),
                ("name", json!([{ "role": "user", "name": "bob", "content": "hi" }])),
                ("assistant first", assistant(&json!({ "content": "hi" }))),
                ("refusal", assistant(&json!({ "content": null, "refusal": "no" }))),
                ("no refusal", assistant(&json!({ "content": "a", "refusal": null }))),
                ("audio", assistant(&json!({ "audio": { "id": "audio_1" } }))),
                (
                    "refusal part",
                    said("assistant", &json!([{ "type": "refusal", "refusal": "n" }])),
                ),
                (
                    "web image",
                    part(&json!({ "type": "image_url", "image_url": {
                        "url": "https://example.com/a.png", "detail": "low" } })),
                ),
                (
                    "data image",
                    part(&json!({ "type": "image_url", "image_url": {
                        "url": "data:image/png;base64,iVBORw0K" } })),
                ),
                (
                    "sound",
                    part(&json!({ "type": "input_audio", "input_audio": {
                        "data": "UklGRg==", "format": "wav" } })),
                ),
                ("file", part(&json!({ "type": "file", "file": { "file_id": "file-1" } }))),
            ],
        );
    }

    #[test]
    fn accepts_calls_with_results() {
        let custom = json!({ "id": "c", "type": "custom",
            "custom": { "name": "patch", "input": "" } });
        let legacy = json!({ "role": "assistant", "content": null,
            "function_call": { "name": "f", "arguments": "{}" } });
        let tool = json!({ "type": "function", "function": { "name": "f", "parameters": {} } });
        let parts = json!([{ "type": "text", "text": "a" }]);
        accept(
            Provider::OpenAi,
            &[
                ("call", json!([user(), asks(&["a"]), result("a")])),
                ("any order", json!([asks(&["a", "b"]), result("b"), result("a"), user()])),
                ("two steps", json!([asks(&["a"]), result("a"), asks(&["b"]), result("b")])),
                ("same id later", json!([asks(&["a"]), result("a"), asks(&["a"]), result("a")])),
                (
                    "no content field",
                    json!([{ "role": "assistant", "tool_calls": [call("a")] }, result("a")]),
                ),
                (
                    "text beside the call",
                    json!([{ "role": "assistant", "content": "x", "tool_calls": [call("a")] },
                        result("a")]),
                ),
                ("custom", json!([{ "role": "assistant", "tool_calls": [custom] }, result("c")])),
                (
                    "parts in a result",
                    json!([asks(&["a"]),
                        { "role": "tool", "tool_call_id": "a", "content": parts }]),
                ),
                (
                    "legacy",
                    json!([legacy, { "role": "function", "name": "f", "content": "1" }, user()]),
                ),
                ("legacy without result", json!([legacy, user()])),
                ("declared tools", json!({ "messages": [user()], "tools": [tool] })),
                (
                    "declared functions",
                    json!({ "messages": [user()], "functions": [{ "name": "f" }] }),
                ),
            ],
        );
    }

    #[test]
    fn rejects_invalid_lists_and_roles() {
        reject(
            Provider::OpenAi,
            &[
                ("number", json!(1), "neither a list nor a request"),
                ("no messages", json!({ "model": "x" }), "neither a list nor a request"),
                ("messages is text", json!({ "messages": "x" }), "neither a list nor a request"),
                ("no message", json!([]), "has no message"),
                ("no message in request", json!({ "messages": [] }), "has no message"),
                ("text as message", json!(["hi"]), "is not an object"),
                ("unknown role", said("robot", &json!("x")), "unknown role `robot`"),
                ("no role", json!([{ "content": "x" }]), "unknown role ``"),
                (
                    "unknown field",
                    json!([{ "role": "user", "content": "x", "note": 1 }]),
                    "unknown field `note`",
                ),
                (
                    "user with calls",
                    json!([{ "role": "user", "content": "x", "tool_calls": [call("a")] }]),
                    "unknown field `tool_calls`",
                ),
                (
                    "name with a space",
                    json!([{ "role": "user", "name": "a b", "content": "x" }]),
                    ".name: has a character",
                ),
                (
                    "no name on a function result",
                    json!([{ "role": "function", "content": "x" }]),
                    "has no `name`",
                ),
            ],
        );
    }

    #[test]
    fn rejects_invalid_content() {
        let image = |fields: Value| part(&json!({ "type": "image_url", "image_url": fields }));
        reject(
            Provider::OpenAi,
            &[
                ("empty text", said("user", &json!("")), "has empty content"),
                ("empty list", said("user", &json!([])), "has empty content"),
                ("null", said("user", &json!(null)), "has no content"),
                ("absent", json!([{ "role": "system" }]), "has no content"),
                ("number", said("user", &json!(7)), "neither a string nor a list"),
                ("null from assistant", said("assistant", &json!(null)), "has no content"),
                (
                    "empty refusal",
                    assistant(&json!({ "content": null, "refusal": "" })),
                    "has no content",
                ),
                ("empty text part", part(&json!({ "type": "text", "text": "" })), "is empty"),
                ("text part without text", part(&json!({ "type": "text" })), "has no `text`"),
                ("part as text", part(&json!("hi")), "is not an object"),
                ("unknown part", part(&json!({ "type": "video" })), "unknown type `video`"),
                ("unknown detail", image(json!({ "url": "http://a", "detail": "max" })), "known"),
                ("local image", image(json!({ "url": "file:///a.png" })), "neither a web address"),
                ("image as text", image(json!("http://a")), "is not an object"),
                (
                    "image from assistant",
                    said("assistant", &json!([{ "type": "image_url" }])),
                    "not for the role `assistant`",
                ),
                (
                    "image in system",
                    said("system", &json!([{ "type": "image_url" }])),
                    "not for the role `system`",
                ),
                (
                    "refusal from user",
                    part(&json!({ "type": "refusal", "refusal": "x" })),
                    "not for the role `user`",
                ),
                (
                    "refusal beside text",
                    said(
                        "assistant",
                        &json!([{ "type": "refusal", "refusal": "x" },
                        { "type": "text", "text": "x" }]),
                    ),
                    "beside other parts",
                ),
            ],
        );
    }

    #[test]
    fn rejects_invalid_calls() {
        let with = |calls: Value| assistant(&json!({ "content": "x", "tool_calls": calls }));
        let long = "x".repeat(41);
        reject(
            Provider::OpenAi,
            &[
                ("no calls", with(json!([])), "tool_calls: is an empty list"),
                ("null calls", with(json!(null)), "tool_calls: is not a list"),
                (
                    "no calls, no content",
                    assistant(&json!({ "content": null, "tool_calls": [] })),
                    "has no content",
                ),
                (
                    "no id",
                    with(json!([{ "type": "function",
                        "function": { "name": "f", "arguments": "" } }])),
                    "has no `id`",
                ),
                (
                    "no type",
                    with(json!([{ "id": "a", "function": { "name": "f", "arguments": "" } }])),
                    "unknown type",
                ),
                (
                    "no function",
                    with(json!([{ "id": "a", "type": "function" }])),
                    "has no `function`",
                ),
                (
                    "arguments as object",
                    with(json!([{ "id": "a", "type": "function",
                        "function": { "name": "f", "arguments": {} } }])),
                    "arguments: is not a string",
                ),
                (
                    "empty function name",
                    with(json!([{ "id": "a", "type": "function",
                        "function": { "name": "", "arguments": "" } }])),
                    "name: is empty",
                ),
                (
                    "custom without input",
                    with(json!([{ "id": "a", "type": "custom", "custom": { "name": "f" } }])),
                    "has no `input`",
                ),
                ("long id", with(json!([call(&long)])), "id: is too long"),
                (
                    "same id twice",
                    json!([asks(&["a", "a"]), result("a"), result("a")]),
                    "two calls with the id `a`",
                ),
                (
                    "no declared tool",
                    json!({ "messages": [user()], "tools": [] }),
                    "tools: is an empty list",
                ),
                (
                    "nameless tool",
                    json!({ "messages": [user()], "tools": [{ "type": "function" }] }),
                    "no definition with a name",
                ),
            ],
        );
    }

    #[test]
    fn rejects_invalid_pairs() {
        let missing = "before a result for the call `b`";
        let legacy = json!({ "role": "function", "name": "f", "content": "1" });
        let legacy_call = json!({ "role": "assistant", "content": null,
            "function_call": { "name": "f", "arguments": "{}" } });
        reject(
            Provider::OpenAi,
            &[
                ("pending", json!([user(), asks(&["b"])]), "the end: comes before a result"),
                ("one missing", json!([asks(&["a", "b"]), result("a"), user()]), missing),
                ("result too late", json!([asks(&["b"]), user(), result("b")]), missing),
                (
                    "late result",
                    json!([asks(&["b"]), user(), result("b")]),
                    "[2]: is a result with",
                ),
                ("assistant between", json!([asks(&["b"]), asks(&["a"]), result("a")]), missing),
                (
                    "system between",
                    json!([asks(&["b"]), { "role": "system", "content": "x" }, result("b")]),
                    missing,
                ),
                ("result first", json!([result("a"), user()]), "without a call `a`"),
                ("result of nothing", json!([user(), result("a")]), "without a call `a`"),
                ("other id", json!([asks(&["a"]), result("a"), result("z")]), "without a call `z`"),
                (
                    "second result",
                    json!([asks(&["a"]), result("a"), result("a")]),
                    "second result for the call `a`",
                ),
                (
                    "no id on the result",
                    json!([asks(&["a"]), { "role": "tool", "content": "x" }]),
                    "has no `tool_call_id`",
                ),
                (
                    "image in a result",
                    json!([asks(&["a"]), { "role": "tool", "tool_call_id": "a",
                        "content": [{ "type": "image_url" }] }]),
                    "not for the role `tool`",
                ),
                ("legacy result alone", json!([user(), legacy]), "without a `function_call`"),
                (
                    "second legacy result",
                    json!([legacy_call, legacy, legacy]),
                    "[2]: is a function result without",
                ),
            ],
        );
    }
}

mod anthropic {
    use super::{Provider, Value, accept, json, reject};

    fn user() -> Value {
        json!({ "role": "user", "content": "hi" })
    }

    fn text(text: &str) -> Value {
        json!({ "type": "text", "text": text })
    }

    fn call(id: &str) -> Value {
        json!({ "type": "tool_use", "id": id, "name": "f", "input": {} })
    }

    fn result(id: &str) -> Value {
        json!({ "type": "tool_result", "tool_use_id": id, "content": "42" })
    }

    fn thinking() -> Value {
        json!({ "type": "thinking", "thinking": "hm", "signature": "abc" })
    }

    fn search(id: &str) -> Value {
        json!({ "type": "server_tool_use", "id": id, "name": "web_search", "input": {} })
    }

    fn found(id: &str) -> Value {
        json!({ "type": "web_search_tool_result", "tool_use_id": id, "content": [] })
    }

    fn says(blocks: &[Value]) -> Value {
        json!({ "role": "assistant", "content": blocks })
    }

    fn asks(ids: &[&str]) -> Value {
        says(&ids.iter().map(|id| call(id)).collect::<Vec<_>>())
    }

    fn sends(blocks: &[Value]) -> Value {
        json!({ "role": "user", "content": blocks })
    }

    fn answers(ids: &[&str]) -> Value {
        sends(&ids.iter().map(|id| result(id)).collect::<Vec<_>>())
    }

    fn image(source: &Value) -> Value {
        json!({ "type": "image", "source": source })
    }

    fn pixel() -> Value {
        image(&json!({ "type": "base64", "media_type": "image/png", "data": "iVBORw0K" }))
    }

    fn document() -> Value {
        json!({ "type": "document",
            "source": { "type": "text", "media_type": "text/plain", "data": "x" } })
    }

    /// A question, a call, and a result with these fields besides its type and id.
    fn answered(fields: &Value) -> Value {
        let mut block = fields.clone();
        block["type"] = json!("tool_result");
        block["tool_use_id"] = json!("a");
        json!([user(), asks(&["a"]), sends(&[block])])
    }

    fn with_system(system: &Value) -> Value {
        json!({ "messages": [user()], "system": system })
    }

    #[test]
    fn accepts_plain_messages() {
        let marked =
            json!({ "type": "text", "text": "x", "cache_control": { "type": "ephemeral" } });
        let address = json!({ "type": "url", "url": "https://example.com/a.png" });
        accept(
            Provider::Anthropic,
            &[
                ("one question", json!([user()])),
                ("whole request", json!({ "max_tokens": 1, "messages": [user()] })),
                ("system text", with_system(&json!("be brief"))),
                ("system blocks", with_system(&json!([text("a"), marked]))),
                ("blocks", json!([sends(&[text("a"), text("b")])])),
                ("two questions", json!([user(), user()])),
                ("two answers", json!([user(), says(&[text("a")]), says(&[text("b")])])),
                ("base64 image", json!([sends(&[pixel(), text("what?")])])),
                ("web image", json!([sends(&[image(&address)])])),
                ("document", json!([sends(&[document()])])),
                ("thinking", json!([user(), says(&[thinking(), text("a")]), user()])),
                (
                    "redacted thinking",
                    json!([
                        user(),
                        says(&[json!({ "type": "redacted_thinking", "data": "x" }), text("a")]),
                        user()
                    ]),
                ),
                ("web search", json!([user(), says(&[search("s"), found("s"), text("a")])])),
                (
                    "declared tools",
                    json!({ "messages": [user()], "tools": [
                        { "name": "f", "input_schema": { "type": "object" } },
                        { "name": "web_search", "type": "web_search_20250305" }] }),
                ),
            ],
        );
    }

    #[test]
    fn accepts_calls_with_results() {
        let both = sends(&[result("a"), text("go on")]);
        let spoken = says(&[thinking(), text("let me look"), call("a")]);
        accept(
            Provider::Anthropic,
            &[
                ("call", json!([user(), asks(&["a"]), answers(&["a"])])),
                ("any order", json!([user(), asks(&["a", "b"]), answers(&["b", "a"])])),
                (
                    "two steps",
                    json!([user(), asks(&["a"]), answers(&["a"]), asks(&["b"]), answers(&["b"])]),
                ),
                ("text behind results", json!([user(), asks(&["a"]), both])),
                ("message behind results", json!([user(), asks(&["a"]), answers(&["a"]), user()])),
                ("words before the call", json!([user(), spoken, answers(&["a"])])),
                (
                    "said in its own message",
                    json!([user(), says(&[text("x")]), asks(&["a"]), answers(&["a"])]),
                ),
                ("no content", answered(&json!({}))),
                ("empty text content", answered(&json!({ "content": "" }))),
                (
                    "block content",
                    answered(&json!({ "content": [text("a"), pixel(), document()] })),
                ),
                ("error", answered(&json!({ "content": "no", "is_error": true }))),
                (
                    "server and client tool",
                    json!([user(), says(&[search("s"), found("s"), call("a")]), answers(&["a"])]),
                ),
            ],
        );
    }

    #[test]
    fn rejects_invalid_lists_and_roles() {
        reject(
            Provider::Anthropic,
            &[
                ("text", json!("hi"), "neither a list nor a request"),
                ("no message", json!([]), "has no message"),
                ("text as message", json!(["hi"]), "is not an object"),
                (
                    "system role",
                    json!([user(), { "role": "system", "content": "x" }]),
                    "role other",
                ),
                ("tool role", json!([user(), { "role": "tool", "content": "x" }]), "role other"),
                ("assistant first", json!([says(&[text("a")]), user()]), "is not a user message"),
                ("no role", json!([{ "content": "x" }]), "has no `role`"),
                (
                    "name",
                    json!([{ "role": "user", "name": "bob", "content": "x" }]),
                    "unknown field `name`",
                ),
            ],
        );
    }

    #[test]
    fn rejects_invalid_content() {
        let said = |content: Value| json!([{ "role": "user", "content": content }]);
        let gif = json!({ "type": "base64", "media_type": "image/bmp", "data": "x" });
        let nothing = json!({ "type": "base64", "media_type": "image/png", "data": "" });
        reject(
            Provider::Anthropic,
            &[
                ("empty text", said(json!("")), "content: is empty"),
                ("blank text", said(json!(" \n\t")), "only white space"),
                ("empty list", said(json!([])), "has empty content"),
                ("null", said(json!(null)), "is not a string"),
                ("absent", json!([{ "role": "user" }]), "has no `content`"),
                ("empty last answer", json!([user(), says(&[])]), "has empty content"),
                ("empty block", json!([sends(&[text("")])]), "text: is empty"),
                ("blank block", json!([sends(&[text("a"), text(" ")])]), "only white space"),
                ("block as text", json!([sends(&[json!("a")])]), "is not an object"),
                ("unknown block", json!([sends(&[json!({ "type": "video" })])]), "type `video`"),
                (
                    "unknown field",
                    json!([sends(&[json!({ "type": "text", "text": "a", "id": "x" })])]),
                    "unknown field `id`",
                ),
                ("unknown image type", json!([sends(&[image(&gif)])]), "media_type: is not one of"),
                ("image without data", json!([sends(&[image(&nothing)])]), "data: is empty"),
                ("image from assistant", json!([user(), says(&[pixel()])]), "in Assistant"),
                ("document from assistant", json!([user(), says(&[document()])]), "in Assistant"),
                ("thinking from user", json!([sends(&[thinking(), text("a")])]), "in User"),
                ("thinking last", json!([user(), says(&[text("a"), thinking()])]), "ends with"),
                (
                    "thinking without signature",
                    json!([user(), says(&[json!({ "type": "thinking", "thinking": "a" })])]),
                    "has no `signature`",
                ),
            ],
        );
    }

    #[test]
    fn rejects_invalid_requests() {
        let mark = json!({ "type": "ephemeral" });
        let marked = json!({ "type": "text", "text": "x", "cache_control": mark });
        let marks = json!([marked, marked, marked]);
        let forever =
            json!([{ "type": "text", "text": "x", "cache_control": { "type": "forever" } }]);
        let with_tools = |tools: Value| json!({ "messages": [user()], "tools": tools });
        let tool = json!({ "name": "f", "input_schema": {} });
        reject(
            Provider::Anthropic,
            &[
                ("empty system", with_system(&json!("")), "system: is empty"),
                ("blank system", with_system(&json!("  ")), "system: is only white space"),
                ("no system block", with_system(&json!([])), "system: is an empty list"),
                ("empty system block", with_system(&json!([text("")])), "text: is empty"),
                ("system image", with_system(&json!([pixel()])), "unknown type `image`"),
                ("null system", with_system(&json!(null)), "system: is not a string"),
                ("unknown cache mark", with_system(&forever), "cache_control.type"),
                (
                    "five cache marks",
                    json!({ "messages": [sends(&[marked.clone(), marked])], "system": marks }),
                    "5 cache marks",
                ),
                ("nameless tool", with_tools(json!([{ "input_schema": {} }])), "is not a string"),
                ("tool without schema", with_tools(json!([{ "name": "f" }])), "`input_schema`"),
                ("two like tools", with_tools(json!([tool, tool])), "two tools with the name `f`"),
            ],
        );
    }

    #[test]
    fn rejects_invalid_calls_and_results() {
        let odd = json!({ "type": "tool_use", "id": "a.b", "name": "f", "input": {} });
        let listed = json!({ "type": "tool_use", "id": "a", "name": "f", "input": [] });
        let nameless = json!({ "type": "tool_use", "id": "a", "input": {} });
        let nested = json!({ "content": [result("a")] });
        reject(
            Provider::Anthropic,
            &[
                ("odd id", json!([user(), says(&[odd])]), "id: has a character"),
                ("input as list", json!([user(), says(&[listed])]), "input: is not an object"),
                ("no name", json!([user(), says(&[nameless])]), "has no `name`"),
                ("call from user", json!([sends(&[call("a")])]), "in User"),
                ("result from assistant", json!([user(), says(&[result("a")])]), "in Assistant"),
                ("content as object", answered(&json!({ "content": {} })), "neither a string nor"),
                ("empty inner text", answered(&json!({ "content": [text("")] })), "text: is empty"),
                ("result in a result", answered(&nested), "in ToolResult"),
                ("error as text", answered(&json!({ "is_error": "yes" })), "is not a boolean"),
                (
                    "same id in one message",
                    json!([user(), asks(&["a", "a"]), answers(&["a"])]),
                    "two calls with the id `a`",
                ),
                (
                    "same id later",
                    json!([user(), asks(&["a"]), answers(&["a"]), asks(&["a"]), answers(&["a"])]),
                    "two calls with the id `a`",
                ),
            ],
        );
    }

    #[test]
    fn rejects_invalid_pairs() {
        let late = sends(&[text("here:"), result("a")]);
        let between = sends(&[result("a"), text("and"), result("b")]);
        let missing = "calls `a` without a result";
        reject(
            Provider::Anthropic,
            &[
                ("pending", json!([user(), asks(&["a"])]), missing),
                ("question instead", json!([user(), asks(&["a"]), user()]), missing),
                ("one missing", json!([user(), asks(&["a", "b"]), answers(&["b"])]), missing),
                (
                    "message between",
                    json!([user(), asks(&["a"]), user(), answers(&["a"])]),
                    "[3]: has a result without a call `a`",
                ),
                (
                    "results over two messages",
                    json!([user(), asks(&["b", "a"]), answers(&["b"]), answers(&["a"])]),
                    missing,
                ),
                ("assistant between", json!([user(), asks(&["a"]), says(&[text("x")])]), missing),
                (
                    "second result",
                    json!([user(), asks(&["a"]), answers(&["a", "a"])]),
                    "`a`, which has several results",
                ),
                (
                    "foreign result",
                    json!([user(), asks(&["a"]), answers(&["a", "z"])]),
                    "without a call `z`",
                ),
                ("result first", json!([answers(&["a"]), user()]), "without a call `a`"),
                ("result of nothing", json!([user(), answers(&["a"])]), "without a call `a`"),
                (
                    "text before the result",
                    json!([user(), asks(&["a"]), late]),
                    "behind another block",
                ),
                (
                    "text between results",
                    json!([user(), asks(&["a", "b"]), between]),
                    "behind another block",
                ),
                (
                    "server call without result",
                    json!([user(), says(&[search("s"), text("a")]), user()]),
                    "server call `s` without its result",
                ),
                (
                    "server result without call",
                    json!([user(), says(&[found("s"), text("a")])]),
                    "without its call `s`",
                ),
                (
                    "server result before its call",
                    json!([user(), says(&[found("s"), search("s"), text("a")])]),
                    "without its call `s`",
                ),
                (
                    "server result in the next message",
                    json!([user(), says(&[search("s")]), says(&[found("s"), text("a")])]),
                    "server call `s` without its result",
                ),
                (
                    "server result from user",
                    json!([user(), says(&[search("s")]), sends(&[found("s")])]),
                    "in User",
                ),
            ],
        );
    }
}

proptest! {
    #![proptest_config(Config::with_cases(1_000))]

    #[test]
    fn valid_transcripts_are_accepted(
        (provider, transcript) in any_provider(|provider| valid(provider, 0..8).boxed()),
    ) {
        let found = problems(provider, &transcript);
        prop_assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn damaged_transcripts_have_nonempty_reasons(
        (provider, transcript) in any_provider(|provider| damaged(provider, 0..5).boxed()),
    ) {
        prop_assert!(problems(provider, &transcript).iter().all(|problem| !problem.is_empty()));
    }
}

/// Transcripts of all providers.
fn any_provider(
    transcripts: impl Fn(Provider) -> BoxedStrategy<Value>,
) -> impl Strategy<Value = (Provider, Value)> {
    let pair = |provider| (Just(provider), transcripts(provider)).boxed();
    proptest::strategy::Union::new(Provider::ALL.map(pair))
}

const DRAWN: usize = 1_000;

/// Draws [`DRAWN`] transcripts, the same ones in every run.
fn draw(strategy: &impl Strategy<Value = Value>) -> Vec<Value> {
    let mut runner = TestRunner::deterministic();
    (0..DRAWN).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

fn messages(transcript: &Value) -> &[Value] {
    let lists = ["messages", "input", "contents"];
    let list = lists.iter().find_map(|name| transcript.get(name)).unwrap_or(transcript);
    list.as_array().map_or(std::slice::from_ref(list), Vec::as_slice)
}

#[test]
fn most_but_not_all_damaged_transcripts_are_rejected() {
    for provider in Provider::ALL {
        let drawn = draw(&damaged(provider, 1..6));
        let rejected = drawn.iter().filter(|drawn| !problems(provider, drawn).is_empty()).count();
        assert!((DRAWN / 2..DRAWN).contains(&rejected), "{provider:?}: {rejected} of {DRAWN}");
    }
}

/// Every kind of problem that damage is meant to cause, by a part of its reason.
#[test]
fn damage_causes_every_kind_of_problem() {
    let openai = [
        "before a result for",
        "the end: comes before a result",
        "without a call `",
        "second result",
        "two calls with the id",
        "has empty content",
        "has no content",
    ];
    let anthropic = [
        "without a result right after",
        "several results",
        "behind another block",
        "without a call `",
        "two calls with the id",
        "is not a user message",
        "has empty content",
        "only white space",
        "content: is empty",
        "ends with thinking",
    ];
    let responses = [
        "without an output",
        "without a call `",
        "two calls with the id",
        "two outputs with the id",
        "has empty content",
        "without its following item",
        "without its reasoning",
    ];
    let gemini = [
        "does not directly follow a user turn",
        "does not directly follow a call",
        "2 calls and 1 responses",
        "names and ids are not those",
        "is not a user turn",
        "has no parts",
    ];
    let cases = [
        (Provider::OpenAi, &openai[..]),
        (Provider::Anthropic, &anthropic[..]),
        (Provider::Responses, &responses[..]),
        (Provider::Gemini, &gemini[..]),
    ];
    for (provider, reasons) in cases {
        let drawn = draw(&damaged(provider, 1..6));
        let found: Vec<String> = drawn.iter().flat_map(|drawn| problems(provider, drawn)).collect();
        for reason in reasons {
            let times = found.iter().filter(|problem| problem.contains(reason)).count();
            assert!(times > 0, "{provider:?}: no `{reason}`");
        }
    }
}

/// Each feature is identified by a spelling that only transcripts with it contain.
#[test]
fn valid_transcripts_cover_all_features() {
    let openai = [
        r#""role":"system""#,
        r#""role":"developer""#,
        r#""role":"function""#,
        r#""detail":"low""#,
        r#""detail":"high""#,
        r#""detail":"auto""#,
        "data:image/png;base64,",
        r#""refusal":"#,
        r#""type":"refusal""#,
        r#""type":"custom""#,
        r#""name":"alice""#,
        r#""tools":"#,
        r#""functions":"#,
        "<|im_start|>",
        "日本語",
        r#""call_3""#,
    ];
    let anthropic = [
        r#""system":""#,
        r#""system":["#,
        r#""cache_control":"#,
        r#""type":"thinking""#,
        r#""type":"redacted_thinking""#,
        r#""type":"base64""#,
        r#""type":"url""#,
        r#""type":"document""#,
        r#""is_error":true"#,
        r#""type":"server_tool_use""#,
        r#""max_tokens":"#,
        r#""input_schema":"#,
        "<|endoftext|>",
        "שלום",
        r#""toolu_04""#,
    ];
    let responses = [
        r#""instructions":"#,
        r#""input":""#,
        r#""role":"developer""#,
        r#""type":"reasoning""#,
        r#""encrypted_content":"#,
        r#""type":"web_search_call""#,
        r#""type":"custom_tool_call""#,
        r#""type":"local_shell_call""#,
        r#""type":"input_image""#,
        r#""type":"refusal""#,
        r#""annotations":[]"#,
        r#""max_output_tokens":"#,
    ];
    let gemini = [
        r#""systemInstruction":"#,
        r#""functionCall":"#,
        r#""inlineData":"#,
        r#""fileData":"#,
        r#""thought":true"#,
        r#""thoughtSignature":"#,
        r#""executableCode":"#,
        r#""id":"fc-"#,
        r#""maxOutputTokens":"#,
    ];
    let cases = [
        (Provider::OpenAi, &openai[..]),
        (Provider::Anthropic, &anthropic[..]),
        (Provider::Responses, &responses[..]),
        (Provider::Gemini, &gemini[..]),
    ];
    for (provider, spellings) in cases {
        let drawn: Vec<String> =
            draw(&valid(provider, 1..6)).iter().map(ToString::to_string).collect();
        for spelling in spellings {
            let times = drawn.iter().filter(|drawn| drawn.contains(spelling)).count();
            assert!((5..DRAWN).contains(&times), "{provider:?}: {times} times `{spelling}`");
        }
    }
}

#[test]
fn valid_transcripts_end_with_every_role() {
    let is_result = |message: &Value| {
        message["role"] == "tool"
            || message["content"][0]["type"] == "tool_result"
            || message["output"].is_string()
            || message["parts"][0]["functionResponse"].is_object()
    };
    for provider in Provider::ALL {
        let drawn = draw(&valid(provider, 1..6));
        let last: Vec<&Value> = drawn.iter().filter_map(|drawn| messages(drawn).last()).collect();
        let results = last.iter().filter(|last| is_result(last)).count();
        let is_answer = |last: &&&Value| last["role"] == "assistant" || last["role"] == "model";
        let answers = last.iter().filter(is_answer).count();
        let questions =
            last.iter().filter(|last| last["role"] == "user" && !is_result(last)).count();
        for (name, times) in [("result", results), ("answer", answers), ("question", questions)] {
            assert!(times > DRAWN / 50, "{provider:?}: {times} times {name}");
        }
        let repeats = |drawn: &&Value| messages(drawn).windows(2).any(|pair| pair[0] == pair[1]);
        assert!(drawn.iter().filter(repeats).count() > DRAWN / 50, "{provider:?}: no repeats");
        assert!(drawn.iter().any(Value::is_array), "{provider:?}: no bare lists");
    }
}

#[test]
fn transcripts_shrink_to_a_single_question() {
    for provider in Provider::ALL {
        let mut runner = TestRunner::deterministic();
        for _ in 0..20 {
            let mut tree = valid(provider, 1..6).new_tree(&mut runner).unwrap();
            while tree.simplify() {}
            assert_eq!(messages(&tree.current()).len(), 1, "{}", tree.current());
        }
    }
}

/// Two edits can depend on each other, so the result is small but not always minimal.
#[test]
fn damage_shrinks_to_a_small_transcript() {
    for provider in Provider::ALL {
        let config = Config { failure_persistence: None, ..Config::default() };
        let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let mut runner = TestRunner::new_with_rng(config, random);
        let outcome = runner.run(&damaged(provider, 1..6), |transcript| {
            let found = problems(provider, &transcript);
            let is_orphan = |problem: &String| {
                problem.contains("without a call `")
                    || problem.contains("does not directly follow a call")
            };
            let orphan = found.iter().any(is_orphan);
            prop_assert!(!orphan);
            Ok(())
        });
        let Err(TestError::Fail(_, shrunk)) = outcome else {
            panic!("{provider:?}: no orphaned result was drawn");
        };
        assert!(messages(&shrunk).len() <= 6, "{provider:?}: {shrunk}");
    }
}
