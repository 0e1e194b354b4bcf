//! What the parts of a context cost.
//!
//! Everything that is printed belongs to a snippet: its text, that it was sent before or has changed, what is wrong with it,
//! and a line that tells why it is in. Only the last one depends on what else is asked for. The rest of what is printed is
//! there in any case.

use crate::get::{BodyStore, SnippetBundle};
use crate::graph::DependencyClosure;
use crate::render::RenderedLines;
use crate::{SnippetCatalog, Warning};

/// What is counted for each snippet: what is always the same, and the line that tells why it is in. In the whole, each may
/// have a token less than alone.
pub(super) const PIECES: usize = 2;

#[derive(Debug)]
pub(super) struct Costs {
    /// What is printed whatever is asked for.
    pub(super) base: usize,
    /// What each node costs, but for the line that tells why it is in.
    pub(super) fixed: Vec<usize>,
    /// What that line costs if everything is asked for that was.
    pub(super) lines: Vec<usize>,
    /// Whether there is no such line, unless it is asked for, because it was sent before.
    pub(super) is_delivered: Vec<bool>,
}

impl Costs {
    pub(super) fn new(
        catalog: &SnippetCatalog<'_>,
        closure: &DependencyClosure,
        context: &SnippetBundle<'_>,
        bodies: &BodyStore<'_>,
    ) -> Self {
        let pieces = RenderedLines(bodies.options.format);
        let node = |id: &str| closure.node(catalog.find(id)?).map(|node| node as usize);
        let mut fixed = vec![String::new(); closure.len()];
        let mut lines = fixed.clone();
        let mut is_delivered = vec![false; closure.len()];
        let add = |texts: &mut Vec<String>, id: &str, piece: String| {
            if let Some(node) = node(id) {
                texts[node].push_str(&piece);
            }
        };
        for id in &context.requested {
            add(&mut lines, id, pieces.requested(id));
        }
        for added in &context.added {
            add(&mut lines, added.id, pieces.added(added));
        }
        for id in &context.delivered {
            add(&mut fixed, id, pieces.delivered(id));
            if let Some(node) = node(id) {
                is_delivered[node] = true;
            }
        }
        for id in &context.changed {
            add(&mut fixed, id, pieces.changed(id));
        }
        let mut base = SnippetBundle {
            phase: context.phase,
            tokenizer: context.tokenizer.clone(),
            text_tokens: context.text_tokens,
            ..SnippetBundle::default()
        };
        for warning in &context.warnings {
            match warning {
                Warning::Entry { .. } => base.warnings.push(warning.clone()),
                // A circle is in as a whole or not at all.
                Warning::Unreadable { id, .. }
                | Warning::Outdated { id, .. }
                | Warning::Dangling { id, .. }
                | Warning::Cycle { id, .. } => add(&mut fixed, id, pieces.warning(warning)),
            }
        }
        for snippet in &context.snippets {
            add(&mut fixed, snippet.id, pieces.snippet(snippet));
        }
        let count = |texts: &[String]| {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            bodies.counter.count_each(&texts)
        };
        Self {
            base: bodies.counter.count(&base.render(bodies.options.format)),
            fixed: count(&fixed),
            lines: count(&lines),
            is_delivered,
        }
    }

    /// What a node costs at least, if the line that tells why it is in costs this.
    pub(super) fn least(&self, node: usize, line: usize) -> usize {
        (self.fixed[node] + line).saturating_sub(PIECES)
    }

    /// About what a node costs.
    pub(super) fn of(&self, node: u32) -> usize {
        self.fixed[node as usize] + self.lines[node as usize]
    }
}
