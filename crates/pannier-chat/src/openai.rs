//! Messages as OpenAI's chat completions define them.

use serde_json::value::RawValue;

use crate::ChatError;
use crate::json::{self, Object};
use crate::message::{TOKENS_PER_TOOL_CALL, PartKind, Message, NO_OUTPUT, Part, PartLocation, Role, base64_tokens};

/// Fields of a request that are sent with every message list.
pub(crate) const FIXED_FIELDS: [&str; 3] = ["tools", "functions", "response_format"];

/// Fields of a message that are read, or that cost nothing.
const KNOWN: [&str; 9] = [
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

/// A small image; and a large one at its largest: eight tiles of 170, and the whole once more.
const LOW_DETAIL_IMAGE_TOKENS: i64 = 85;
const HIGH_DETAIL_IMAGE_TOKENS: i64 = 85 + 8 * 170;

/// A file that is only named, or the least that one costs; and characters of its data to a token.
const MIN_FILE_TOKENS: i64 = 3_000;
const FILE_CHARS_PER_TOKEN: usize = 16;

/// Characters of sound to a token; and an answer that was spoken, which is only named.
const AUDIO_CHARS_PER_TOKEN: usize = 1_024;
const AUDIO_RESPONSE_TOKENS: i64 = 1_000;

pub(crate) fn read<'t>(path: &str, raw: &'t RawValue) -> Result<Message<'t>, ChatError> {
    let fields = json::object(path, raw)?;
    let role = match json::required_str(path, &fields, "role")?.as_str() {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        "function" => Role::Function,
        other => {
            return Err(ChatError::invalid(
                format!("{path}.role"),
                format!(
                    "it is '{other}'; it must be system, developer, user, assistant, tool or function"
                ),
            ));
        }
    };
    let name = json::optional_str(path, &fields, "name")?;
    let answers = match role {
        Role::Tool => Some(json::required_str(path, &fields, "tool_call_id")?),
        Role::Function => Some(String::new()),
        _ => None,
    };
    let mut message = Message::new(raw, fields, role, &KNOWN);
    (message.name, message.answers) = (name, answers);
    read_content(path, &mut message)?;
    if role == Role::Assistant {
        read_rest(path, &mut message)?;
    }
    Ok(message)
}

fn read_content<'t>(path: &str, message: &mut Message<'t>) -> Result<(), ChatError> {
    let Some(content) = message.fields.get("content") else {
        return Ok(());
    };
    let path = format!("{path}.content");
    if json::is_string(content) {
        let text = json::string(&path, content)?;
        let is_kept = !text.is_empty();
        let part = Part::new(content, PartLocation::Content, PartKind::Text, text);
        message.parts.push(Part { is_kept, ..part });
        return Ok(());
    }
    if !json::is_array(content) {
        let problem = "it must be a text, or a list of parts";
        return Err(ChatError::invalid(path, problem));
    }
    let parts = json::array(&path, content)?;
    message.has_empty_arrays |= parts.is_empty();
    for (at, raw) in parts.into_iter().enumerate() {
        message.parts.push(read_part(&format!("{path}[{at}]"), raw)?);
    }
    Ok(())
}

fn read_part<'t>(path: &str, raw: &'t RawValue) -> Result<Part<'t>, ChatError> {
    let object = json::object(path, raw)?;
    let inner = |name: &str| -> Result<Object<'t>, ChatError> {
        let value = object.get(name);
        value.map_or(Ok(Object(Vec::new())), |value| json::object(&format!("{path}.{name}"), value))
    };
    let part = |kind, text: String| Part::new(raw, PartLocation::Contents, kind, text);
    Ok(match json::required_str(path, &object, "type")?.as_str() {
        kind @ ("text" | "refusal") => {
            let text = json::optional_str(path, &object, kind)?;
            let is_kept = !text.is_empty();
            Part { is_kept, ..part(PartKind::Text, text) }
        }
        "image_url" => {
            let image = inner("image_url")?;
            let is_small = json::optional_str(path, &image, "detail")? == "low";
            part(PartKind::Media, "[image]".to_owned()).costing(if is_small {
                LOW_DETAIL_IMAGE_TOKENS
            } else {
                HIGH_DETAIL_IMAGE_TOKENS
            })
        }
        "input_audio" => {
            let data = json::optional_str(path, &inner("input_audio")?, "data")?;
            part(PartKind::Media, "[audio]".to_owned()).costing(base64_tokens(&data, AUDIO_CHARS_PER_TOKEN))
        }
        "file" => {
            let data = json::optional_str(path, &inner("file")?, "file_data")?;
            let tokens = base64_tokens(&data, FILE_CHARS_PER_TOKEN).max(MIN_FILE_TOKENS);
            part(PartKind::Media, "[file]".to_owned()).costing(tokens)
        }
        kind @ ("tool_use" | "tool_result") => {
            let problem = format!("a {kind} is Anthropic's; choose that format");
            return Err(ChatError::invalid(path, problem));
        }
        _ => part(PartKind::Other, json::compact(raw)),
    })
}

