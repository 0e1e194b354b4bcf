//! Items, budgets and a token counter for tests. The tests of pannier-policy include this file, too.
#![allow(dead_code, reason = "each test file uses some of it")]

use pannier_core::item::{ContextItemBuilder, Exactness};
use pannier_core::{ContextBudget, ContextItem, ContextKind, Selection, TokenCounter};

/// Returns an item whose hint, and so its reflexive score, is `score`.
pub(crate) fn scored(content: &str, tokens: i64, score: f64) -> ContextItemBuilder {
    ContextItem::builder(content, tokens).future_relevance_hint(score)
}

pub(crate) fn item(content: &str, tokens: i64, score: f64) -> ContextItem {
    scored(content, tokens, score).build().unwrap()
}

pub(crate) fn kind(text: &str) -> ContextKind {
    ContextKind::new(text).unwrap()
}

pub(crate) fn budget(tokens: i64) -> ContextBudget {
    ContextBudget::new(tokens, tokens).unwrap()
}

/// Returns contents in placed order.
pub(crate) fn placed<'a>(selection: &Selection<'a>) -> Vec<&'a str> {
    selection.items().map(ContextItem::content).collect()
}

/// Counts characters in groups of `n`, so that the parts of a text do not add up to the whole: below it where parts share a
/// group, above it where each part ends its own.
#[derive(Debug)]
pub(crate) struct Groups(pub(crate) usize);

impl TokenCounter for Groups {
    fn name(&self) -> &str {
        "groups"
    }

    fn exactness(&self) -> Exactness {
        Exactness::Exact
    }

    fn count(&self, text: &str) -> usize {
        text.chars().count().div_ceil(self.0)
    }
}

/// Returns a pool of which a scorer by priority selects `item-a` and a scorer by hint `item-b`, within 80 tokens.
pub(crate) fn contested_pool() -> [ContextItem; 5] {
    let rated = |content: &str, priority, hint| {
        scored(content, 40, hint).priority(priority).build().unwrap()
    };
    [
        rated("item-a", 10, 0.1),
        rated("item-b", 1, 0.9),
        rated("both", 20, 1.0),
        rated("item-b", 0, 0.0),
        rated("neither", 0, 0.0),
    ]
}
