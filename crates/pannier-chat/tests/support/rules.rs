//! The validation rules of all providers, as an oracle for property tests.
//!
//! The rules follow the providers' documentation and the texts of their 400 responses, never the code under test, so the
//! two can disagree. They are strict: documented violations are rejected even where a server is lenient today, because a
//! trimmer must not depend on that. Simplicity goes before speed: every shape is a table, and calls and results are paired
//! by one scan of the list.
//!
//! Rules that depend on the model or on the last turn alone are omitted. To Anthropic, a trailing assistant message is a
//! prefill. Newer models reject it; older ones reject it if it ends with whitespace, or contains thinking while `thinking`
//! is off. Stored transcripts often end that way and are completed before they are sent.

use std::collections::BTreeSet;
use std::fmt::Display;

use serde_json::{Map, Value};

mod gemini;
mod responses;

/// The provider whose rules apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Provider {
    /// `OpenAI` Chat Completions.
    OpenAi,
    /// Anthropic Messages.
    Anthropic,
    /// `OpenAI` Responses.
    Responses,
    /// Gemini `generateContent`.
    Gemini,
}

impl Provider {
    pub(crate) const ALL: [Self; 4] =
        [Self::OpenAi, Self::Anthropic, Self::Responses, Self::Gemini];
}

/// Returns all rule violations of a message list or a request.
#[must_use]
pub(crate) fn problems(provider: Provider, transcript: &Value) -> Vec<String> {
    let mut refusals = Refusals::default();
    match provider {
        Provider::OpenAi => {
            check_list(transcript, openai::check_messages, &mut refusals);
            openai::check_request(transcript, &mut refusals);
        }
        Provider::Anthropic => {
            check_list(transcript, anthropic::check_messages, &mut refusals);
            anthropic::check_request(transcript, &mut refusals);
        }
        Provider::Responses => responses::check(transcript, &mut refusals),
        Provider::Gemini => gemini::check(transcript, &mut refusals),
    }
    refusals.found
}

fn check_list(transcript: &Value, check: fn(&[Value], &mut Refusals), refusals: &mut Refusals) {
    match messages_of(transcript) {
        None => refusals.add("transcript", "is neither a list nor a request with `messages`"),
        Some([]) => refusals.add("messages", "has no message"),
        Some(messages) => check(messages, refusals),
    }
}

fn messages_of(transcript: &Value) -> Option<&[Value]> {
    let list = match transcript {
        Value::Object(request) => request.get("messages")?,
        other => other,
    };
    list.as_array().map(Vec::as_slice)
}

/// The problems found so far, each with the place in the transcript.
#[derive(Default)]
struct Refusals {
    found: Vec<String>,
}

impl Refusals {
    fn add(&mut self, place: impl Display, reason: impl Display) {
        self.found.push(format!("{place}: {reason}"));
    }
}

type Object = Map<String, Value>;

/// The fields an object must and may have; any other field is refused.
struct Shape {
    required: &'static [(&'static str, Kind)],
    optional: &'static [(&'static str, Kind)],
}

