//! The referee's view of a request: content blocks that are compared, counted and searched.
//!
//! It shares no code with the sessions it measures, except for the parsing of JSON.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Arguments;
use std::sync::Arc;

use pannier_core::TokenCounter;
use serde_json::Value;

use crate::json::{self, Object, RawJson};
use crate::{ChatError, message};

/// The role of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Role {
    /// The user, or the results of tools.
    User,
    /// The model.
    Assistant,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// A message of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayMessage {
    /// The role.
    pub role: Role,
    /// The content.
    pub blocks: Vec<Arc<Block>>,
}

impl ReplayMessage {
    /// Returns the tokens of the message: 4, and those of its blocks.
    pub fn tokens(&self) -> i64 {
        self.blocks.iter().fold(message::TOKENS_PER_MESSAGE, |sum, block| sum + block.tokens)
    }
}

/// The kind of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockKind {
    /// A text.
    Text,
    /// A tool call.
    ToolUse {
        /// The id of the call.
        id: String,
        /// The name of the tool.
        name: String,
        /// Whether the input is an object.
        has_object_input: bool,
    },
    /// A tool result.
    ToolResult {
        /// The id of the call.
        id: String,
        /// Whether the call failed.
        is_error: bool,
    },
    /// Any other block.
    Other,
}

/// A content block. Blocks are equal if their keys are, regardless of whitespace and the order of fields.
#[derive(Debug)]
#[non_exhaustive]
pub struct Block {
    /// The kind.
    pub kind: BlockKind,
    /// The JSON with sorted keys. Two blocks are equal to a prompt cache if their roles and this text are.
    pub key: String,
    /// The JSON as it is sent.
    pub json: String,
    /// The text that is counted and searched.
    pub text: String,
    /// The tokens of the text, and 8 for a block that is not a text.
    pub tokens: i64,
}

impl PartialEq for Block {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Block {}

impl Block {
    /// Returns the id of a call or a result.
    pub fn id(&self) -> Option<&str> {
        match &self.kind {
            BlockKind::ToolUse { id, .. } | BlockKind::ToolResult { id, .. } => Some(id),
            BlockKind::Text | BlockKind::Other => None,
        }
    }

    pub(super) fn is_text(&self) -> bool {
        self.kind == BlockKind::Text
    }

    pub(super) fn is_result(&self) -> bool {
        matches!(self.kind, BlockKind::ToolResult { .. })
    }

    pub(super) fn is_blank(&self) -> bool {
        self.is_text() && self.text.trim().is_empty()
    }
}

/// Reads blocks and counts their tokens. Equal blocks are read and counted once.
#[derive(Debug)]
pub struct BlockReader<'c> {
    counter: &'c dyn TokenCounter,
    known: HashMap<String, Arc<Block>>,
}

impl<'c> BlockReader<'c> {
    /// Creates a reader that counts with `counter`.
    pub fn new(counter: &'c dyn TokenCounter) -> Self {
        Self { counter, known: HashMap::new() }
    }

