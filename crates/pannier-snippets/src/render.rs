//! Renders bundles and lists as text or JSON.
//!
//! A bundle starts with the requested ids, the added dependencies with their chains, and the warnings. The texts follow
//! byte for byte, each after a line with its id. A text may contain such a line itself; JSON is unambiguous.

use std::io::{self, Write};

use crate::get::{AddedDependency, ContextFormat, SentSnippet, SnippetBundle};
use crate::list::{ListFormat, SnippetList};

/// The size above which the buffer is written out.
const WRITE_CHUNK_BYTES: usize = 64 << 10;

impl SnippetBundle<'_> {
    /// Writes the bundle, with a final newline. Writes in chunks, so that the whole response is never in memory.
    ///
    /// # Errors
    ///
    /// The errors of the writer.
    pub fn write(&self, format: ContextFormat, writer: &mut impl Write) -> io::Result<()> {
        if format == ContextFormat::Json {
            serde_json::to_writer(&mut *writer, self)?;
            return writer.write_all(b"\n");
        }
        let mut buffer = String::new();
        for id in &self.requested {
            buffer.extend(["requested: ", id, "\n"]);
        }
        for added in &self.added {
            added_line(&mut buffer, added);
        }
        for id in &self.delivered {
            buffer.extend(["sent before: ", id, "\n"]);
        }
        for id in &self.changed {
            buffer.extend(["sent again, because it changed: ", id, "\n"]);
        }
        for warning in &self.warnings {
            buffer.extend(["warning: ", warning.message(), "\n"]);
        }
        for snippet in &self.snippets {
            if buffer.len() > WRITE_CHUNK_BYTES {
                writer.write_all(buffer.as_bytes())?;
                buffer.clear();
            }
            section(&mut buffer, snippet);
        }
        writer.write_all(buffer.as_bytes())
    }

    /// Returns the rendered bundle.
    pub fn render(&self, format: ContextFormat) -> String {
        let mut bytes = Vec::new();
        // Writing UTF-8 to memory does not fail.
        let _ = self.write(format, &mut bytes);
        String::from_utf8(bytes).unwrap_or_default()
    }
}

impl SnippetList<'_> {
    /// Returns the rendered list, with a final newline.
    pub fn render(&self, format: ContextFormat) -> String {
        self.render_as(match format {
            ContextFormat::Text => ListFormat::Lines,
            ContextFormat::Json => ListFormat::Json,
        })
    }
}

fn added_line(
    text: &mut String,
    AddedDependency { id, chain, chain_omitted }: &AddedDependency<'_>,
) {
    text.extend(["added: ", id, ", required by "]);
    for (position, link) in chain.iter().enumerate() {
        if position > 0 {
            text.push_str(" -> ");
        }
        if position == 1 && *chain_omitted > 0 {
            text.push_str(&format!("({chain_omitted} more) -> "));
        }
        text.push_str(link);
    }
    text.push('\n');
}

fn section(text: &mut String, snippet: &SentSnippet<'_>) {
    text.extend(["\n[SNIPPET: ", &snippet.id, "]\n", &snippet.text]);
    if !snippet.text.is_empty() && !snippet.text.ends_with('\n') {
        text.push('\n');
    }
}
