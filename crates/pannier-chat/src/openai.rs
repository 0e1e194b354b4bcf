//! Parses and writes messages of OpenAI's Chat Completions API.

use std::fmt::Arguments;

use crate::ChatError;
use crate::json::{self, Element, Object, ObjectField, RawJson};
use crate::message::{
    Body, Message, NO_OUTPUT, Part, PartKind, PartLocation, Role, TOKENS_PER_TOOL_CALL,
    base64_tokens,
};

/// The request fields that are sent with every selection.
pub(crate) const FIXED_FIELDS: [&str; 3] = ["tools", "functions", "response_format"];

/// The message fields that are parsed or cost no tokens.
const KNOWN_FIELDS: [&str; 9] = [
    "role",
    "content",
    "name",
    "tool_call_id",
    "tool_calls",
    "function_call",
    "refusal",
    "audio",
    "id",
];

/// The tokens of an image with low detail, and the maximum of others: eight tiles of 170, plus the low-detail version.
const LOW_DETAIL_IMAGE_TOKENS: i64 = 85;
const HIGH_DETAIL_IMAGE_TOKENS: i64 = 85 + 8 * 170;

/// The minimum tokens of a file, also used if its data is not in the request.
pub(crate) const MIN_FILE_TOKENS: i64 = 3_000;
pub(crate) const FILE_CHARS_PER_TOKEN: usize = 16;

/// The base64 characters of audio per token, and the tokens of an audio response, which is given by its id.
pub(crate) const AUDIO_CHARS_PER_TOKEN: usize = 1_024;
const AUDIO_RESPONSE_TOKENS: i64 = 1_000;

pub(crate) fn read<'t>(
    path: Arguments<'_>,
    mut message: Element<'t>,
) -> Result<Message<'t>, ChatError> {
    let (raw, parts) = (message.raw, message.take_list());
    let fields = message.object(path)?;
    let role = match &*json::required_str(path, &fields, "role")? {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        "function" => Role::Function,
        other => {
            return Err(ChatError::invalid(
                format_args!("{path}.role"),
                format!(
                    "it is '{other}'; it must be system, developer, user, assistant, tool or function"
                ),
            ));
        }
    };
    let name = json::optional_str(path, &fields, "name")?;
    let answers = match role {
        Role::Tool => Some(json::required_str(path, &fields, "tool_call_id")?.into_owned()),
        Role::Function => Some(String::new()),
        _ => None,
    };
    let mut message = Message::new(raw, fields, role, &KNOWN_FIELDS);
    (message.name, message.answers) = (name, answers);
    read_content(path, parts, &mut message)?;
    if role == Role::Assistant {
        read_assistant_fields(path, &mut message)?;
    }
    Ok(message)
}

fn read_content<'t>(
    path: Arguments<'_>,
    parts: Option<Vec<Element<'t>>>,
    message: &mut Message<'t>,
) -> Result<(), ChatError> {
    let Some(content) = message.fields.get("content") else {
        return Ok(());
    };
    let path = format_args!("{path}.content");
    if json::is_string(content) {
        let text = json::string(path, content)?;
        let is_kept = !text.is_empty();
        let part = Part::new(content, PartLocation::Content, PartKind::Text, text)
            .with_body(Some(Body::Text(content)));
        message.parts.push(Part { is_kept, ..part });
        return Ok(());
    }
    if !json::is_array(content) {
        let problem = "it must be a text, or a list of parts";
        return Err(ChatError::invalid(path, problem));
    }
    let parts = parts.map_or_else(|| json::elements(path, content), Ok)?;
    message.has_empty_arrays |= parts.is_empty();
    for (index, part) in parts.into_iter().enumerate() {
        message.parts.push(read_part(format_args!("{path}[{index}]"), part)?);
    }
    Ok(())
}

fn read_part<'t>(path: Arguments<'_>, part: Element<'t>) -> Result<Part<'t>, ChatError> {
    let raw = part.raw;
    let object = part.object(path)?;
    let inner = |name: &str| -> Result<Object<'t>, ChatError> {
        let value = object.get(name);
        value.map_or(Ok(Object(Vec::new())), |value| {
            json::object(format_args!("{path}.{name}"), value)
        })
    };
    let part = |kind, text: String| Part::new(raw, PartLocation::ContentArray, kind, text);
    Ok(match &*json::required_str(path, &object, "type")? {
        kind @ ("text" | "refusal") => {
            let text = json::optional_str(path, &object, kind)?;
            let is_kept = !text.is_empty();
            let body = object.get(kind).filter(|_| kind == "text").map(Body::Text);
            Part { is_kept, ..part(PartKind::Text, text).with_body(body) }
        }
        "image_url" => {
            let tokens = image_tokens(path, &inner("image_url")?)?;
            part(PartKind::Media, "[image]".to_owned()).with_tokens(tokens)
        }
        "input_audio" => {
            let data = json::optional_str(path, &inner("input_audio")?, "data")?;
            part(PartKind::Media, "[audio]".to_owned())
                .with_tokens(base64_tokens(&data, AUDIO_CHARS_PER_TOKEN))
        }
        "file" => {
            let data = json::optional_str(path, &inner("file")?, "file_data")?;
            let tokens = base64_tokens(&data, FILE_CHARS_PER_TOKEN).max(MIN_FILE_TOKENS);
            part(PartKind::Media, "[file]".to_owned()).with_tokens(tokens)
        }
        kind @ ("tool_use" | "tool_result") => {
            let problem = format!("a {kind} is Anthropic's; name that provider");
            return Err(ChatError::invalid(path, problem));
        }
        _ => part(PartKind::Other, json::compact(raw)),
    })
}