/// What the value of a field must be.
#[derive(Clone, Copy)]
enum Kind {
    /// Checked elsewhere, or free.
    Any,
    /// A string, perhaps empty.
    Text,
    /// A string of at least 1 and at most this number of characters.
    Filled(usize),
    /// A string that is not only whitespace.
    Visible,
    /// A string of letters, digits, `_` and `-`, with at most this number of characters.
    Token(usize),
    /// One of these strings.
    OneOf(&'static [&'static str]),
    /// An address that the provider can fetch.
    WebAddress,
    /// A web address, or a `data:` address that holds the image itself.
    ImageAddress,
    Flag,
    Dictionary,
    Nested(&'static Shape),
    /// An object whose `type` chooses its shape.
    Tagged(fn(&str) -> Option<&'static Shape>),
    Nullable(&'static Kind),
}

const UNLIMITED: usize = usize::MAX;

fn check_shape(place: &str, object: &Object, shape: &Shape, refusals: &mut Refusals) {
    for (field, kind) in shape.required {
        match object.get(*field) {
            None => refusals.add(place, format!("has no `{field}`")),
            Some(value) => check_kind(&format!("{place}.{field}"), value, *kind, refusals),
        }
    }
    for (field, kind) in shape.optional {
        if let Some(value) = object.get(*field) {
            check_kind(&format!("{place}.{field}"), value, *kind, refusals);
        }
    }
    let known: BTreeSet<&str> =
        shape.required.iter().chain(shape.optional).map(|(field, _)| *field).collect();
    for field in object.keys().filter(|field| !known.contains(field.as_str())) {
        refusals.add(place, format!("has the unknown field `{field}`"));
    }
}

fn check_kind(place: &str, value: &Value, kind: Kind, refusals: &mut Refusals) {
    let fault = match kind {
        Kind::Any => None,
        Kind::Text => (!value.is_string()).then_some("is not a string"),
        Kind::Filled(most) => filled_fault(value, most),
        Kind::Visible => visible_fault(value),
        Kind::Token(most) => filled_fault(value, most).or_else(|| token_fault(value)),
        Kind::OneOf(choices) => match value.as_str() {
            Some(text) if choices.contains(&text) => None,
            _ => Some("is not one of the known values"),
        },
        Kind::WebAddress => (!is_web_address(value)).then_some("is not a web address"),
        Kind::ImageAddress => (!is_web_address(value) && !is_image_data(value))
            .then_some("is neither a web address nor a base64 image"),
        Kind::Flag => (!value.is_boolean()).then_some("is not a boolean"),
        Kind::Dictionary => (!value.is_object()).then_some("is not an object"),
        Kind::Nested(shape) => match value.as_object() {
            Some(object) => return check_shape(place, object, shape, refusals),
            None => Some("is not an object"),
        },
        Kind::Tagged(shapes) => return check_tagged(place, value, shapes, refusals),
        Kind::Nullable(_) if value.is_null() => None,
        Kind::Nullable(inner) => return check_kind(place, value, *inner, refusals),
    };
    if let Some(fault) = fault {
        refusals.add(place, fault);
    }
}

fn filled_fault(value: &Value, most: usize) -> Option<&'static str> {
    match value.as_str() {
        None => Some("is not a string"),
        Some("") => Some("is empty"),
        Some(text) if text.chars().count() > most => Some("is too long"),
        Some(_) => None,
    }
}

fn visible_fault(value: &Value) -> Option<&'static str> {
    filled_fault(value, UNLIMITED).or_else(|| {
        value.as_str().is_some_and(|text| text.trim().is_empty()).then_some("is only white space")
    })
}

fn token_fault(value: &Value) -> Option<&'static str> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    let text = value.as_str()?;
    (!text.chars().all(fits)).then_some("has a character other than letters, digits, `_` and `-`")
}

fn is_web_address(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    ["https://", "http://"].iter().any(|scheme| text.starts_with(scheme))
}

fn is_image_data(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    text.starts_with("data:image/") && text.contains(";base64,")
}

fn check_tagged(
    place: &str,
    value: &Value,
    shapes: fn(&str) -> Option<&'static Shape>,
    refusals: &mut Refusals,
) {
    let Some(object) = value.as_object() else {
        return refusals.add(place, "is not an object");
    };
    let kind = text_of(value, "type").unwrap_or_default();
    match shapes(kind) {
        Some(shape) => check_shape(place, object, shape, refusals),
        None => refusals.add(place, format!("has the unknown type `{kind}`")),
    }
}

/// The list `field` of an object, empty if it is not there or not a list.
fn list_of<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text_of<'a>(object: &'a Value, field: &str) -> Option<&'a str> {
    object.get(field).and_then(Value::as_str)
}

fn check_unique<'a>(
    place: impl Display,
    things: &str,
    keys: impl Iterator<Item = &'a str>,
    refusals: &mut Refusals,
) {
    let mut seen = BTreeSet::new();
    for key in keys {
        if !seen.insert(key) {
            refusals.add(&place, format!("has two {things} `{key}`"));
        }
    }
}

mod openai {
    use super::{
        Kind, Refusals, Shape, UNLIMITED, Value, check_kind, check_shape, check_tagged,
        check_unique, list_of, text_of,
    };

    const MOST_IN_ID: usize = 40;
    const MOST_IN_NAME: usize = 64;
    const ROLE: (&str, Kind) = ("role", Kind::Any);
    const CONTENT: (&str, Kind) = ("content", Kind::Any);
    const NAME: (&str, Kind) = ("name", Kind::Token(MOST_IN_NAME));
    const TYPE: (&str, Kind) = ("type", Kind::Any);
    const ID: (&str, Kind) = ("id", Kind::Filled(MOST_IN_ID));