    /// Returns the counter.
    pub fn counter(&self) -> &'c dyn TokenCounter {
        self.counter
    }

    /// Reads a request of Anthropic's Messages API, or its list of messages.
    ///
    /// # Errors
    ///
    /// [`ChatError::NotJson`] or [`ChatError::Invalid`].
    pub fn read_request(&mut self, text: &str) -> Result<Vec<ReplayMessage>, ChatError> {
        let (_, list) = message_list(json::parse(text)?)?;
        let mut messages = Vec::with_capacity(list.len());
        for (index, raw) in list.into_iter().enumerate() {
            let path = format_args!("messages[{index}]");
            let object = json::object(path, raw)?;
            let role = match &*json::required_str(path, &object, "role")? {
                "user" => Role::User,
                "assistant" => Role::Assistant,
                other => {
                    let problem = format!("it is '{other}'; it must be user or assistant");
                    return Err(ChatError::invalid(format_args!("{path}.role"), problem));
                }
            };
            messages.push(ReplayMessage { role, blocks: self.read_content(path, &object)? });
        }
        Ok(messages)
    }

    /// Reads the content of a message: a text, or a list of blocks.
    pub(super) fn read_content(
        &mut self,
        path: Arguments<'_>,
        message: &Object<'_>,
    ) -> Result<Vec<Arc<Block>>, ChatError> {
        let path = format_args!("{path}.content");
        match message.get("content") {
            None => Ok(Vec::new()),
            Some(content) if json::is_string(content) => {
                Ok(vec![self.text(&json::string(path, content)?)])
            }
            Some(content) => {
                let blocks = json::array(path, content)?.into_iter().enumerate();
                blocks.map(|(index, raw)| self.read(format_args!("{path}[{index}]"), raw)).collect()
            }
        }
    }

    /// Reads a block.
    pub(super) fn read(
        &mut self,
        path: Arguments<'_>,
        raw: RawJson<'_>,
    ) -> Result<Arc<Block>, ChatError> {
        if let Some(block) = self.known.get(raw.get()) {
            return Ok(Arc::clone(block));
        }
        let object = json::object(path, raw)?;
        let id = |name| json::required_str(path, &object, name).map(Cow::into_owned);
        let (kind, text) = match &*json::required_str(path, &object, "type")? {
            "text" => (BlockKind::Text, id("text")?),
            "tool_use" => {
                let (name, input) = (id("name")?, object.get("input"));
                let text = format!("{name} {}", input.map(json::spaced).unwrap_or_default());
                let has_object_input = input.is_some_and(|input| input.get().starts_with('{'));
                (BlockKind::ToolUse { id: id("id")?, name, has_object_input }, text)
            }
            "tool_result" => {
                let (text, is_error) = (parts_text(path, &object, "content")?, is_error(&object));
                (BlockKind::ToolResult { id: id("tool_use_id")?, is_error }, text)
            }
            _ => (BlockKind::Other, json::spaced(raw)),
        };
        let block = self.count(kind, raw.get().to_owned(), text);
        self.known.insert(raw.get().to_owned(), Arc::clone(&block));
        Ok(block)
    }

    /// Returns a text block.
    pub fn text(&mut self, text: &str) -> Arc<Block> {
        let json = object([("type", "text"), ("text", text)], "");
        self.intern(json, BlockKind::Text, || text.to_owned())
    }

    /// Returns a tool call. The input is JSON.
    pub(super) fn tool_use(&mut self, id: &str, name: &str, input: RawJson<'_>) -> Arc<Block> {
        let rest = format!(",\"input\":{}", json::compact(input));
        let json = object([("type", "tool_use"), ("id", id), ("name", name)], &rest);
        let has_object_input = input.get().starts_with('{');
        let kind =
            BlockKind::ToolUse { id: id.to_owned(), name: name.to_owned(), has_object_input };
        self.intern(json, kind, || format!("{name} {}", json::spaced(input)))
    }

    /// Returns a tool result.
    pub fn tool_result(&mut self, id: &str, text: &str, is_error: bool) -> Arc<Block> {
        let rest = if is_error { ",\"is_error\":true" } else { "" };
        let json = object([("type", "tool_result"), ("tool_use_id", id), ("content", text)], rest);
        self.intern(json, BlockKind::ToolResult { id: id.to_owned(), is_error }, || text.to_owned())
    }

    fn intern(
        &mut self,
        json: String,
        kind: BlockKind,
        text: impl FnOnce() -> String,
    ) -> Arc<Block> {
        if let Some(block) = self.known.get(&json) {
            return Arc::clone(block);
        }
        let block = self.count(kind, json.clone(), text());
        self.known.insert(json, Arc::clone(&block));
        block
    }

    fn count(&self, kind: BlockKind, json: String, text: String) -> Arc<Block> {
        let overhead = if kind == BlockKind::Text { 0 } else { message::TOKENS_PER_TOOL_CALL };
        let tokens = i64::try_from(self.counter.count(&text)).unwrap_or(i64::MAX);
        let tokens = tokens.saturating_add(overhead);
        // A number out of range does not parse; then the text itself is the key.
        let key = serde_json::from_str::<BTreeMap<String, Value>>(&json)
            .and_then(|fields| serde_json::to_string(&fields));
        let key = key.unwrap_or_else(|_| json.clone());
        Arc::new(Block { kind, key, json, text, tokens })
    }
}

/// Returns the name and the elements of a request's list of messages or items.
pub(super) fn message_list(
    root: RawJson<'_>,
) -> Result<(&'static str, Vec<RawJson<'_>>), ChatError> {
    if json::is_array(root) {
        return Ok(("messages", json::array("the list", root)?));
    }
    let request = json::object("the request", root)?;
    let list = ["messages", "input"].into_iter().find_map(|name| Some((name, request.get(name)?)));
    let Some((name, list)) = list else {
        let problem = "missing field `messages` or `input`; give a list of messages or items";
        return Err(ChatError::invalid("the request", problem));
    };
    Ok((name, json::array(name, list)?))
}

