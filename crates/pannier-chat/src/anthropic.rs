//! Parses and writes messages of Anthropic's Messages API.

use std::borrow::Cow;
use std::fmt::Arguments;

use crate::ChatError;
use crate::json::{self, Element, Object, RawJson};
use crate::message::{
    Body, Message, Part, PartKind, PartLocation, Role, TOKENS_PER_TOOL_CALL, base64_tokens,
};

/// The request fields that are sent with every selection.
pub(crate) const FIXED_FIELDS: [&str; 2] = ["tools", "system"];

/// The field of a block up to which the provider caches, and the maximum number of such blocks in a request.
pub(crate) const CACHE_CONTROL: &str = "cache_control";
pub(crate) const MAX_BREAKPOINTS: usize = 4;

/// The maximum size of the system prompt that the provider adds for tools.
pub(crate) const TOOLS_PROMPT_TOKENS: i64 = 346;

/// The maximum tokens of an image.
const IMAGE_TOKENS: i64 = 1_600;

/// The minimum tokens of a document, also used if its data is not in the request.
const MIN_DOCUMENT_TOKENS: i64 = 3_000;
const DOCUMENT_CHARS_PER_TOKEN: usize = 16;

/// The maximum depth of nested documents that are parsed. Deeper ones are counted as JSON text.
const MAX_DEPTH: usize = 4;

/// The characters of redacted thinking per token.
const THINKING_CHARS_PER_TOKEN: usize = 4;

pub(crate) fn read<'t>(
    path: Arguments<'_>,
    mut message: Element<'t>,
    is_first: bool,
) -> Result<Message<'t>, ChatError> {
    let (raw, blocks) = (message.raw, message.take_list());
    let fields = message.object(path)?;
    let role = match &*json::required_str(path, &fields, "role")? {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        // Only between other messages; the initial system prompt is a field of the request.
        "system" if !is_first => Role::System,
        other => {
            let hint = match other {
                "system" => "; put it into the request's `system`, or name the provider openai",
                "tool" | "developer" | "function" => "; name the provider openai",
                _ => "",
            };
            return Err(ChatError::invalid(
                format_args!("{path}.role"),
                format!("it is '{other}'; it must be user or assistant{hint}"),
            ));
        }
    };
    let mut message = Message::new(raw, fields, role, &["role", "content"]);
    let Some(content) = message.fields.get("content") else {
        return Ok(message);
    };
    let path = format_args!("{path}.content");
    if json::is_string(content) {
        let part = text_part(content, PartLocation::Content, json::string(path, content)?);
        message.parts.push(part.with_body(Some(Body::Text(content))));
    } else if json::is_array(content) {
        let blocks = blocks.map_or_else(|| json::elements(path, content), Ok)?;
        message.parts.reserve_exact(blocks.len());
        for (index, block) in blocks.into_iter().enumerate() {
            message.parts.push(read_block(format_args!("{path}[{index}]"), block)?);
        }
    } else {
        return Err(ChatError::invalid(path, "it must be a text, or a list of blocks"));
    }
    Ok(message)
}