    const SPOKEN: Shape = Shape { required: &[ROLE, CONTENT], optional: &[NAME] };
    const ASSISTANT: Shape = Shape {
        required: &[ROLE],
        optional: &[
            CONTENT,
            NAME,
            ("refusal", Kind::Nullable(&Kind::Text)),
            ("audio", Kind::Nullable(&Kind::Nested(&AUDIO))),
            ("function_call", Kind::Nullable(&Kind::Nested(&FUNCTION))),
            ("tool_calls", Kind::Any),
        ],
    };
    const TOOL: Shape = Shape {
        required: &[ROLE, CONTENT, ("tool_call_id", Kind::Filled(MOST_IN_ID))],
        optional: &[NAME],
    };
    const LEGACY_RESULT: Shape = Shape { required: &[ROLE, CONTENT, NAME], optional: &[] };
    const AUDIO: Shape = Shape { required: &[("id", Kind::Filled(UNLIMITED))], optional: &[] };
    const FUNCTION: Shape = Shape { required: &[NAME, ("arguments", Kind::Text)], optional: &[] };
    const CUSTOM: Shape = Shape { required: &[NAME, ("input", Kind::Text)], optional: &[] };
    const FUNCTION_CALL: Shape =
        Shape { required: &[ID, TYPE, ("function", Kind::Nested(&FUNCTION))], optional: &[] };
    const CUSTOM_CALL: Shape =
        Shape { required: &[ID, TYPE, ("custom", Kind::Nested(&CUSTOM))], optional: &[] };

    const TEXT_PART: Shape =
        Shape { required: &[TYPE, ("text", Kind::Filled(UNLIMITED))], optional: &[] };
    const REFUSAL_PART: Shape =
        Shape { required: &[TYPE, ("refusal", Kind::Filled(UNLIMITED))], optional: &[] };
    const IMAGE_PART: Shape =
        Shape { required: &[TYPE, ("image_url", Kind::Nested(&IMAGE))], optional: &[] };
    const IMAGE: Shape = Shape {
        required: &[("url", Kind::ImageAddress)],
        optional: &[("detail", Kind::OneOf(&["auto", "low", "high"]))],
    };
    const AUDIO_PART: Shape =
        Shape { required: &[TYPE, ("input_audio", Kind::Nested(&SOUND))], optional: &[] };
    const SOUND: Shape = Shape {
        required: &[("data", Kind::Filled(UNLIMITED)), ("format", Kind::OneOf(&["wav", "mp3"]))],
        optional: &[],
    };
    const FILE_PART: Shape =
        Shape { required: &[TYPE, ("file", Kind::Nested(&FILE))], optional: &[] };
    const FILE: Shape = Shape {
        required: &[],
        optional: &[
            ("file_id", Kind::Filled(UNLIMITED)),
            ("file_data", Kind::Filled(UNLIMITED)),
            ("filename", Kind::Filled(UNLIMITED)),
        ],
    };

    pub(super) fn check_messages(messages: &[Value], refusals: &mut Refusals) {
        for (index, message) in messages.iter().enumerate() {
            check_message(&format!("messages[{index}]"), message, refusals);
        }
        check_results(messages, refusals);
        check_legacy_results(messages, refusals);
    }

    pub(super) fn check_request(request: &Value, refusals: &mut Refusals) {
        for field in ["tools", "functions"] {
            let Some(value) = request.get(field) else { continue };
            match value.as_array().map(Vec::as_slice) {
                None => refusals.add(field, "is not a list"),
                Some([]) => refusals.add(field, "is an empty list"),
                Some(tools) => check_tools(field, tools, refusals),
            }
        }
    }

    fn check_tools(field: &str, tools: &[Value], refusals: &mut Refusals) {
        for (index, tool) in tools.iter().enumerate() {
            let definition = match (field, text_of(tool, "type")) {
                ("functions", _) => Some(tool),
                (_, Some(kind @ ("function" | "custom"))) => tool.get(kind),
                _ => None,
            };
            let place = format!("{field}[{index}]");
            match definition.and_then(|definition| definition.get("name")) {
                None => refusals.add(place, "has no definition with a name"),
                Some(name) => check_kind(&place, name, Kind::Token(MOST_IN_NAME), refusals),
            }
        }
    }