/// Returns the text of a content: a string, or a list of parts. Parts that are not text are placeholders.
pub(super) fn parts_text(
    path: Arguments<'_>,
    object: &Object<'_>,
    name: &str,
) -> Result<String, ChatError> {
    let path = format_args!("{path}.{name}");
    let Some(content) = object.get(name) else {
        return Ok(String::new());
    };
    if json::is_string(content) {
        return json::string(path, content);
    }
    let mut texts = Vec::new();
    for (index, raw) in json::array(path, content)?.into_iter().enumerate() {
        let path = format_args!("{path}[{index}]");
        let part = json::object(path, raw)?;
        texts.push(match json::optional_str(path, &part, "type")?.as_str() {
            "text" | "input_text" | "output_text" => json::optional_str(path, &part, "text")?,
            _ => "[image]".to_owned(),
        });
    }
    Ok(texts.join("\n"))
}

/// Returns whether a tool result reports an error.
pub(super) fn is_error(result: &Object<'_>) -> bool {
    result.get("is_error").is_some_and(|value| value.get() == "true")
}

/// Writes a request.
pub fn request_json(messages: &[ReplayMessage]) -> String {
    let mut text = "{\"messages\":[".to_owned();
    for (index, message) in messages.iter().enumerate() {
        let separator = if index > 0 { "," } else { "" };
        let role = message.role.name();
        text.push_str(&format!("{separator}{{\"role\":\"{role}\",\"content\":["));
        for (index, block) in message.blocks.iter().enumerate() {
            text.push_str(if index > 0 { "," } else { "" });
            text.push_str(&block.json);
        }
        text.push_str("]}");
    }
    text.push_str("]}");
    text
}

/// Writes an object with string fields, followed by `rest`.
fn object<const N: usize>(fields: [(&str, &str); N], rest: &str) -> String {
    let mut text = "{".to_owned();
    for (index, (name, value)) in fields.into_iter().enumerate() {
        text.push_str(if index > 0 { "," } else { "" });
        json::write_string(name, &mut text);
        text.push(':');
        json::write_string(value, &mut text);
    }
    text.push_str(rest);
    text.push('}');
    text
}

#[cfg(test)]
mod tests {
    use pannier_tokens::BytesOverFour;

    use super::*;

    #[test]
    fn whitespace_escapes_and_key_order_do_not_make_another_block() {
        let mut reader = BlockReader::new(&BytesOverFour);
        let mut read =
            |text: &str| reader.read(format_args!("block"), json::parse(text).unwrap()).unwrap();
        let one =
            read(r#"{"type":"tool_use","id":"a","name":"Read","input":{"path":"é","n":[1,2]}}"#);
        let other = read(
            r#"{"name": "Read", "id": "a", "input": {"path": "\u00e9", "n": [1, 2]}, "type": "tool_use"}"#,
        );
        assert_eq!(one, other);
        assert_eq!((&one.text, one.tokens), (&other.text, other.tokens));
        assert_eq!(one.text, r#"Read {"path": "é", "n": [1, 2]}"#);
        assert_eq!(one.tokens, 8 + 8);
    }

    #[test]
    fn written_requests_are_read_back() {
        let mut reader = BlockReader::new(&BytesOverFour);
        let input = json::parse(r#"{"path":"a \"b\""}"#).unwrap();
        let messages = vec![
            ReplayMessage { role: Role::User, blocks: vec![reader.text("a\n\"b\"")] },
            ReplayMessage {
                role: Role::Assistant,
                blocks: vec![reader.tool_use("c1", "Read", input)],
            },
            ReplayMessage { role: Role::User, blocks: vec![reader.tool_result("c1", "no", true)] },
        ];
        let text = request_json(&messages);
        // A reader of its own, so nothing is looked up.
        assert_eq!(BlockReader::new(&BytesOverFour).read_request(&text).unwrap(), messages);
        for wrong in
            ["3", "{}", "[1]", r#"[{"role":"tool"}]"#, r#"[{"role":"user","content":[{}]}]"#]
        {
            assert!(reader.read_request(wrong).is_err(), "{wrong}");
        }
    }
}