/// Returns the tokens of an image by its `detail`.
pub(crate) fn image_tokens(path: Arguments<'_>, image: &Object<'_>) -> Result<i64, ChatError> {
    Ok(match json::optional_str(path, image, "detail")?.as_str() {
        "low" => LOW_DETAIL_IMAGE_TOKENS,
        _ => HIGH_DETAIL_IMAGE_TOKENS,
    })
}

/// Reads the fields of an assistant message other than its content.
fn read_assistant_fields<'t>(
    path: Arguments<'_>,
    message: &mut Message<'t>,
) -> Result<(), ChatError> {
    if let Some(raw) = message.fields.get("refusal") {
        let text = json::string(format_args!("{path}.refusal"), raw)?;
        if !text.is_empty() {
            message.parts.push(Part::new(
                raw,
                PartLocation::Field("refusal"),
                PartKind::Text,
                text,
            ));
        }
    }
    if let Some(raw) = message.fields.get("audio") {
        let part =
            Part::new(raw, PartLocation::Field("audio"), PartKind::Media, "[audio]".to_owned());
        message.parts.push(part.with_tokens(AUDIO_RESPONSE_TOKENS));
    }
    if let Some(raw) = message.fields.get("function_call") {
        let path = format_args!("{path}.function_call");
        let kind = PartKind::ToolCall { id: String::new() };
        let part = Part::new(raw, PartLocation::Field("function_call"), kind, String::new());
        message.parts.push(with_call(path, part, &json::object(path, raw)?, "arguments")?);
    }
    if let Some(calls) = message.fields.get("tool_calls") {
        let path = format_args!("{path}.tool_calls");
        let calls = json::elements(path, calls)?;
        message.has_empty_arrays |= calls.is_empty();
        for (index, call) in calls.into_iter().enumerate() {
            message.parts.push(read_call(format_args!("{path}[{index}]"), call)?);
        }
    }
    Ok(())
}

fn read_call<'t>(path: Arguments<'_>, call: Element<'t>) -> Result<Part<'t>, ChatError> {
    let raw = call.raw;
    let object = call.object(path)?;
    let id = json::required_str(path, &object, "id")?.into_owned();
    let kind = PartKind::ToolCall { id };
    let part = |text| Part::new(raw, PartLocation::ToolCalls, kind, text);
    match (object.get("function"), object.get("custom")) {
        (Some(function), _) => {
            let path = format_args!("{path}.function");
            with_call(path, part(String::new()), &json::object(path, function)?, "arguments")
        }
        (None, Some(custom)) => {
            let path = format_args!("{path}.custom");
            with_call(path, part(String::new()), &json::object(path, custom)?, "input")
        }
        (None, None) => Ok(part(json::compact(raw)).with_tokens(TOKENS_PER_TOOL_CALL)),
    }
}

/// Completes a part by the name and the `arguments` or `input` of a call.
pub(crate) fn with_call<'t>(
    path: Arguments<'_>,
    part: Part<'t>,
    call: &Object<'t>,
    field: &str,
) -> Result<Part<'t>, ChatError> {
    let tool = json::optional_str(path, call, "name")?;
    let input = json::optional_str(path, call, field)?;
    let body = if field == "arguments" { Body::ObjectString } else { Body::Text };
    let part = part.with_tokens(TOKENS_PER_TOOL_CALL).with_body(call.get(field).map(body));
    Ok(Part { text: format!("{tool} {input}"), tool, ..part })
}

/// Writes the kept parts of a message.
pub(crate) fn write(message: &Message<'_>, into: &mut String) {
    let parts_at =
        |location: PartLocation| message.kept().filter(move |part| part.location == location);
    let is_sent = |(name, _): &&ObjectField<'_>| match &**name {
        "tool_calls" => parts_at(PartLocation::ToolCalls).next().is_some(),
        "function_call" => parts_at(PartLocation::Field("function_call")).next().is_some(),
        _ => true,
    };
    let required = message.is_empty_tool_result().then_some("content");
    let fields = message.fields.0.iter().filter(is_sent);
    json::write_fields(fields, required, into, |name, value, into| match (name, value) {
        (_, None) => json::write_string(NO_OUTPUT, into),
        ("content", Some(value)) => write_content(message, value, "text", into),
        ("tool_calls", _) => {
            json::write_array(parts_at(PartLocation::ToolCalls), into, Part::write);
        }
        ("function_call", _) => {
            parts_at(PartLocation::Field("function_call")).for_each(|part| part.write(into));
        }
        (_, Some(value)) => json::write(value, into),
    });
}

/// Returns a text with a note at its end.
pub(crate) fn with_note(text: &str, note: &str) -> String {
    format!("{text}\n\n{note}")
}

/// Writes the kept parts of a content. A note becomes a part of the given type.
pub(crate) fn write_content(
    message: &Message<'_>,
    value: RawJson<'_>,
    note_type: &str,
    into: &mut String,
) {
    let parts = message
        .kept()
        .filter(|part| matches!(part.location, PartLocation::Content | PartLocation::ContentArray));
    let mut parts = parts.peekable();
    match (parts.peek(), &message.note) {
        (None, _) if message.is_empty_tool_result() => json::write_string(NO_OUTPUT, into),
        (None, _) => into.push_str("null"),
        (Some(part), Some(note)) if json::is_string(value) => {
            json::write_string(&with_note(&part.text, note), into);
        }
        (Some(part), None) if json::is_string(value) => part.write(into),
        (Some(_), None) => json::write_array(parts, into, Part::write),
        (Some(_), Some(note)) => {
            json::write_array(parts, into, Part::write);
            into.truncate(into.len() - 1);
            into.push_str(",{\"type\":");
            json::write_string(note_type, into);
            into.push_str(",\"text\":");
            json::write_string(note, into);
            into.push_str("}]");
        }
    }
}