    fn check_message(place: &str, message: &Value, refusals: &mut Refusals) {
        let Some(object) = message.as_object() else {
            return refusals.add(place, "is not an object");
        };
        let role = text_of(message, "role").unwrap_or_default();
        let shape = match role {
            "system" | "developer" | "user" => &SPOKEN,
            "assistant" => &ASSISTANT,
            "tool" => &TOOL,
            "function" => &LEGACY_RESULT,
            _ => return refusals.add(place, format!("has the unknown role `{role}`")),
        };
        check_shape(place, object, shape, refusals);
        check_content(place, role, message, refusals);
        if let Some(calls) = object.get("tool_calls") {
            check_calls(place, calls, refusals);
        }
    }

    fn check_content(place: &str, role: &str, message: &Value, refusals: &mut Refusals) {
        match message.get("content").unwrap_or(&Value::Null) {
            Value::Null if role == "assistant" && says_something_else(message) => {}
            Value::Null => refusals.add(place, "has no content"),
            Value::String(text) if text.is_empty() => refusals.add(place, "has empty content"),
            Value::String(_) => {}
            Value::Array(parts) if parts.is_empty() => refusals.add(place, "has empty content"),
            Value::Array(parts) => check_parts(place, role, parts, refusals),
            _ => refusals.add(place, "has content that is neither a string nor a list"),
        }
    }

    /// Whether an assistant message has what lets it go without content.
    fn says_something_else(message: &Value) -> bool {
        let given = |field| message.get(field).is_some_and(Value::is_object);
        !list_of(message, "tool_calls").is_empty()
            || text_of(message, "refusal").is_some_and(|refusal| !refusal.is_empty())
            || given("function_call")
            || given("audio")
    }

    fn check_parts(place: &str, role: &str, parts: &[Value], refusals: &mut Refusals) {
        for (index, part) in parts.iter().enumerate() {
            let place = format!("{place}.content[{index}]");
            let kind = text_of(part, "type").unwrap_or_default();
            let welcome = match role {
                "user" => kind != "refusal",
                "assistant" => kind == "text" || kind == "refusal",
                _ => kind == "text",
            };
            if welcome {
                check_tagged(&place, part, part_shape, refusals);
            } else {
                refusals.add(place, format!("has type `{kind}`, not for the role `{role}`"));
            }
        }
        let is_refusal = |part: &Value| text_of(part, "type") == Some("refusal");
        if parts.len() > 1 && parts.iter().any(is_refusal) {
            refusals.add(place, "has a refusal part beside other parts");
        }
    }

