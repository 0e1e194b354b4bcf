//! What a line or a body says, and why it is refused if it is no message.
//!
//! The SDK knows only messages that are right. What is wrong with others is told here, with the id that the client waits by.

use rmcp::model::{ClientJsonRpcMessage, ErrorData, RequestId};
use serde_json::Value;

/// So much is kept of a message that is too long.
pub(crate) const BEGINNING: usize = 4 << 10;

/// What one line turned out to be.
pub(crate) enum Read {
    Message(Box<ClientJsonRpcMessage>),
    Nothing,
    Refused(Option<RequestId>, ErrorData),
}

/// What a line says.
pub(crate) fn message(line: &[u8]) -> Read {
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Read::Nothing;
    }
    if let Some((id, error)) = wrong_cursor(line) {
        return Read::Refused(id, error);
    }
    if let Ok(message) = serde_json::from_slice(line) {
        return Read::Message(Box::new(message));
    }
    // Once more, slowly, to see what it is.
    let value: Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(error) => {
            let problem = format!("the line is no JSON: {error}");
            return Read::Refused(None, ErrorData::parse_error(problem, None));
        }
    };
    let id = value.get("id").and_then(|id| serde_json::from_value(id.clone()).ok());
    if value.is_object() && value.get("method").is_some() && value.get("id").is_none() {
        // Nobody waits for an answer to a notification.
        return Read::Nothing;
    }
    let problem = match value {
        Value::Array(_) => "messages come one a line, not in batches",
        _ => "the line is no message of JSON-RPC 2.0",
    };
    Read::Refused(id, ErrorData::invalid_request(problem, None))
}

/// The id of a message of which only the beginning is known, as far as that goes: most clients write it before what is
/// long.
pub(crate) fn beginning_id(line: &[u8]) -> Option<RequestId> {
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

/// Why a request for a list is refused whose cursor is no text. The SDK takes it for one without a cursor, and a client
/// would get the first page for ever.
pub(crate) fn wrong_cursor(message: &[u8]) -> Option<(Option<RequestId>, ErrorData)> {
    // Such a request is short.
    let value: Value =
        serde_json::from_slice(Some(message).filter(|it| it.len() <= BEGINNING)?).ok()?;
    value.get("method")?.as_str().filter(|method| method.ends_with("/list"))?;
    let cursor = value.get("params")?.get("cursor")?;
    let is_wrong = !cursor.is_string() && !cursor.is_null();
    let id = value.get("id").and_then(|id| serde_json::from_value(id.clone()).ok());
    is_wrong.then(|| (id, ErrorData::invalid_params("the cursor is no text", None)))
}

/// Why something is no message, and its id, if it has one.
pub(crate) fn refusal(bytes: &[u8]) -> (Option<RequestId>, ErrorData) {
    match message(bytes) {
        Read::Refused(id, error) => (id, error),
        Read::Message(_) | Read::Nothing => {
            (None, ErrorData::invalid_request("this is no message that is expected here", None))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_long_message_is_found_if_it_comes_early() {
        let id = |line: &str| beginning_id(line.as_bytes()).map(|id| id.to_string());
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
    fn what_is_no_message_is_refused_with_its_id() {
        let refused = |line: &str| match message(line.as_bytes()) {
            Read::Refused(id, error) => Some((id.map(|id| id.to_string()), error.code.0)),
            _ => None,
        };
        assert_eq!(refused("{"), Some((None, -32_700)));
        assert_eq!(refused(&"[".repeat(1_000)), Some((None, -32_700)));
        assert_eq!(refused("[]"), Some((None, -32_600)));
        assert_eq!(refused("3"), Some((None, -32_600)));
        assert_eq!(refused(r#"{"id":7,"method":"ping"}"#), Some((Some("7".to_owned()), -32_600)));
        let list = |cursor: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":3,"method":"resources/list","params":{{"cursor":{cursor}}}}}"#
            )
        };
        assert_eq!(refused(&list("5")), Some((Some("3".to_owned()), -32_602)));
        assert_eq!((refused(&list("\"x\"")), refused(&list("null"))), (None, None));
        assert!(matches!(message(b" \r"), Read::Nothing));
        let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        assert!(matches!(message(ping), Read::Message(_)));
    }
}
