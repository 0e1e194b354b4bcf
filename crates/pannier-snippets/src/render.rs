//! How a context is printed.
//!
//! First what was asked for, what was added and why, and what is wrong; then the texts, each under a line with its id. A
//! text stands there byte for byte. Only in JSON can nothing in it be taken for such a line.

use std::io::{self, Write};

use serde::Serialize;

use crate::get::{Added, Context, ContextFormat, SentSnippet};

/// So much is written at once.
const PIECE: usize = 64 << 10;

impl Context<'_> {
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
            piece.extend(["sent before: ", id, "\n"]);
        }
        for warning in &self.warnings {
            piece.extend(["warning: ", warning.message(), "\n"]);
        }
        for snippet in &self.snippets {
            if piece.len() > PIECE {
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

    /// What each snippet adds to what is printed, in their order: about as many tokens, taken together, as the whole.
    pub(crate) fn pieces(&self, format: ContextFormat) -> Vec<String> {
        let mut by_id: Vec<&Added<'_>> = self.added.iter().collect();
        by_id.sort_by_key(|added| added.id);
        let find = |id: &str| {
            let place = by_id.binary_search_by(|added| added.id.cmp(id));
            place.ok().and_then(|place| by_id.get(place))
        };
        let piece = |snippet: &SentSnippet<'_>| {
            let added = find(snippet.id);
            match format {
                ContextFormat::Text => {
                    let mut text = String::new();
                    match added {
                        Some(added) => added_line(&mut text, added),
                        None => requested_line(&mut text, snippet.id),
                    }
                    section(&mut text, snippet);
                    text
                }
                ContextFormat::Json => match added {
                    Some(added) => json(added) + &json(snippet),
                    None => json(&snippet.id) + &json(snippet),
                },
            }
        };
        self.snippets.iter().map(piece).collect()
    }
}

fn requested_line(text: &mut String, id: &str) {
    text.extend(["requested: ", id, "\n"]);
}

fn added_line(text: &mut String, Added { id, chain, chain_omitted }: &Added<'_>) {
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

fn section(text: &mut String, snippet: &SentSnippet<'_>) {
    text.extend(["\n[SNIPPET: ", snippet.id, "]\n", &snippet.text]);
    if !snippet.text.is_empty() && !snippet.text.ends_with('\n') {
        text.push('\n');
    }
}

fn json(value: &impl Serialize) -> String {
    // Texts, numbers and lists of them can always be written.
    serde_json::to_string(value).unwrap_or_default()
}