/// Returns a text part. Anthropic rejects blank texts, so those are not kept.
fn text_part(raw: RawJson<'_>, location: PartLocation, text: String) -> Part<'_> {
    let is_kept = !text.trim().is_empty();
    Part { is_kept, ..Part::new(raw, location, PartKind::Text, text) }
}

fn read_block<'t>(path: Arguments<'_>, mut block: Element<'t>) -> Result<Part<'t>, ChatError> {
    let (raw, blocks) = (block.raw, block.take_list());
    let object = block.object(path)?;
    let part = |kind, text: String| Part::new(raw, PartLocation::ContentArray, kind, text);
    let id = |name: &str| json::required_str(path, &object, name).map(Cow::into_owned);
    Ok(match &*json::required_str(path, &object, "type")? {
        "text" => {
            let text = json::optional_str(path, &object, "text")?;
            text_part(raw, PartLocation::ContentArray, text)
                .with_body(object.get("text").map(Body::Text))
        }
        "image" => part(PartKind::Media, "[image]".to_owned()).with_tokens(IMAGE_TOKENS),
        "document" => {
            let (text, tokens) = read_document(path, &object, 0)?;
            part(PartKind::Media, text).with_tokens(tokens)
        }
        "thinking" => part(PartKind::Thinking, json::optional_str(path, &object, "thinking")?),
        "redacted_thinking" => {
            let data = json::optional_str(path, &object, "data")?;
            part(PartKind::Thinking, "[thinking]".to_owned())
                .with_tokens(base64_tokens(&data, THINKING_CHARS_PER_TOKEN))
        }
        "tool_use" => tool_use_part(path, raw, &object, PartKind::ToolCall { id: id("id")? })?,
        "server_tool_use" | "mcp_tool_use" => {
            tool_use_part(path, raw, &object, PartKind::ServerToolCall { id: id("id")? })?
        }
        "tool_result" => {
            let (text, tokens) = read_result(path, &object, blocks, 0)?;
            let tokens = tokens.saturating_add(TOKENS_PER_TOOL_CALL);
            part(PartKind::ToolResult { id: id("tool_use_id")? }, text)
                .with_tokens(tokens)
                .with_body(object.get("content").map(Body::Text))
        }
        kind if kind.ends_with("_tool_result") => {
            let content = object.get("content").map(json::compact).unwrap_or_default();
            part(PartKind::ServerToolResult { id: id("tool_use_id")? }, content)
                .with_tokens(TOKENS_PER_TOOL_CALL)
        }
        _ => part(PartKind::Other, json::compact(raw)),
    })
}

fn tool_use_part<'t>(
    path: Arguments<'_>,
    raw: RawJson<'t>,
    call: &Object<'t>,
    kind: PartKind,
) -> Result<Part<'t>, ChatError> {
    let name = json::optional_str(path, call, "name")?;
    let input = call.get("input");
    let text = format!("{name} {}", input.map(json::spaced).unwrap_or_default());
    let body = input.filter(|_| matches!(kind, PartKind::ToolCall { .. })).map(Body::Object);
    let part = Part::new(raw, PartLocation::ContentArray, kind, text).with_body(body);
    Ok(Part { tool: name, ..part.with_tokens(TOKENS_PER_TOOL_CALL) })
}

/// Returns the text of a tool result, and the tokens of its images and documents.
fn read_result(
    path: Arguments<'_>,
    result: &Object<'_>,
    blocks: Option<Vec<Element<'_>>>,
    depth: usize,
) -> Result<(String, i64), ChatError> {
    let Some(content) = result.get("content") else {
        return Ok((String::new(), 0));
    };
    let path = format_args!("{path}.content");
    if json::is_string(content) {
        return Ok((json::string(path, content)?, 0));
    }
    if !json::is_array(content) {
        return Err(ChatError::invalid(path, "it must be a text, or a list of blocks"));
    }
    let (mut texts, mut tokens) = (Vec::new(), 0_i64);
    let blocks = blocks.map_or_else(|| json::elements(path, content), Ok)?;
    for (index, block) in blocks.into_iter().enumerate() {
        let path = format_args!("{path}[{index}]");
        let raw = block.raw;
        let object = block.object(path)?;
        let (text, media_tokens) = match &*json::required_str(path, &object, "type")? {
            "text" => (json::optional_str(path, &object, "text")?, 0),
            "image" => ("[image]".to_owned(), IMAGE_TOKENS),
            "document" if depth < MAX_DEPTH => read_document(path, &object, depth + 1)?,
            _ => (json::compact(raw), 0),
        };
        texts.push(text);
        tokens = tokens.saturating_add(media_tokens);
    }
    Ok((texts.join("\n"), tokens))
}