/// What an assistant has besides content.
fn read_rest<'t>(path: &str, message: &mut Message<'t>) -> Result<(), ChatError> {
    if let Some(raw) = message.fields.get("refusal") {
        let text = json::string(&format!("{path}.refusal"), raw)?;
        if !text.is_empty() {
            message.parts.push(Part::new(raw, PartLocation::Field("refusal"), PartKind::Text, text));
        }
    }
    if let Some(raw) = message.fields.get("audio") {
        let part = Part::new(raw, PartLocation::Field("audio"), PartKind::Media, "[audio]".to_owned());
        message.parts.push(part.costing(AUDIO_RESPONSE_TOKENS));
    }
    if let Some(raw) = message.fields.get("function_call") {
        let path = format!("{path}.function_call");
        let text = called(&path, &json::object(&path, raw)?, "arguments")?;
        let kind = PartKind::ToolCall { id: String::new() };
        let part = Part::new(raw, PartLocation::Field("function_call"), kind, text);
        message.parts.push(part.costing(TOKENS_PER_TOOL_CALL));
    }
    if let Some(calls) = message.fields.get("tool_calls") {
        let path = format!("{path}.tool_calls");
        let calls = json::array(&path, calls)?;
        message.has_empty_arrays |= calls.is_empty();
        for (at, raw) in calls.into_iter().enumerate() {
            message.parts.push(read_call(&format!("{path}[{at}]"), raw)?);
        }
    }
    Ok(())
}

fn read_call<'t>(path: &str, raw: &'t RawValue) -> Result<Part<'t>, ChatError> {
    let object = json::object(path, raw)?;
    let id = json::required_str(path, &object, "id")?;
    let text = match (object.get("function"), object.get("custom")) {
        (Some(function), _) => {
            let path = format!("{path}.function");
            called(&path, &json::object(&path, function)?, "arguments")?
        }
        (None, Some(custom)) => {
            let path = format!("{path}.custom");
            called(&path, &json::object(&path, custom)?, "input")?
        }
        (None, None) => json::compact(raw),
    };
    Ok(Part::new(raw, PartLocation::Calls, PartKind::ToolCall { id }, text).costing(TOKENS_PER_TOOL_CALL))
}

fn called(path: &str, call: &Object<'_>, arguments: &str) -> Result<String, ChatError> {
    let name = json::optional_str(path, call, "name")?;
    let arguments = json::optional_str(path, call, arguments)?;
    Ok(format!("{name}({arguments})"))
}

/// Writes a message without the parts that are not kept.
pub(crate) fn write(message: &Message<'_>, into: &mut String) {
    let of = |place: PartLocation| message.kept().filter(move |part| part.location == place);
    let mut begin = "{";
    for (name, value) in &message.fields.0 {
        let is_gone = match name.as_str() {
            "tool_calls" => of(PartLocation::Calls).next().is_none(),
            "function_call" => of(PartLocation::Field("function_call")).next().is_none(),
            _ => false,
        };
        if is_gone {
            continue;
        }
        into.push_str(begin);
        begin = ",";
        json::write_string(name, into);
        into.push(':');
        match name.as_str() {
            "content" => write_content(message, value, into),
            "tool_calls" => json::write_array(of(PartLocation::Calls).map(|part| part.raw), into),
            _ => json::write(value, into),
        }
    }
    if message.is_empty_tool_result() && !message.fields.0.iter().any(|(name, _)| name == "content") {
        into.push_str(",\"content\":");
        json::write_string(NO_OUTPUT, into);
    }
    into.push('}');
}

fn write_content(message: &Message<'_>, value: &RawValue, into: &mut String) {
    let said = message.kept().filter(|part| matches!(part.location, PartLocation::Content | PartLocation::Contents));
    let mut said = said.map(|part| part.raw).peekable();
    match said.peek() {
        None if message.is_empty_tool_result() => json::write_string(NO_OUTPUT, into),
        None => into.push_str("null"),
        Some(_) if json::is_string(value) => json::write(value, into),
        Some(_) => json::write_array(said, into),
    }
}
