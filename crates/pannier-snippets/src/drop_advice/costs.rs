//! The token costs of the parts of a response.
//!
//! Text, delivery lines and warnings of a snippet do not depend on the other requests. Only the line with its chain does.

use crate::get::{BodyStore, SnippetBundle};
use crate::graph::DependencyClosure;
use crate::render::RenderedLines;
use crate::{SnippetCatalog, Warning};

/// The number of separately counted parts of a snippet. Each may have one token less in the whole response.
pub(super) const PIECES: usize = 2;

#[derive(Debug)]
pub(super) struct Costs {
    /// The cost of an empty response.
    pub(super) base: usize,
    /// The cost of each node without its chain.
    pub(super) fixed: Vec<usize>,
    /// The cost of the chain of each node, given all requests.
    pub(super) lines: Vec<usize>,
    /// Whether the node has no chain, because the session already received it.
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
                // A response contains either all nodes of a cycle or none.
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

    /// Returns a lower bound for the cost of a node with a chain of this cost.
    pub(super) fn least(&self, node: usize, line: usize) -> usize {
        (self.fixed[node] + line).saturating_sub(PIECES)
    }

    /// Returns the approximate cost of a node.
    pub(super) fn of(&self, node: u32) -> usize {
        self.fixed[node as usize] + self.lines[node as usize]
    }
}