    fn part_shape(kind: &str) -> Option<&'static Shape> {
        Some(match kind {
            "text" => &TEXT_PART,
            "refusal" => &REFUSAL_PART,
            "image_url" => &IMAGE_PART,
            "input_audio" => &AUDIO_PART,
            "file" => &FILE_PART,
            _ => return None,
        })
    }

    fn call_shape(kind: &str) -> Option<&'static Shape> {
        Some(match kind {
            "function" => &FUNCTION_CALL,
            "custom" => &CUSTOM_CALL,
            _ => return None,
        })
    }

    fn check_calls(place: &str, calls: &Value, refusals: &mut Refusals) {
        let place = format!("{place}.tool_calls");
        match calls.as_array().map(Vec::as_slice) {
            None => refusals.add(place, "is not a list"),
            Some([]) => refusals.add(place, "is an empty list"),
            Some(calls) => {
                for (index, call) in calls.iter().enumerate() {
                    check_tagged(&format!("{place}[{index}]"), call, call_shape, refusals);
                }
                let ids = calls.iter().filter_map(|call| text_of(call, "id"));
                check_unique(place, "calls with the id", ids, refusals);
            }
        }
    }

    /// The calls of one assistant message and which of them have their result by now.
    #[derive(Default)]
    struct Block<'a> {
        open: Vec<&'a str>,
        answered: Vec<&'a str>,
    }

    impl<'a> Block<'a> {
        fn of(message: &'a Value) -> Self {
            let asks = text_of(message, "role") == Some("assistant");
            let calls = if asks { list_of(message, "tool_calls") } else { &[] };
            let open = calls.iter().filter_map(|call| text_of(call, "id")).collect();
            Block { open, answered: Vec::new() }
        }

        fn answer(&mut self, place: &str, id: &'a str, refusals: &mut Refusals) {
            if let Some(position) = self.open.iter().position(|open| *open == id) {
                self.answered.push(self.open.remove(position));
            } else if self.answered.contains(&id) {
                refusals.add(place, format!("is a second result for the call `{id}`"));
            } else {
                refusals.add(place, format!("is a result without a call `{id}` right before it"));
            }
        }

        fn close(&self, place: &str, refusals: &mut Refusals) {
            for id in &self.open {
                refusals.add(place, format!("comes before a result for the call `{id}`"));
            }
        }
    }

    fn check_results(messages: &[Value], refusals: &mut Refusals) {
        let mut block = Block::default();
        for (index, message) in messages.iter().enumerate() {
            let place = format!("messages[{index}]");
            if text_of(message, "role") == Some("tool") {
                let id = text_of(message, "tool_call_id").unwrap_or_default();
                block.answer(&place, id, refusals);
            } else {
                block.close(&place, refusals);
                block = Block::of(message);
            }
        }
        block.close("the end", refusals);
    }

    fn check_legacy_results(messages: &[Value], refusals: &mut Refusals) {
        let asks = |message: &Value| {
            text_of(message, "role") == Some("assistant")
                && message.get("function_call").is_some_and(Value::is_object)
        };
        for (index, message) in messages.iter().enumerate() {
            let before = index.checked_sub(1).and_then(|before| messages.get(before));
            if text_of(message, "role") == Some("function") && !before.is_some_and(asks) {
                let reason = "is a function result without a `function_call` right before it";
                refusals.add(format!("messages[{index}]"), reason);
            }
        }
    }
}

mod anthropic {
    use super::{
        Kind, Refusals, Shape, UNLIMITED, Value, check_kind, check_shape, check_tagged,
        check_unique, list_of, text_of,
    };

    const MOST_CACHE_MARKS: usize = 4;
    const MOST_IN_NAME: usize = 128;
    const TYPE: (&str, Kind) = ("type", Kind::Any);
    const NAME: (&str, Kind) = ("name", Kind::Token(MOST_IN_NAME));
    const ID: (&str, Kind) = ("id", Kind::Token(UNLIMITED));
    const CALL: (&str, Kind) = ("tool_use_id", Kind::Token(UNLIMITED));
    const INPUT: (&str, Kind) = ("input", Kind::Dictionary);
    const CACHE: (&str, Kind) = ("cache_control", Kind::Nullable(&Kind::Nested(&CACHE_MARK)));
    const CITATIONS: (&str, Kind) = ("citations", Kind::Any);
    const CALLER: (&str, Kind) = ("caller", Kind::Dictionary);
    const DATA: (&str, Kind) = ("data", Kind::Filled(UNLIMITED));
    const TITLE: (&str, Kind) = ("title", Kind::Nullable(&Kind::Text));