/// Returns the text of a document, and its tokens if it is not text.
fn read_document(
    path: Arguments<'_>,
    document: &Object<'_>,
    depth: usize,
) -> Result<(String, i64), ChatError> {
    let Some(source) = document.get("source") else {
        return Ok(("[document]".to_owned(), MIN_DOCUMENT_TOKENS));
    };
    // The model sees title and context, too.
    let header = [
        json::optional_str(path, document, "title")?,
        json::optional_str(path, document, "context")?,
    ];
    let with_header = |text: String| {
        let lines = header.iter().filter(|line| !line.is_empty()).cloned().chain([text]);
        lines.collect::<Vec<_>>().join("\n")
    };
    let path = format_args!("{path}.source");
    let source = json::object(path, source)?;
    match json::optional_str(path, &source, "type")?.as_str() {
        "text" => Ok((with_header(json::optional_str(path, &source, "data")?), 0)),
        "content" => {
            let (text, tokens) = read_result(path, &source, None, depth)?;
            Ok((with_header(text), tokens))
        }
        "base64" => {
            let data = json::optional_str(path, &source, "data")?;
            let tokens = base64_tokens(&data, DOCUMENT_CHARS_PER_TOKEN).max(MIN_DOCUMENT_TOKENS);
            Ok((with_header("[document]".to_owned()), tokens))
        }
        _ => Ok((with_header("[document]".to_owned()), MIN_DOCUMENT_TOKENS)),
    }
}

/// Reads the `system` field of a request. Returns its text, and the value to send if blank blocks were removed.
pub(crate) fn read_system(raw: RawJson<'_>) -> Result<(String, Option<String>), ChatError> {
    if json::is_string(raw) {
        let text = json::string("system", raw)?;
        return Ok((text, None));
    }
    let (mut texts, mut kept) = (Vec::new(), Vec::new());
    let blocks = json::elements("system", raw)?;
    let count = blocks.len();
    for (index, block) in blocks.into_iter().enumerate() {
        let part = read_block(format_args!("system[{index}]"), block)?;
        if part.is_kept {
            texts.push(part.text);
            kept.push(part.raw);
        }
    }
    let changed = (kept.len() < count).then(|| {
        let mut value = String::new();
        json::write_array(kept.into_iter(), &mut value, json::write);
        value
    });
    Ok((texts.join("\n"), changed))
}

/// Writes the kept blocks of a message, results first if required.
pub(crate) fn write(message: &Message<'_>, into: &mut String) {
    let mut parts: Vec<&Part<'_>> = message.kept().collect();
    if message.results_first {
        parts.sort_by_key(|part| !matches!(part.kind, PartKind::ToolResult { .. }));
    }
    let fields = message.fields.0.iter();
    json::write_fields(fields, Some("content"), into, |name, value, into| match value {
        Some(value) if name != "content" => json::write(value, into),
        _ => write_blocks(&parts, message.note.as_deref(), into),
    });
}

/// Writes a content array. A content string and a note become text blocks.
fn write_blocks(parts: &[&Part<'_>], note: Option<&str>, into: &mut String) {
    enum Block<'b, 't> {
        Part(&'b Part<'t>),
        Note(&'b str),
    }

    let blocks = parts.iter().map(|part| Block::Part(part)).chain(note.map(Block::Note));
    json::write_array(blocks, into, |block, into| {
        let mut text = String::new();
        match &block {
            Block::Part(part) if part.location == PartLocation::ContentArray => {
                part.write(&mut text);
            }
            content => {
                text.push_str("{\"type\":\"text\",\"text\":");
                match content {
                    Block::Part(part) => part.write(&mut text),
                    Block::Note(note) => json::write_string(note, &mut text),
                }
                text.push('}');
            }
        }
        match block {
            Block::Part(Part { breakpoint: Some(is_set), .. }) => {
                let value = is_set.then_some(r#"{"type":"ephemeral"}"#);
                into.push_str(&json::with_field(&text, CACHE_CONTROL, value));
            }
            _ => into.push_str(&text),
        }
    });
}
