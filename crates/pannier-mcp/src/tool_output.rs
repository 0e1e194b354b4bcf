//! The output of a call: the text that a model reads, and structured content for programs.
//!
//! JSON text is serialized from the library's types, because a detour through [`Value`] would sort keys and widen numbers.

use std::io::{self, Write};

use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde::Serialize;
use serde_json::Value;

use crate::tool_error::ToolError;

/// The metadata key of warnings, which the command prints on standard error.
const WARNINGS: &str = "pannier/warnings";

/// The output of a call.
#[derive(Clone, Debug)]
pub(crate) struct ToolOutput {
    text: String,
    structured: Value,
    warnings: Vec<String>,
}

impl ToolOutput {
    /// Serializes an object as one line of JSON.
    pub(crate) fn object(value: &impl Serialize, max_bytes: usize) -> Result<Self, ToolError> {
        let text = line(value, max_bytes)?;
        let structured = parse(&text)?;
        Ok(Self { text, structured, warnings: Vec::new() })
    }

    /// Takes the text and the structured form of an answer.
    pub(crate) fn new(
        text: String,
        structured: Value,
        max_bytes: usize,
    ) -> Result<Self, ToolError> {
        match text.len() > max_bytes {
            true => Err(too_large(max_bytes)),
            false => Ok(Self { text, structured, warnings: Vec::new() }),
        }
    }

    /// Adds warnings.
    #[must_use]
    pub(crate) fn with_warnings(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        self.warnings.extend(warnings);
        self
    }

    /// Returns the text without structured content and warnings.
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

/// Serializes a value as one line of at most `max_bytes`, plus the line end.
fn line(value: &impl Serialize, max_bytes: usize) -> Result<String, ToolError> {
    let mut writer = LimitedWriter { bytes: Vec::new(), max_bytes };
    if let Err(error) = serde_json::to_writer(&mut writer, value) {
        return Err(match error.is_io() {
            true => too_large(max_bytes),
            false => ToolError::internal(error.to_string()),
        });
    }
    writer.bytes.push(b'\n');
    String::from_utf8(writer.bytes).map_err(|error| ToolError::internal(error.to_string()))
}

fn parse(text: &str) -> Result<Value, ToolError> {
    serde_json::from_str(text).map_err(|error| ToolError::internal(error.to_string()))
}

fn too_large(max_bytes: usize) -> ToolError {
    ToolError::new(
        "too_large",
        format!("the answer has more than {max_bytes} bytes"),
        "give a smaller budget, or ask for less; the server can be started with a greater --max-output",
    )
}

/// A buffer that rejects writes beyond `max_bytes`.
struct LimitedWriter {
    bytes: Vec<u8>,
    max_bytes: usize,
}

impl Write for LimitedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.max_bytes {
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
    use serde_json::json;

    use super::*;

    #[test]
    fn text_keeps_key_order_and_number_width() {
        #[derive(Serialize)]
        struct Example {
            zebra: f32,
            apple: u64,
        }
        let output =
            ToolOutput::object(&Example { zebra: 1.0 / 3.0, apple: u64::MAX }, 100).unwrap();
        assert_eq!(output.text, "{\"zebra\":0.33333334,\"apple\":18446744073709551615}\n");
        let result = output.with_warnings(["x".to_owned()]).into_result();
        let expected = r#"{"apple":18446744073709551615,"zebra":0.33333334}"#;
        assert_eq!(result.structured_content.unwrap().to_string(), expected);
        assert_eq!(result.meta.unwrap()[WARNINGS], json!(["x"]));
    }

    #[test]
    fn output_above_the_limit_is_rejected() {
        let text = "x".repeat(100);
        assert!(ToolOutput::object(&json!({ "x": text }), 200).is_ok());
        let problem = ToolOutput::object(&json!({ "x": text }), 101).unwrap_err();
        assert_eq!((problem.code, problem.message.contains("101")), ("too_large", true));
        assert_eq!(ToolOutput::new(text, json!({}), 99).unwrap_err().code, "too_large");
    }
}