    const MESSAGE: Shape =
        Shape { required: &[("role", Kind::Any), ("content", Kind::Any)], optional: &[] };
    const CACHE_MARK: Shape = Shape {
        required: &[("type", Kind::OneOf(&["ephemeral"]))],
        optional: &[("ttl", Kind::OneOf(&["5m", "1h"]))],
    };
    const TEXT: Shape =
        Shape { required: &[TYPE, ("text", Kind::Visible)], optional: &[CACHE, CITATIONS] };
    const IMAGE: Shape =
        Shape { required: &[TYPE, ("source", Kind::Tagged(image_source))], optional: &[CACHE] };
    const DOCUMENT: Shape = Shape {
        required: &[TYPE, ("source", Kind::Tagged(document_source))],
        optional: &[CACHE, CITATIONS, TITLE, ("context", Kind::Nullable(&Kind::Text))],
    };
    const SEARCH_RESULT: Shape = Shape {
        required: &[TYPE, ("source", Kind::Text), ("title", Kind::Text), ("content", Kind::Any)],
        optional: &[CACHE, CITATIONS],
    };
    const TOOL_REFERENCE: Shape =
        Shape { required: &[TYPE, ("tool_name", Kind::Token(MOST_IN_NAME))], optional: &[CACHE] };
    const UPLOAD: Shape =
        Shape { required: &[TYPE, ("file_id", Kind::Filled(UNLIMITED))], optional: &[CACHE] };
    const TOOL_USE: Shape = Shape {
        required: &[TYPE, ID, NAME, INPUT],
        optional: &[CACHE, CALLER, ("toolset_name", Kind::Text)],
    };
    const TOOL_RESULT: Shape = Shape {
        required: &[TYPE, CALL],
        optional: &[CACHE, ("content", Kind::Any), ("is_error", Kind::Flag)],
    };
    const THINKING: Shape = Shape {
        required: &[TYPE, ("thinking", Kind::Text), ("signature", Kind::Filled(UNLIMITED))],
        optional: &[],
    };
    const REDACTED_THINKING: Shape = Shape { required: &[TYPE, DATA], optional: &[] };
    const SERVER_TOOL_USE: Shape =
        Shape { required: &[TYPE, ID, NAME, INPUT], optional: &[CACHE, CALLER] };
    const MCP_TOOL_USE: Shape = Shape {
        required: &[TYPE, ID, NAME, INPUT, ("server_name", Kind::Text)],
        optional: &[CACHE],
    };
    const SERVER_RESULT: Shape = Shape {
        required: &[TYPE, CALL, ("content", Kind::Any)],
        optional: &[CACHE, CALLER, ("is_error", Kind::Flag)],
    };

