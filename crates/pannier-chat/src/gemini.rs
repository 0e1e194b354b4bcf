//! Parses and writes the contents of Gemini's `generateContent`.
//!
//! The kind of a part is the name of its field. Names are in camel case or, from some clients, in snake case. Calls need not
//! have ids: then the results of a name answer the calls of that name in order.

use std::collections::BTreeSet;
use std::fmt::Arguments;

use crate::ChatError;
use crate::json::{self, Element, Object, RawJson};
use crate::message::{
    Body, Message, Part, PartKind, PartLocation, Role, TOKENS_PER_TOOL_CALL, base64_tokens,
};

/// The request fields that are sent with every selection.
pub(crate) const FIXED_FIELDS: [&str; 3] = ["tools", "systemInstruction", "system_instruction"];

/// The tokens of an image in high resolution.
const IMAGE_TOKENS: i64 = 1_120;

/// The base64 characters of audio per token.
const AUDIO_CHARS_PER_TOKEN: usize = 256;

/// The minimum tokens of another file, also used if its data is not in the request.
const MIN_FILE_TOKENS: i64 = 3_000;
const FILE_CHARS_PER_TOKEN: usize = 16;

/// The characters of a thought signature per token.
const SIGNATURE_CHARS_PER_TOKEN: usize = 4;

pub(crate) fn read<'t>(
    path: Arguments<'_>,
    mut content: Element<'t>,
) -> Result<Message<'t>, ChatError> {
    let (raw, elements) = (content.raw, content.take_list());
    let fields = content.object(path)?;
    let role = match json::optional_str(path, &fields, "role")?.as_str() {
        "" | "user" | "function" => Role::User,
        "model" => Role::Assistant,
        other => {
            let hint = match other {
                "system" => "; put it into the request's `systemInstruction`",
                "assistant" => "; name the provider openai or anthropic",
                _ => "",
            };
            let problem = format!("it is '{other}'; it must be user or model{hint}");
            return Err(ChatError::invalid(format_args!("{path}.role"), problem));
        }
    };
    let mut message = Message::new(raw, fields, role, &["role", "parts"]);
    if let Some(parts) = message.fields.get("parts") {
        let path = format_args!("{path}.parts");
        let elements = elements.map_or_else(|| json::elements(path, parts), Ok)?;
        for (index, part) in elements.into_iter().enumerate() {
            message.parts.push(read_part(format_args!("{path}[{index}]"), part)?);
        }
    }
    Ok(message)
}

/// Returns a field by its name in camel case, or else in snake case.
fn field<'t>(object: &Object<'t>, camel: &str, snake: &str) -> Option<RawJson<'t>> {
    object.get(camel).or_else(|| object.get(snake))
}

/// Returns the string in such a field, or an empty one if the field is missing.
fn optional_str(
    path: Arguments<'_>,
    object: &Object<'_>,
    camel: &str,
    snake: &str,
) -> Result<String, ChatError> {
    field(object, camel, snake).map_or(Ok(String::new()), |value| json::string(path, value))
}

fn read_part<'t>(path: Arguments<'_>, part: Element<'t>) -> Result<Part<'t>, ChatError> {
    let raw = part.raw;
    let object = part.object(path)?;
    let part = |kind, text: String, tokens| {
        Part::new(raw, PartLocation::ContentArray, kind, text).with_tokens(tokens)
    };
    let signature = optional_str(path, &object, "thoughtSignature", "thought_signature")?;
    let signature = base64_tokens(&signature, SIGNATURE_CHARS_PER_TOKEN);
    if let Some(value) = object.get("text") {
        let text = json::string(format_args!("{path}.text"), value)?;
        // What is signed is sent as it is.
        let body = Some(Body::Text(value)).filter(|_| signature == 0);
        // A signature may come with an empty text.
        let is_kept = !text.is_empty() || signature > 0;
        let is_thought = object.get("thought").is_some_and(|value| value.get() == "true");
        let kind = if is_thought { PartKind::Thinking } else { PartKind::Text };
        return Ok(Part { is_kept, ..part(kind, text, signature).with_body(body) });
    }
    if let Some(call) = field(&object, "functionCall", "function_call") {
        let path = format_args!("{path}.functionCall");
        let call = json::object(path, call)?;
        let tool = json::optional_str(path, &call, "name")?;
        let args = call.get("args");
        let text = format!("{tool} {}", args.map(json::spaced).unwrap_or_default());
        let kind = PartKind::ToolCall { id: json::optional_str(path, &call, "id")? };
        let part = part(kind, text, signature.saturating_add(TOKENS_PER_TOOL_CALL));
        return Ok(Part {
            tool,
            ..part.with_body(args.filter(|_| signature == 0).map(Body::Object))
        });
    }
    if let Some(result) = field(&object, "functionResponse", "function_response") {
        let path = format_args!("{path}.functionResponse");
        let result = json::object(path, result)?;
        let (text, tokens, body) = read_response(path, &result)?;
        let kind = PartKind::ToolResult { id: json::optional_str(path, &result, "id")? };
        let tokens = tokens.saturating_add(TOKENS_PER_TOOL_CALL);
        return Ok(part(kind, text, tokens).with_body(body));
    }
    if let Some(tokens) = media_tokens(path, &object)? {
        return Ok(part(PartKind::Media, "[media]".to_owned(), tokens));
    }
    Ok(part(PartKind::Other, json::compact(raw), 0))
}

