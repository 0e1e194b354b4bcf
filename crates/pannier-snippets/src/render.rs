//! How an answer is printed.
//!
//! First what was asked for, what was added and why, and what is wrong; then the texts, each under a line with its id. A
//! text stands there byte for byte. Only in JSON can nothing in it be taken for such a line.

use std::io::{self, Write};

use serde::Serialize;

use crate::get::{AddedDependency, ContextFormat, SentSnippet, SnippetBundle};
use crate::list::SnippetList;
use crate::warning::Warning;

/// So much is written at once.
const WRITE_CHUNK_BYTES: usize = 64 << 10;

impl SnippetBundle<'_> {
    /// Prints the context, with a line end. What is large is written piece by piece, and is nowhere as a whole.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    pub fn write(&self, format: ContextFormat, writer: &mut impl Write) -> io::Result<()> {
        if format == ContextFormat::Json {
            serde_json::to_writer(&mut *writer, self)?;
            return writer.write_all(b"\n");
        }
        let mut piece = String::new();
        for id in &self.requested {
            requested_line(&mut piece, id);
        }
        for added in &self.added {
            added_line(&mut piece, added);
        }
        for id in &self.delivered {
            delivered_line(&mut piece, id);
        }
        for id in &self.changed {
            changed_line(&mut piece, id);
        }
        for warning in &self.warnings {
            warning_line(&mut piece, warning);
        }
        for snippet in &self.snippets {
            if piece.len() > WRITE_CHUNK_BYTES {
                writer.write_all(piece.as_bytes())?;
                piece.clear();
            }
            section(&mut piece, snippet);
        }
        writer.write_all(piece.as_bytes())
    }

    /// The context as it is printed.
    pub fn render(&self, format: ContextFormat) -> String {
        let mut bytes = Vec::new();
        // Writing to memory does not fail, and what is written are texts.
        let _ = self.write(format, &mut bytes);
        String::from_utf8(bytes).unwrap_or_default()
    }
}

impl SnippetList<'_> {
    /// The listing as it is printed, with a line end.
    pub fn render(&self, format: ContextFormat) -> String {
        match format {
            ContextFormat::Text => self.text(),
            ContextFormat::Json => json(self) + "\n",
        }
    }
}

/// Parts of a context as they are printed: about as many tokens, taken together, as the whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RenderedLines(pub(crate) ContextFormat);

impl RenderedLines {
    pub(crate) fn requested(self, id: &str) -> String {
        self.render_line(&id, |text| requested_line(text, id))
    }

    pub(crate) fn added(self, added: &AddedDependency<'_>) -> String {
        self.render_line(added, |text| added_line(text, added))
    }

    pub(crate) fn delivered(self, id: &str) -> String {
        self.render_line(&id, |text| delivered_line(text, id))
    }

    pub(crate) fn changed(self, id: &str) -> String {
        self.render_line(&id, |text| changed_line(text, id))
    }

    pub(crate) fn warning(self, warning: &Warning) -> String {
        self.render_line(warning, |text| warning_line(text, warning))
    }

    pub(crate) fn snippet(self, snippet: &SentSnippet<'_>) -> String {
        self.render_line(snippet, |text| section(text, snippet))
    }

    fn render_line(self, value: &impl Serialize, write: impl FnOnce(&mut String)) -> String {
        match self.0 {
            ContextFormat::Text => {
                let mut text = String::new();
                write(&mut text);
                text
            }
            ContextFormat::Json => json(value) + ",",
        }
    }
}

fn requested_line(text: &mut String, id: &str) {
    text.extend(["requested: ", id, "\n"]);
}

fn added_line(
    text: &mut String,
    AddedDependency { id, chain, chain_omitted }: &AddedDependency<'_>,
) {
    text.extend(["added: ", id, ", required by "]);
    for (place, link) in chain.iter().enumerate() {
        if place > 0 {
            text.push_str(" -> ");
        }
        if place == 1 && *chain_omitted > 0 {
            text.push_str(&format!("({chain_omitted} more) -> "));
        }
        text.push_str(link);
    }
    text.push('\n');
}

fn delivered_line(text: &mut String, id: &str) {
    text.extend(["sent before: ", id, "\n"]);
}

fn changed_line(text: &mut String, id: &str) {
    text.extend(["sent again, because it changed: ", id, "\n"]);
}

fn warning_line(text: &mut String, warning: &Warning) {
    text.extend(["warning: ", warning.message(), "\n"]);
}

fn section(text: &mut String, snippet: &SentSnippet<'_>) {
    text.extend(["\n[SNIPPET: ", snippet.id, "]\n", &snippet.text]);
    if !snippet.text.is_empty() && !snippet.text.ends_with('\n') {
        text.push('\n');
    }
}

fn json(value: &impl Serialize) -> String {
    // BodyReader, numbers and lists of them can always be written.
    serde_json::to_string(value).unwrap_or_default()
}
