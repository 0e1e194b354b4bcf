//! How a context is printed.
//!
//! First what was asked for, what was added and why, and what is wrong; then the texts, each under a line with its id. A
//! text stands there byte for byte. Only in JSON can nothing in it be taken for such a line.

use serde::Serialize;

use crate::get::{Added, Context, ContextFormat, SentSnippet};

impl Context {
    /// The context as it is printed, with a line end.
    pub fn render(&self, format: ContextFormat) -> String {
        match format {
            ContextFormat::Text => self.text(),
            ContextFormat::Json => json(self) + "\n",
        }
    }

    fn text(&self) -> String {
        let bytes: usize = self.snippets.iter().map(|snippet| snippet.text.len() + 64).sum();
        let mut text = String::with_capacity(bytes + 128 * self.added.len() + 1_024);
        for id in &self.requested {
            requested_line(&mut text, id);
        }
        for added in &self.added {
            added_line(&mut text, added);
        }
        for id in &self.delivered {
            text.push_str(&format!("sent before: {id}\n"));
        }
        for warning in &self.warnings {
            text.push_str(&format!("warning: {warning}\n"));
        }
        for snippet in &self.snippets {
            section(&mut text, snippet);
        }
        text
    }

    /// What each snippet adds to what is printed, in their order: about as many tokens, taken together, as the whole.
    pub(crate) fn pieces(&self, format: ContextFormat) -> Vec<String> {
        let mut by_id: Vec<&Added> = self.added.iter().collect();
        by_id.sort_by(|a, b| a.id.cmp(&b.id));
        let find = |id: &str| {
            let place = by_id.binary_search_by(|added| added.id.as_str().cmp(id));
            place.ok().and_then(|place| by_id.get(place))
        };
        let piece = |snippet: &SentSnippet| {
            let added = find(&snippet.id);
            match format {
                ContextFormat::Text => {
                    let mut text = String::new();
                    match added {
                        Some(added) => added_line(&mut text, added),
                        None => requested_line(&mut text, &snippet.id),
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

fn added_line(text: &mut String, Added { id, chain, chain_omitted }: &Added) {
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

fn section(text: &mut String, snippet: &SentSnippet) {
    text.extend(["\n[SNIPPET: ", &snippet.id, "]\n", &snippet.text]);
    if !snippet.text.is_empty() && !snippet.text.ends_with('\n') {
        text.push('\n');
    }
}

fn json(value: &impl Serialize) -> String {
    // Texts, numbers and lists of them can always be written.
    serde_json::to_string(value).unwrap_or_default()
}
