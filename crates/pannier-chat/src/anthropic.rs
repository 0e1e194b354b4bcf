//! Messages as Anthropic's Messages API defines them.

use serde_json::value::RawValue;

use crate::ChatError;
use crate::json::{self, Object};
use crate::message::{TOKENS_PER_TOOL_CALL, PartKind, Message, Part, PartLocation, Role, base64_tokens};

/// Fields of a request that are sent with every message list.
pub(crate) const FIXED_FIELDS: [&str; 2] = ["tools", "system"];

/// What the provider tells a model that has tools, at most.
pub(crate) const TOOLS_PROMPT_TOKENS: i64 = 346;

/// An image at its largest.
const IMAGE_TOKENS: i64 = 1_600;

/// A document that is only named, or the least that one costs; and characters of its data to a token.
const MIN_DOCUMENT_TOKENS: i64 = 3_000;
const DOCUMENT_CHARS_PER_TOKEN: usize = 16;

/// Documents in documents are looked into so many times; deeper ones are counted as they are written.
const MAX_DEPTH: usize = 4;

/// Characters of hidden thoughts to a token.
const THINKING_CHARS_PER_TOKEN: usize = 4;

pub(crate) fn read<'t>(
    path: &str,
    raw: &'t RawValue,
    is_first: bool,
) -> Result<Message<'t>, ChatError> {
    let fields = json::object(path, raw)?;
    let role = match json::required_str(path, &fields, "role")?.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        // In the middle only; the first words of the system are a field of the request.
        "system" if !is_first => Role::System,
        other => {
            let hint = match other {
                "system" => "; put it into the request's `system`, or choose OpenAI's format",
                "tool" | "developer" | "function" => "; choose OpenAI's format",
                _ => "",
            };
            return Err(ChatError::invalid(
                format!("{path}.role"),
                format!("it is '{other}'; it must be user or assistant{hint}"),
            ));
        }
    };
    let mut message = Message::new(raw, fields, role, &["role", "content"]);
    let Some(content) = message.fields.get("content") else {
        return Ok(message);
    };
    let path = format!("{path}.content");
    if json::is_string(content) {
        let part = said(content, PartLocation::Content, json::string(&path, content)?);
        message.parts.push(part);
    } else if json::is_array(content) {
        for (at, raw) in json::array(&path, content)?.into_iter().enumerate() {
            message.parts.push(read_block(&format!("{path}[{at}]"), raw)?);
        }
    } else {
        return Err(ChatError::invalid(path, "it must be a text, or a list of blocks"));
    }
    Ok(message)
}

/// A text, which must not be blank.
fn said(raw: &RawValue, place: PartLocation, text: String) -> Part<'_> {
    let is_kept = !text.trim().is_empty();
    Part { is_kept, ..Part::new(raw, place, PartKind::Text, text) }
}

fn read_block<'t>(path: &str, raw: &'t RawValue) -> Result<Part<'t>, ChatError> {
    let object = json::object(path, raw)?;
    let part = |kind, text: String| Part::new(raw, PartLocation::Contents, kind, text);
    let id = |name: &str| json::required_str(path, &object, name);
    Ok(match json::required_str(path, &object, "type")?.as_str() {
        "text" => said(raw, PartLocation::Contents, json::optional_str(path, &object, "text")?),
        "image" => part(PartKind::Media, "[image]".to_owned()).costing(IMAGE_TOKENS),
        "document" => {
            let (text, tokens) = read_document(path, &object, 0)?;
            part(PartKind::Media, text).costing(tokens)
        }
        "thinking" => part(PartKind::Thinking, json::optional_str(path, &object, "thinking")?),
        "redacted_thinking" => {
            let data = json::optional_str(path, &object, "data")?;
            part(PartKind::Thinking, "[thinking]".to_owned()).costing(base64_tokens(&data, THINKING_CHARS_PER_TOKEN))
        }
        "tool_use" => {
            part(PartKind::ToolCall { id: id("id")? }, called(path, &object)?).costing(TOKENS_PER_TOOL_CALL)
        }
        "server_tool_use" | "mcp_tool_use" => {
            part(PartKind::ServerToolCall { id: id("id")? }, called(path, &object)?).costing(TOKENS_PER_TOOL_CALL)
        }
        "tool_result" => {
            let (text, tokens) = read_result(path, &object, 0)?;
            let tokens = tokens.saturating_add(TOKENS_PER_TOOL_CALL);
            part(PartKind::ToolResult { id: id("tool_use_id")? }, text).costing(tokens)
        }
        kind if kind.ends_with("_tool_result") => {
            let content = object.get("content").map(json::compact).unwrap_or_default();
            part(PartKind::ServerToolResult { id: id("tool_use_id")? }, content).costing(TOKENS_PER_TOOL_CALL)
        }
        _ => part(PartKind::Other, json::compact(raw)),
    })
}