    const WEB_SOURCE: Shape = Shape { required: &[TYPE, ("url", Kind::WebAddress)], optional: &[] };
    const FILE_SOURCE: Shape =
        Shape { required: &[TYPE, ("file_id", Kind::Filled(UNLIMITED))], optional: &[] };
    const IMAGE_DATA: Shape =
        Shape { required: &[TYPE, DATA, ("media_type", Kind::OneOf(&IMAGE_TYPES))], optional: &[] };
    const IMAGE_TYPES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];
    const DOCUMENT_DATA: Shape = Shape {
        required: &[TYPE, DATA, ("media_type", Kind::OneOf(&["application/pdf"]))],
        optional: &[],
    };
    const DOCUMENT_TEXT: Shape = Shape {
        required: &[TYPE, DATA, ("media_type", Kind::OneOf(&["text/plain"]))],
        optional: &[],
    };
    const DOCUMENT_BLOCKS: Shape =
        Shape { required: &[TYPE, ("content", Kind::Any)], optional: &[] };

    fn image_source(kind: &str) -> Option<&'static Shape> {
        Some(match kind {
            "base64" => &IMAGE_DATA,
            "url" => &WEB_SOURCE,
            "file" => &FILE_SOURCE,
            _ => return None,
        })
    }

    fn document_source(kind: &str) -> Option<&'static Shape> {
        Some(match kind {
            "base64" => &DOCUMENT_DATA,
            "text" => &DOCUMENT_TEXT,
            "content" => &DOCUMENT_BLOCKS,
            "url" => &WEB_SOURCE,
            "file" => &FILE_SOURCE,
            _ => return None,
        })
    }

    fn block_shape(kind: &str) -> Option<&'static Shape> {
        Some(match kind {
            "text" => &TEXT,
            "image" => &IMAGE,
            "document" => &DOCUMENT,
            "search_result" => &SEARCH_RESULT,
            "tool_reference" => &TOOL_REFERENCE,
            "container_upload" => &UPLOAD,
            "tool_use" => &TOOL_USE,
            "tool_result" => &TOOL_RESULT,
            "thinking" => &THINKING,
            "redacted_thinking" => &REDACTED_THINKING,
            "server_tool_use" => &SERVER_TOOL_USE,
            "mcp_tool_use" => &MCP_TOOL_USE,
            other if is_server_result(other) => &SERVER_RESULT,
            _ => return None,
        })
    }

    /// `web_search_tool_result` and its like, but not the `tool_result` of a client tool.
    fn is_server_result(kind: &str) -> bool {
        kind.ends_with("_tool_result")
    }

    /// Where a block stands.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Home {
        User,
        Assistant,
        ToolResult,
    }

    fn is_at_home(kind: &str, home: Home) -> bool {
        match kind {
            "text" => true,
            "image" | "document" | "search_result" => home != Home::Assistant,
            "tool_reference" => home == Home::ToolResult,
            "tool_result" | "container_upload" => home == Home::User,
            _ => home == Home::Assistant,
        }
    }

    pub(super) fn check_messages(messages: &[Value], refusals: &mut Refusals) {
        for (index, message) in messages.iter().enumerate() {
            check_message(&format!("messages[{index}]"), message, refusals);
        }
        if messages.first().and_then(home_of) != Some(Home::User) {
            refusals.add("messages[0]", "is not a user message");
        }
        check_calls(messages, refusals);
        check_results(messages, refusals);
        let every_block = || messages.iter().flat_map(|message| list_of(message, "content"));
        let ids = every_block().filter(|block| is_call(block)).filter_map(|b| text_of(b, "id"));
        check_unique("messages", "calls with the id", ids, refusals);
    }

    pub(super) fn check_request(request: &Value, refusals: &mut Refusals) {
        if let Some(system) = request.get("system") {
            check_system(system, refusals);
        }
        if let Some(tools) = request.get("tools") {
            check_tools(tools, refusals);
        }
        let marks = cache_marks(request);
        if marks > MOST_CACHE_MARKS {
            refusals.add("request", format!("has {marks} cache marks, more than 4"));
        }
    }

    fn check_system(system: &Value, refusals: &mut Refusals) {
        match system.as_array().map(Vec::as_slice) {
            None => check_kind("system", system, Kind::Visible, refusals),
            Some([]) => refusals.add("system", "is an empty list"),
            Some(blocks) => {
                let only_text = |kind: &str| (kind == "text").then_some(&TEXT);
                for (index, block) in blocks.iter().enumerate() {
                    check_tagged(&format!("system[{index}]"), block, only_text, refusals);
                }
            }
        }
    }

    fn check_tools(tools: &Value, refusals: &mut Refusals) {
        let Some(list) = tools.as_array() else {
            return refusals.add("tools", "is not a list");
        };
        for (index, tool) in list.iter().enumerate() {
            let place = format!("tools[{index}]");
            check_kind(&place, tool.get("name").unwrap_or(&Value::Null), NAME.1, refusals);
            let is_own = matches!(text_of(tool, "type"), None | Some("custom"));
            if is_own && !tool.get("input_schema").is_some_and(Value::is_object) {
                refusals.add(place, "has no `input_schema`");
            }
        }
        let names = list.iter().filter_map(|tool| text_of(tool, "name"));
        check_unique("tools", "tools with the name", names, refusals);
    }

    fn cache_marks(request: &Value) -> usize {
        let is_marked = |block: &&Value| block.get("cache_control").is_some_and(Value::is_object);
        let blocks = || list_of(request, "messages").iter().flat_map(|m| list_of(m, "content"));
        let inner = blocks().flat_map(|block| list_of(block, "content"));
        let tools = list_of(request, "tools").iter();
        let system = list_of(request, "system").iter();
        tools.chain(system).chain(blocks()).chain(inner).filter(is_marked).count()
    }

    fn home_of(message: &Value) -> Option<Home> {
        match text_of(message, "role")? {
            "user" => Some(Home::User),
            "assistant" => Some(Home::Assistant),
            _ => None,
        }
    }

    fn check_message(place: &str, message: &Value, refusals: &mut Refusals) {
        let Some(object) = message.as_object() else {
            return refusals.add(place, "is not an object");
        };
        check_shape(place, object, &MESSAGE, refusals);
        let Some(home) = home_of(message) else {
            return refusals.add(place, "has a role other than user and assistant");
        };
        match object.get("content") {
            Some(Value::Array(blocks)) if blocks.is_empty() => {
                refusals.add(place, "has empty content");
            }
            Some(Value::Array(blocks)) => {
                check_blocks(place, home, blocks, refusals);
                check_order(place, home, blocks, refusals);
                check_server_calls(place, blocks, refusals);
            }
            Some(content) => {
                check_kind(&format!("{place}.content"), content, Kind::Visible, refusals);
            }
            None => {}
        }
    }

    fn check_blocks(place: &str, home: Home, blocks: &[Value], refusals: &mut Refusals) {
        for (index, block) in blocks.iter().enumerate() {
            let place = format!("{place}.content[{index}]");
            check_tagged(&place, block, block_shape, refusals);
            let kind = text_of(block, "type").unwrap_or_default();
            if block_shape(kind).is_some() && !is_at_home(kind, home) {
                refusals.add(&place, format!("has type `{kind}`, not for a place in {home:?}"));
            }
            if kind == "tool_result" {
                check_result_content(&place, block.get("content"), refusals);
            }
        }
    }

    fn check_result_content(place: &str, content: Option<&Value>, refusals: &mut Refusals) {
        match content {
            None | Some(Value::String(_)) => {}
            Some(Value::Array(blocks)) => check_blocks(place, Home::ToolResult, blocks, refusals),
            Some(_) => refusals.add(place, "has content that is neither a string nor a list"),
        }
    }

    fn check_order(place: &str, home: Home, blocks: &[Value], refusals: &mut Refusals) {
        let late = blocks.iter().skip_while(|block| is_result(block)).any(is_result);
        if home == Home::User && late {
            refusals.add(place, "has a `tool_result` behind another block");
        }
        let last = blocks.last().and_then(|block| text_of(block, "type"));
        if matches!(last, Some("thinking" | "redacted_thinking")) {
            refusals.add(place, "ends with thinking");
        }
    }

    /// A server tool runs inside the turn: its result stands behind its call in the same message.
    fn check_server_calls(place: &str, blocks: &[Value], refusals: &mut Refusals) {
        let mut open = Vec::new();
        for block in blocks {
            let kind = text_of(block, "type").unwrap_or_default();
            if matches!(kind, "server_tool_use" | "mcp_tool_use") {
                open.extend(text_of(block, "id").map(|id| (kind == "mcp_tool_use", id)));
            } else if is_server_result(kind) {
                let id = text_of(block, "tool_use_id").unwrap_or_default();
                let call = (kind == "mcp_tool_result", id);
                match open.iter().position(|known| *known == call) {
                    Some(position) => drop(open.remove(position)),
                    None => refusals.add(place, format!("has a `{kind}` without its call `{id}`")),
                }
            }
        }
        for (_, id) in open {
            refusals.add(place, format!("has the server call `{id}` without its result"));
        }
    }

    fn is_result(block: &Value) -> bool {
        text_of(block, "type") == Some("tool_result")
    }

    fn is_call(block: &Value) -> bool {
        let kind = text_of(block, "type");
        matches!(kind, Some("tool_use" | "server_tool_use" | "mcp_tool_use"))
    }

    /// The ids of the client calls that an assistant message makes.
    fn calls_of(message: Option<&Value>) -> Vec<&str> {
        let asking = message.filter(|message| home_of(message) == Some(Home::Assistant));
        let blocks = asking.map_or(&[][..], |message| list_of(message, "content"));
        let calls = blocks.iter().filter(|block| text_of(block, "type") == Some("tool_use"));
        calls.filter_map(|block| text_of(block, "id")).collect()
    }

    /// The ids of the calls that a user message answers.
    fn results_of(message: Option<&Value>) -> Vec<&str> {
        let answering = message.filter(|message| home_of(message) == Some(Home::User));
        let blocks = answering.map_or(&[][..], |message| list_of(message, "content"));
        blocks.iter().filter(|b| is_result(b)).filter_map(|b| text_of(b, "tool_use_id")).collect()
    }

    fn check_calls(messages: &[Value], refusals: &mut Refusals) {
        for (index, message) in messages.iter().enumerate() {
            let results = results_of(messages.get(index + 1));
            for id in calls_of(Some(message)) {
                let place = format!("messages[{index}]");
                match results.iter().filter(|result| **result == id).count() {
                    0 => refusals.add(place, format!("calls `{id}` without a result right after")),
                    1 => {}
                    _ => refusals.add(place, format!("calls `{id}`, which has several results")),
                }
            }
        }
    }

    fn check_results(messages: &[Value], refusals: &mut Refusals) {
        for (index, message) in messages.iter().enumerate() {
            let calls = calls_of(index.checked_sub(1).and_then(|before| messages.get(before)));
            for id in results_of(Some(message)) {
                if !calls.contains(&id) {
                    let reason = format!("has a result without a call `{id}` right before it");
                    refusals.add(format!("messages[{index}]"), reason);
                }
            }
        }
    }
}
