//! Short ways to make pools for tests.
#![allow(dead_code, reason = "each test file uses some of it")]

use pannier_core::{
    ContextBudget, ContextItem, ContextItemBuilder, ContextKind, Exactness, Selection, TokenCounter,
};

/// An item whose hint, and so its reflexive score, is `score`.
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

/// Contents in placed order.
pub(crate) fn placed<'a>(selection: &Selection<'a>) -> Vec<&'a str> {
    selection.items().map(ContextItem::content).collect()
}

/// Counts characters in groups of `n`, so that the parts of a text do not add up to the whole.
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
