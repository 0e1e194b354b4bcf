//! Parses and writes items of OpenAI's Responses API.
//!
//! Each item is a message: a text of a role, a call, an output, or reasoning. A call and its output have the same `call_id`.

use std::fmt::Arguments;

use crate::ChatError;
use crate::json::{self, Element, Object, RawJson};
use crate::message::{
    Body, Message, NO_OUTPUT, Part, PartKind, PartLocation, Role, TOKENS_PER_TOOL_CALL,
    base64_tokens,
};
use crate::openai::{
    AUDIO_CHARS_PER_TOKEN, FILE_CHARS_PER_TOKEN, MIN_FILE_TOKENS, image_tokens, with_call,
    write_content,
};

/// The request fields that are sent with every selection.
pub(crate) const FIXED_FIELDS: [&str; 3] = ["tools", "instructions", "text"];

/// The request fields that refer to items on the server, among which may be the calls of outputs.
pub(crate) const CONTINUED_FIELDS: [&str; 2] = ["previous_response_id", "conversation"];

/// The fields of messages and outputs that are parsed or cost no tokens.
const KNOWN_FIELDS: [&str; 7] = ["type", "role", "content", "output", "call_id", "id", "status"];

/// The characters of encrypted reasoning per token.
const REASONING_CHARS_PER_TOKEN: usize = 4;

pub(crate) fn read<'t>(path: Arguments<'_>, item: Element<'t>) -> Result<Message<'t>, ChatError> {
    let raw = item.raw;
    if json::is_string(raw) {
        // The whole input may be one text of the user.
        let mut message = Message::new(raw, Object(Vec::new()), Role::User, &[]);
        message.parts.push(text_part(raw, PartLocation::Content, raw, json::string(path, raw)?));
        return Ok(message);
    }
    let fields = item.object(path)?;
    let kind = json::optional_str(path, &fields, "type")?;
    let call_id = json::optional_str(path, &fields, "call_id")?;
    match kind.as_str() {
        "" | "message" => read_message(path, raw, fields),
        "reasoning" => {
            let summary = inner_texts(path, &fields, "summary")?;
            let texts = [summary, inner_texts(path, &fields, "content")?].concat();
            let data = json::optional_str(path, &fields, "encrypted_content")?;
            let part = item_part(raw, PartKind::Thinking, texts.join("\n"));
            let part = part.with_tokens(base64_tokens(&data, REASONING_CHARS_PER_TOKEN));
            Ok(assistant(fields, part))
        }
        kind if kind.ends_with("_output") => {
            let id = match call_id.is_empty() {
                true => json::required_str(path, &fields, "id")?.into_owned(),
                false => call_id,
            };
            let mut message = Message::new(raw, fields, Role::Tool, &KNOWN_FIELDS);
            message.answers = Some(id);
            read_content(path, "output", &mut message)?;
            Ok(message)
        }
        kind if kind.ends_with("_call") && !call_id.is_empty() => {
            let part = |text| item_part(raw, PartKind::ToolCall { id: call_id }, text);
            let part = match (fields.get("arguments"), fields.get("input"), fields.get("action")) {
                (Some(_), ..) => with_call(path, part(String::new()), &fields, "arguments")?,
                (None, Some(_), _) => with_call(path, part(String::new()), &fields, "input")?,
                (None, None, action) => {
                    part(json::compact(action.unwrap_or(raw))).with_tokens(TOKENS_PER_TOOL_CALL)
                }
            };
            Ok(assistant(fields, part))
        }
        // A tool that the provider runs: the item has call and result.
        _ => Ok(assistant(fields, item_part(raw, PartKind::Other, json::compact(raw)))),
    }
}

/// Returns a part that is a whole item.
fn item_part(raw: RawJson<'_>, kind: PartKind, text: String) -> Part<'_> {
    Part::new(raw, PartLocation::Item, kind, text)
}

/// Returns the message of an item that the model wrote.
fn assistant<'t>(fields: Object<'t>, part: Part<'t>) -> Message<'t> {
    // The text of the part has all fields that cost tokens.
    let mut message = Message::new(part.raw, fields, Role::Assistant, &[]);
    message.extras.clear();
    message.parts.push(part);
    message
}

fn read_message<'t>(
    path: Arguments<'_>,
    raw: RawJson<'t>,
    fields: Object<'t>,
) -> Result<Message<'t>, ChatError> {
    let role = match &*json::required_str(path, &fields, "role")? {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        other => {
            let problem =
                format!("it is '{other}'; it must be system, developer, user or assistant");
            return Err(ChatError::invalid(format_args!("{path}.role"), problem));
        }
    };
    let mut message = Message::new(raw, fields, role, &KNOWN_FIELDS);
    read_content(path, "content", &mut message)?;
    Ok(message)
}

