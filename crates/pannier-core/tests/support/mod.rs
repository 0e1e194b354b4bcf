//! Short ways to make pools for tests.
#![allow(dead_code, reason = "each test file uses some of it")]

use pannier_core::{
    ContextBudget, ContextItem, ContextItemBuilder, ContextKind, Error, Pipeline, PipelineBuilder,
    ReflexiveScorer, Selection, SelectionReport,
};

/// An item whose hint, and so its reflexive score, is `score`.
pub(crate) fn scored(content: &str, tokens: i64, score: f64) -> ContextItemBuilder {
    ContextItem::builder(content, tokens).future_relevance_hint(score)
}

/// The item as it stands.
pub(crate) fn item(content: &str, tokens: i64, score: f64) -> ContextItem {
    scored(content, tokens, score).build().unwrap()
}

pub(crate) fn kind(text: &str) -> ContextKind {
    ContextKind::new(text).unwrap()
}

pub(crate) fn budget(tokens: i64) -> ContextBudget {
    ContextBudget::new(tokens, tokens).unwrap()
}

/// A pipeline that scores by hints.
pub(crate) fn pipeline() -> PipelineBuilder {
    Pipeline::builder(ReflexiveScorer)
}

/// Contents in placed order.
pub(crate) fn placed<'a>(selection: &Selection<'a>) -> Vec<&'a str> {
    selection.items().map(ContextItem::content).collect()
}

/// What a pipeline selects, in placed order.
pub(crate) fn select(
    builder: PipelineBuilder,
    items: &[ContextItem],
    tokens: i64,
) -> Result<Vec<&str>, Error> {
    builder.build().run(items, &budget(tokens)).map(|selection| placed(&selection))
}

/// Contents and reasons of what is out, as text, in the report's order.
pub(crate) fn excluded<'a>(report: &SelectionReport<&'a ContextItem>) -> Vec<(&'a str, String)> {
    report.excluded.iter().map(|entry| (entry.item.content(), entry.reason.to_string())).collect()
}
