//! What a call is answered with: the text that the command prints, byte for byte, and the same as structured content.
//!
//! The text is written once, from the library's own types, because going through a tree of values would sort keys and widen
//! numbers. The tree is then read from the text. Where the command prints something that is no JSON object, the tree holds
//! it under one key, because clients of the older era take only objects.

use std::io::{self, Write};

use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde::Serialize;
use serde_json::{Value, json};

use crate::tool_error::ToolError;

/// The key below which an answer says what the command says on its error output.
const WARNINGS: &str = "pannier/warnings";

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    text: String,
    structured: Value,
    warnings: Vec<String>,
}

impl Answer {
    /// An object, as one line of JSON.
    pub(crate) fn object(value: &impl Serialize, most: usize) -> Result<Self, ToolError> {
        let text = line(value, most)?;
        let structured = parse(&text)?;
        Ok(Self { text, structured, warnings: Vec::new() })
    }

    /// A list, as one line of JSON.
    pub(crate) fn list(
        key: &'static str,
        value: &impl Serialize,
        most: usize,
    ) -> Result<Self, ToolError> {
        let text = line(value, most)?;
        let structured = json!({ key: parse(&text)? });
        Ok(Self { text, structured, warnings: Vec::new() })
    }

    /// A text that is JSON already.
    pub(crate) fn written(text: String, most: usize) -> Result<Self, ToolError> {
        check(text.len(), most)?;
        let structured = parse(&text)?;
        Ok(Self { text, structured, warnings: Vec::new() })
    }

    /// A text that is no JSON.
    pub(crate) fn text(key: &'static str, text: String, most: usize) -> Result<Self, ToolError> {
        check(text.len(), most)?;
        Ok(Self { structured: json!({ key: text }), text, warnings: Vec::new() })
    }

    /// The same, with something said beside it.
    pub(crate) fn warn(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        self.warnings.extend(warnings);
        self
    }

    /// The text alone.
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    pub(crate) fn into_result(self) -> CallToolResult {
        let mut result = CallToolResult::success(vec![ContentBlock::text(self.text)]);
        result.structured_content = Some(self.structured);
        if !self.warnings.is_empty() {
            let mut meta = MetaObject::default();
            meta.insert(WARNINGS.to_owned(), Value::from(self.warnings));
            result.meta = Some(meta);
        }
        result
    }
}

/// A value as one line of JSON, with its line end, of at most so many bytes.
fn line(value: &impl Serialize, most: usize) -> Result<String, ToolError> {
    let mut bounded = Bounded { bytes: Vec::new(), most };
    let written = serde_json::to_writer(&mut bounded, value);
    if let Err(error) = written {
        return Err(match error.is_io() {
            true => too_large(most),
            false => ToolError::internal(error.to_string()),
        });
    }
    bounded.bytes.push(b'\n');
    String::from_utf8(bounded.bytes).map_err(|error| ToolError::internal(error.to_string()))
}

fn parse(text: &str) -> Result<Value, ToolError> {
    serde_json::from_str(text).map_err(|error| ToolError::internal(error.to_string()))
}

fn check(bytes: usize, most: usize) -> Result<(), ToolError> {
    if bytes > most { Err(too_large(most)) } else { Ok(()) }
}

fn too_large(most: usize) -> ToolError {
    ToolError::new(
        "too_large",
        format!("the answer has more than {most} bytes"),
        "give a smaller budget, or ask for less; the server can be started with a greater --max-output",
    )
}

/// Takes so many bytes and no more.
struct Bounded {
    bytes: Vec<u8>,
    most: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_keeps_what_a_tree_would_lose() {
        #[derive(Serialize)]
        struct Example {
            zebra: f32,
            apple: u64,
        }
        let answer = Answer::object(&Example { zebra: 1.0 / 3.0, apple: u64::MAX }, 100).unwrap();
        assert_eq!(answer.text, "{\"zebra\":0.33333334,\"apple\":18446744073709551615}\n");
        let result = answer.warn(["x".to_owned()]).into_result();
        let expected = r#"{"apple":18446744073709551615,"zebra":0.33333334}"#;
        assert_eq!(result.structured_content.unwrap().to_string(), expected);
        assert_eq!(result.meta.unwrap()[WARNINGS], json!(["x"]));
    }

    #[test]
    fn what_is_too_large_is_not_built() {
        let text = "x".repeat(100);
        assert!(Answer::list("x", &text, 102).is_ok());
        let problem = Answer::list("x", &text, 101).unwrap_err();
        assert_eq!((problem.code, problem.message.contains("101")), ("too_large", true));
        assert_eq!(Answer::text("x", text, 99).unwrap_err().code, "too_large");
    }
}