/// Returns the tokens of inline data or a file, if the object has one.
fn media_tokens(path: Arguments<'_>, object: &Object<'_>) -> Result<Option<i64>, ChatError> {
    let media = field(object, "inlineData", "inline_data");
    let Some(media) = media.or_else(|| field(object, "fileData", "file_data")) else {
        return Ok(None);
    };
    let media = json::object(path, media)?;
    let kind = optional_str(path, &media, "mimeType", "mime_type")?;
    let data = json::optional_str(path, &media, "data")?;
    Ok(Some(match kind.split('/').next() {
        Some("image") => IMAGE_TOKENS,
        Some("audio") if !data.is_empty() => base64_tokens(&data, AUDIO_CHARS_PER_TOKEN),
        _ => base64_tokens(&data, FILE_CHARS_PER_TOKEN).max(MIN_FILE_TOKENS),
    }))
}

/// Returns the text of a function's response, the tokens of the media in it, and the value that a text can replace. The text
/// of a response with one string is that string.
fn read_response<'t>(
    path: Arguments<'_>,
    result: &Object<'t>,
) -> Result<(String, i64, Option<Body<'t>>), ChatError> {
    let mut tokens = 0_i64;
    if let Some(parts) = result.get("parts") {
        for raw in json::array(path, parts)? {
            let media = media_tokens(path, &json::object(path, raw)?)?;
            tokens = tokens.saturating_add(media.unwrap_or(MIN_FILE_TOKENS));
        }
    }
    let Some(response) = result.get("response") else {
        return Ok((String::new(), tokens, None));
    };
    let fields = json::object(path, response).map(|response| response.0).unwrap_or_default();
    Ok(match fields.as_slice() {
        [(_, value)] if json::is_string(*value) => {
            (json::string(path, *value)?, tokens, Some(Body::Text(*value)))
        }
        _ => (json::spaced(response), tokens, Some(Body::Response(response))),
    })
}

/// Gives each call an id, and each result the id of its call in the message before it.
///
/// A call without an id, or with that of an earlier one, is named after its function and numbered.
pub(crate) fn assign_ids(messages: &mut [Message<'_>]) {
    let (mut used, mut number) = (BTreeSet::new(), 0);
    // The calls that may be answered: the recorded id, the name, and the given id.
    let mut open: Vec<(String, String, String)> = Vec::new();
    for message in messages {
        if message.role == Role::Assistant {
            open.clear();
        }
        for part in &mut message.parts {
            let name = function_name(part.raw);
            match &mut part.kind {
                PartKind::ToolCall { id } => {
                    let recorded = id.clone();
                    while id.is_empty() || !used.insert(id.clone()) {
                        number += 1;
                        *id = format!("{name}-{number}");
                    }
                    open.push((recorded, name, id.clone()));
                }
                PartKind::ToolResult { id } => {
                    let matches =
                        |(recorded, called, _): &(String, String, String)| match id.is_empty() {
                            true => *called == name,
                            false => recorded == id || recorded.is_empty() && *called == name,
                        };
                    let call = open.iter().position(matches);
                    *id = call.map(|call| open.remove(call).2).unwrap_or_default();
                }
                _ => {}
            }
        }
    }
}

/// Returns the name in a call or a response.
fn function_name(part: RawJson<'_>) -> String {
    let name = || {
        let part = json::object("part", part).ok()?;
        let call = field(&part, "functionCall", "function_call");
        let call = call.or_else(|| field(&part, "functionResponse", "function_response"))?;
        json::optional_str("part", &json::object("part", call).ok()?, "name").ok()
    };
    name().unwrap_or_default()
}

/// Reads the system instruction of a request: contents, or a text.
pub(crate) fn read_system(raw: RawJson<'_>) -> Result<String, ChatError> {
    if json::is_string(raw) {
        return json::string("systemInstruction", raw);
    }
    let message = read(format_args!("systemInstruction"), raw.into()).map(|message| message.text());
    // A system instruction may have any role.
    message.or_else(|_| Ok(json::compact(raw)))
}

/// Writes the kept parts of a message. A note becomes a text.
pub(crate) fn write(message: &Message<'_>, into: &mut String) {
    let write_parts = |into: &mut String| {
        json::write_array(message.kept(), into, Part::write);
        if let Some(note) = &message.note {
            into.truncate(into.len() - 1);
            into.push_str(",{\"text\":");
            json::write_string(note, into);
            into.push_str("}]");
        }
    };
    let fields = message.fields.0.iter();
    json::write_fields(fields, Some("parts"), into, |name, value, into| match value {
        Some(value) if name != "parts" => json::write(value, into),
        _ => write_parts(into),
    });
}