/// Returns the texts in a list of parts.
fn inner_texts(
    path: Arguments<'_>,
    fields: &Object<'_>,
    name: &str,
) -> Result<Vec<String>, ChatError> {
    let Some(list) = fields.get(name).filter(|list| json::is_array(*list)) else {
        return Ok(Vec::new());
    };
    let path = format_args!("{path}.{name}");
    let text = |raw| json::optional_str(path, &json::object(path, raw)?, "text");
    json::array(path, list)?.into_iter().map(text).collect()
}

/// Reads the content of a message, or the output of a call.
fn read_content<'t>(
    path: Arguments<'_>,
    name: &str,
    message: &mut Message<'t>,
) -> Result<(), ChatError> {
    let Some(content) = message.fields.get(name) else {
        return Ok(());
    };
    let path = format_args!("{path}.{name}");
    if json::is_string(content) {
        let text = json::string(path, content)?;
        let part = text_part(content, PartLocation::Content, content, text);
        // An output may be empty.
        let is_kept = part.is_kept || message.answers.is_some();
        message.parts.push(Part { is_kept, ..part });
    } else if json::is_array(content) {
        let parts = json::elements(path, content)?;
        message.has_empty_arrays |= parts.is_empty();
        for (index, part) in parts.into_iter().enumerate() {
            message.parts.push(read_part(format_args!("{path}[{index}]"), part)?);
        }
    } else {
        let part =
            Part::new(content, PartLocation::Content, PartKind::Other, json::compact(content));
        message.parts.push(part.with_body(Some(Body::Text(content))));
    }
    Ok(())
}

/// Returns a text part with its `body`, which is kept unless it is empty.
fn text_part<'t>(
    raw: RawJson<'t>,
    location: PartLocation,
    body: RawJson<'t>,
    text: String,
) -> Part<'t> {
    let part = Part::new(raw, location, PartKind::Text, text).with_body(Some(Body::Text(body)));
    Part { is_kept: !part.text.is_empty(), ..part }
}

fn read_part<'t>(path: Arguments<'_>, part: Element<'t>) -> Result<Part<'t>, ChatError> {
    let raw = part.raw;
    let object = part.object(path)?;
    let media = |text: &str, tokens: i64| {
        let part = Part::new(raw, PartLocation::ContentArray, PartKind::Media, text.to_owned());
        part.with_tokens(tokens)
    };
    Ok(match &*json::required_str(path, &object, "type")? {
        kind @ ("input_text" | "output_text" | "text" | "refusal") => {
            let name = if kind == "refusal" { kind } else { "text" };
            let text = json::optional_str(path, &object, name)?;
            let body = object.get(name).unwrap_or(raw);
            text_part(raw, PartLocation::ContentArray, body, text)
        }
        "input_image" => media("[image]", image_tokens(path, &object)?),
        "input_file" => {
            let data = json::optional_str(path, &object, "file_data")?;
            media("[file]", base64_tokens(&data, FILE_CHARS_PER_TOKEN).max(MIN_FILE_TOKENS))
        }
        "input_audio" => {
            let audio = object.get("input_audio").map(|audio| json::object(path, audio));
            let audio = audio.transpose()?.unwrap_or(Object(Vec::new()));
            let data = json::optional_str(path, &audio, "data")?;
            media("[audio]", base64_tokens(&data, AUDIO_CHARS_PER_TOKEN))
        }
        _ => Part::new(raw, PartLocation::ContentArray, PartKind::Other, json::compact(raw)),
    })
}

/// Writes the kept parts of an item.
pub(crate) fn write(message: &Message<'_>, into: &mut String) {
    if let [part] = message.parts.as_slice()
        && part.location == PartLocation::Item
    {
        return part.write(into);
    }
    let required = message.is_empty_tool_result().then_some("output");
    let fields = message.fields.0.iter();
    json::write_fields(fields, required, into, |name, value, into| match (name, value) {
        (_, None) => json::write_string(NO_OUTPUT, into),
        ("content" | "output", Some(value)) => write_content(message, value, "input_text", into),
        (_, Some(value)) => json::write(value, into),
    });
}