fn called(path: &str, call: &Object<'_>) -> Result<String, ChatError> {
    let name = json::optional_str(path, call, "name")?;
    let input = call.get("input").map(json::compact).unwrap_or_default();
    Ok(format!("{name}({input})"))
}

/// What a tool says, and what its images cost.
fn read_result(path: &str, result: &Object<'_>, depth: usize) -> Result<(String, i64), ChatError> {
    let Some(content) = result.get("content") else {
        return Ok((String::new(), 0));
    };
    let path = format!("{path}.content");
    if json::is_string(content) {
        return Ok((json::string(&path, content)?, 0));
    }
    if !json::is_array(content) {
        return Err(ChatError::invalid(path, "it must be a text, or a list of blocks"));
    }
    let (mut texts, mut tokens) = (Vec::new(), 0_i64);
    for (at, raw) in json::array(&path, content)?.into_iter().enumerate() {
        let path = format!("{path}[{at}]");
        let object = json::object(&path, raw)?;
        let (text, more) = match json::required_str(&path, &object, "type")?.as_str() {
            "text" => (json::optional_str(&path, &object, "text")?, 0),
            "image" => ("[image]".to_owned(), IMAGE_TOKENS),
            "document" if depth < MAX_DEPTH => read_document(&path, &object, depth + 1)?,
            _ => (json::compact(raw), 0),
        };
        texts.push(text);
        tokens = tokens.saturating_add(more);
    }
    Ok((texts.join("\n"), tokens))
}

/// A document's text, if it has one, and otherwise what it costs.
fn read_document(
    path: &str,
    document: &Object<'_>,
    depth: usize,
) -> Result<(String, i64), ChatError> {
    let Some(source) = document.get("source") else {
        return Ok(("[document]".to_owned(), MIN_DOCUMENT_TOKENS));
    };
    // What is said about it is sent with it.
    let about =
        [json::optional_str(path, document, "title")?, json::optional_str(path, document, "context")?];
    let told = |text: String| {
        let all = about.iter().filter(|about| !about.is_empty()).cloned().chain([text]);
        all.collect::<Vec<_>>().join("\n")
    };
    let path = format!("{path}.source");
    let source = json::object(&path, source)?;
    match json::optional_str(&path, &source, "type")?.as_str() {
        "text" => Ok((told(json::optional_str(&path, &source, "data")?), 0)),
        "content" => {
            let (text, tokens) = read_result(&path, &source, depth)?;
            Ok((told(text), tokens))
        }
        "base64" => {
            let data = json::optional_str(&path, &source, "data")?;
            let tokens = base64_tokens(&data, DOCUMENT_CHARS_PER_TOKEN).max(MIN_DOCUMENT_TOKENS);
            Ok((told("[document]".to_owned()), tokens))
        }
        _ => Ok((told("[document]".to_owned()), MIN_DOCUMENT_TOKENS)),
    }
}

/// The `system` of a request: its text, and the value to send if it is another than came.
pub(crate) fn read_system(raw: &RawValue) -> Result<(String, Option<String>), ChatError> {
    if json::is_string(raw) {
        let text = json::string("system", raw)?;
        return Ok((text, None));
    }
    let (mut texts, mut kept) = (Vec::new(), Vec::new());
    let blocks = json::array("system", raw)?;
    let count = blocks.len();
    for (at, raw) in blocks.into_iter().enumerate() {
        let part = read_block(&format!("system[{at}]"), raw)?;
        if part.is_kept {
            texts.push(part.text);
            kept.push(part.raw);
        }
    }
    let changed = (kept.len() < count).then(|| {
        let mut value = String::new();
        json::write_array(kept.into_iter(), &mut value);
        value
    });
    Ok((texts.join("\n"), changed))
}

/// Writes a message without the blocks that are not kept, results first.
pub(crate) fn write(message: &Message<'_>, into: &mut String) {
    let mut parts: Vec<&Part<'_>> = message.kept().collect();
    if message.results_first {
        parts.sort_by_key(|part| !matches!(part.kind, PartKind::ToolResult { .. }));
    }
    let mut begin = "{";
    for (name, value) in &message.fields.0 {
        into.push_str(begin);
        begin = ",";
        json::write_string(name, into);
        into.push(':');
        if name == "content" {
            write_blocks(&parts, into);
        } else {
            json::write(value, into);
        }
    }
    if !message.fields.0.iter().any(|(name, _)| name == "content") {
        into.push_str(",\"content\":");
        write_blocks(&parts, into);
    }
    into.push('}');
}

/// Writes blocks; a content that was a text alone becomes one.
fn write_blocks(parts: &[&Part<'_>], into: &mut String) {
    into.push('[');
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            into.push(',');
        }
        match part.location {
            PartLocation::Content => {
                into.push_str("{\"type\":\"text\",\"text\":");
                json::write(part.raw, into);
                into.push('}');
            }
            _ => json::write(part.raw, into),
        }
    }
    into.push(']');
}
