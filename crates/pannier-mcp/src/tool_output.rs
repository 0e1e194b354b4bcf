//! The output of a call: texts that a model reads.
//!
//! There is no structured content. Some hosts show a model only that if there is any, others only the texts. So everything is
//! in the texts: the answer, then its details if the client asks for them, then notes.

use std::io::{self, Write};

use pannier_core::TokenCounter;
use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde::Serialize;
use serde_json::Value;

use crate::tool_error::ToolError;

/// The metadata key of notes for which the budget has no tokens.
const WARNINGS: &str = "pannier/warnings";

/// The output of a call.
#[derive(Clone, Debug)]
pub(crate) struct ToolOutput {
    text: String,
    details: Option<String>,
    notes: Vec<String>,
    /// Whether the notes are only for programs.
    hides_notes: bool,
}

impl ToolOutput {
    /// Serializes an object as one line of JSON. A detour through [`Value`] would sort keys and widen numbers.
    pub(crate) fn object(value: &impl Serialize, max_bytes: usize) -> Result<Self, ToolError> {
        let mut writer = LimitedWriter { bytes: Vec::new(), max_bytes };
        if let Err(error) = serde_json::to_writer(&mut writer, value) {
            return Err(match error.is_io() {
                true => too_large(max_bytes),
                false => ToolError::internal(error.to_string()),
            });
        }
        writer.bytes.push(b'\n');
        let text = String::from_utf8(writer.bytes)
            .map_err(|error| ToolError::internal(error.to_string()))?;
        Self::new(text, &Value::Null, Vec::new(), usize::MAX)
    }

    /// Takes the text of an answer, its details unless they are null, and notes.
    pub(crate) fn new(
        text: String,
        details: &Value,
        notes: Vec<String>,
        max_bytes: usize,
    ) -> Result<Self, ToolError> {
        let details = (!details.is_null()).then(|| details.to_string());
        let output = Self { text, details, notes, hides_notes: false };
        match output.blocks().map(|block| block.len()).sum::<usize>() > max_bytes {
            true => Err(too_large(max_bytes)),
            false => Ok(output),
        }
    }

    /// Returns the texts, in order.
    fn blocks(&self) -> impl Iterator<Item = String> {
        let notes = self.notes.iter().map(|note| format!("Note: {note}\n")).collect::<String>();
        let notes = Some(notes).filter(|notes| !notes.is_empty() && !self.hides_notes);
        [Some(self.text.clone()), self.details.clone(), notes].into_iter().flatten()
    }

    /// Counts everything that is sent.
    pub(crate) fn count(&self, counter: &dyn TokenCounter) -> i64 {
        let tokens = self.blocks().map(|block| counter.count(&block)).sum::<usize>();
        i64::try_from(tokens).unwrap_or(i64::MAX)
    }

    /// Counts the notes.
    pub(crate) fn count_notes(&self, counter: &dyn TokenCounter) -> i64 {
        let without = Self { hides_notes: true, ..self.clone() };
        self.count(counter).saturating_sub(without.count(counter))
    }

    /// Counts what follows the text.
    pub(crate) fn count_additions(&self, counter: &dyn TokenCounter) -> i64 {
        let text = i64::try_from(counter.count(&self.text)).unwrap_or(i64::MAX);
        self.count(counter).saturating_sub(text)
    }

    /// Sends the notes as metadata, which a model does not read.
    pub(crate) fn hide_notes(&mut self) {
        self.hides_notes = true;
    }

    /// Returns the text without details and notes.
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    pub(crate) fn into_result(self) -> CallToolResult {
        let mut result = CallToolResult::success(self.blocks().map(ContentBlock::text).collect());
        if self.hides_notes && !self.notes.is_empty() {
            let mut meta = MetaObject::default();
            meta.insert(WARNINGS.to_owned(), Value::from(self.notes));
            result.meta = Some(meta);
        }
        result
    }
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
        assert_eq!(output.into_result().structured_content, None);
    }

    #[test]
    fn details_and_notes_follow_the_text_or_notes_are_metadata() {
        let output =
            ToolOutput::new("x".into(), &json!({ "a": 1 }), vec!["late".into()], 100).unwrap();
        let blocks: Vec<String> = output.blocks().collect();
        assert_eq!(blocks, ["x", "{\"a\":1}", "Note: late\n"]);
        let counter = pannier_tokens::BytesOverFour;
        let (all, notes) = (output.count(&counter), output.count_notes(&counter));
        assert_eq!((all, notes, output.count_additions(&counter)), (6, 3, 5));
        let mut hidden = output;
        hidden.hide_notes();
        assert_eq!(hidden.count(&counter), 3);
        let result = hidden.into_result();
        assert_eq!(result.content.len(), 2);
        assert_eq!(result.meta.unwrap()[WARNINGS], json!(["late"]));
    }

    #[test]
    fn output_above_the_limit_is_rejected() {
        let text = "x".repeat(100);
        assert!(ToolOutput::object(&json!({ "x": text }), 200).is_ok());
        let problem = ToolOutput::object(&json!({ "x": text }), 101).unwrap_err();
        assert_eq!((problem.code, problem.message.contains("101")), ("too_large", true));
        let problem = ToolOutput::new(text, &Value::Null, Vec::new(), 99).unwrap_err();
        assert_eq!(problem.code, "too_large");
    }
}
