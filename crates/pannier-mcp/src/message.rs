//! Parsing of messages, and errors for malformed ones.
//!
//! The SDK parses valid messages only. This module finds out what is wrong with the others, and the id that the client waits
//! for.

use rmcp::model::{ClientJsonRpcMessage, ErrorData, RequestId};
use serde_json::Value;

/// The part of an oversized message that is kept.
pub(crate) const MAX_PREVIEW_BYTES: usize = 4 << 10;

/// The result of parsing a line.
pub(crate) enum ParsedMessage {
    Message(Box<ClientJsonRpcMessage>),
    Ignored,
    Rejected(Option<RequestId>, ErrorData),
}

/// Parses a line or a body.
pub(crate) fn parse(line: &[u8]) -> ParsedMessage {
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return ParsedMessage::Ignored;
    }
    if let Some((id, error)) = invalid_cursor(line) {
        return ParsedMessage::Rejected(id, error);
    }
    if let Ok(message) = serde_json::from_slice(line) {
        return ParsedMessage::Message(Box::new(message));
    }
    // Parse again as any JSON, to report what is wrong.
    let value: Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(error) => {
            let problem = format!("the message is not JSON: {error}");
            return ParsedMessage::Rejected(None, ErrorData::parse_error(problem, None));
        }
    };
    let id = value.get("id").and_then(|id| serde_json::from_value(id.clone()).ok());
    if value.is_object() && value.get("method").is_some() && value.get("id").is_none() {
        // Notifications get no response.
        return ParsedMessage::Ignored;
    }
    let problem = match value {
        Value::Array(_) => "batches are not supported; send one message at a time",
        _ => "the message is not one of JSON-RPC 2.0",
    };
    ParsedMessage::Rejected(id, ErrorData::invalid_request(problem, None))
}

/// Returns the id of a truncated message if it occurs in the preview. Most clients write the id before long parameters.
pub(crate) fn preview_id(line: &[u8]) -> Option<RequestId> {
    let text = String::from_utf8_lossy(line);
    let (mut depth, mut is_key) = (0_usize, false);
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let taken = match first {
            '"' => {
                let mut values = serde_json::Deserializer::from_str(rest).into_iter::<String>();
                let name = values.next()?.ok()?;
                let end = values.byte_offset();
                if depth == 1 && is_key && name == "id" {
                    let value = rest[end..].trim_start().strip_prefix(':')?;
                    return serde_json::Deserializer::from_str(value).into_iter().next()?.ok();
                }
                is_key = false;
                end
            }
            _ => {
                match first {
                    '{' | '[' => depth += 1,
                    '}' | ']' => depth = depth.checked_sub(1)?,
                    _ => {}
                }
                is_key = matches!(first, '{' | ',') || is_key && first.is_whitespace();
                first.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    None
}

/// Returns the error for a list request whose cursor is not a string. The SDK would ignore such a cursor, and its client
/// would get the first page forever.
pub(crate) fn invalid_cursor(message: &[u8]) -> Option<(Option<RequestId>, ErrorData)> {
    // Requests with a cursor are short.
    let value: Value =
        serde_json::from_slice(Some(message).filter(|it| it.len() <= MAX_PREVIEW_BYTES)?).ok()?;
    value.get("method")?.as_str().filter(|method| method.ends_with("/list"))?;
    let cursor = value.get("params")?.get("cursor")?;
    let is_wrong = !cursor.is_string() && !cursor.is_null();
    let id = value.get("id").and_then(|id| serde_json::from_value(id.clone()).ok());
    is_wrong.then(|| (id, ErrorData::invalid_params("the cursor is not a string", None)))
}

/// Returns the error for a body that is not a message, and its id.
pub(crate) fn rejection(bytes: &[u8]) -> (Option<RequestId>, ErrorData) {
    match parse(bytes) {
        ParsedMessage::Rejected(id, error) => (id, error),
        ParsedMessage::Message(_) | ParsedMessage::Ignored => {
            (None, ErrorData::invalid_request("this message is not expected here", None))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preview_id_finds_an_early_id() {
        let id = |line: &str| preview_id(line.as_bytes()).map(|id| id.to_string());
        assert_eq!(
            id(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"x"#).as_deref(),
            Some("7")
        );
        assert_eq!(
            id(r#" { "params" : {"id":1,"a":["id",2]}, "id" : "a\"b" , "x"#).as_deref(),
            Some("a\"b")
        );
        for none in [
            "",
            "{",
            r#"{"params":{"id":1,"#,
            r#"{"a":"id":1"#,
            r#"["id",1]"#,
            r#"{"id":"#,
            r#"{"id":{}}"#,
            "}}",
            "\"",
            "\u{0}",
        ] {
            assert_eq!(id(none), None, "{none}");
        }
    }

    #[test]
    fn malformed_messages_are_rejected_with_their_id() {
        let rejected = |line: &str| match parse(line.as_bytes()) {
            ParsedMessage::Rejected(id, error) => Some((id.map(|id| id.to_string()), error.code.0)),
            _ => None,
        };
        assert_eq!(rejected("{"), Some((None, -32_700)));
        assert_eq!(rejected(&"[".repeat(1_000)), Some((None, -32_700)));
        assert_eq!(rejected("[]"), Some((None, -32_600)));
        assert_eq!(rejected("3"), Some((None, -32_600)));
        assert_eq!(rejected(r#"{"id":7,"method":"ping"}"#), Some((Some("7".to_owned()), -32_600)));
        let list = |cursor: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":3,"method":"resources/list","params":{{"cursor":{cursor}}}}}"#
            )
        };
        assert_eq!(rejected(&list("5")), Some((Some("3".to_owned()), -32_602)));
        assert_eq!((rejected(&list("\"x\"")), rejected(&list("null"))), (None, None));
        assert!(matches!(parse(b" \r"), ParsedMessage::Ignored));
        let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        assert!(matches!(parse(ping), ParsedMessage::Message(_)));
    }
}
