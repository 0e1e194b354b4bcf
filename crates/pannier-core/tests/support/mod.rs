//! Short ways to make pools for tests.
#![allow(dead_code, reason = "each test file uses some of it")]

use std::sync::Arc;

use pannier_core::{
    ContextBudget, ContextItem, ContextItemBuilder, ContextKind, Cost, Error, Exactness, Pipeline,
    PipelineBuilder, Placed, ReflexiveScorer, Rendering, Selection, SelectionReport, TokenCounter,
};
use pannier_layout::{DocumentRendering, Template, TextRendering};

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

/// A token for every four bytes.
#[derive(Debug)]
pub(crate) struct BytesOverFour;

impl TokenCounter for BytesOverFour {
    fn name(&self) -> &str {
        "bytes/4"
    }

    fn exactness(&self) -> Exactness {
        Exactness::Estimate
    }

    fn count(&self, text: &str) -> usize {
        text.len().div_ceil(4)
    }
}

/// Counts characters in groups of so many, so that parts do not add up to the whole: short of it where a group
/// ends with its part, and beyond it where parts share one.
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

pub(crate) fn template(before: &str, item: &str, separator: &str, after: &str) -> Template {
    let mut template = Template::default();
    template.before = before.to_owned();
    template.item = item.parse().unwrap();
    template.separator = separator.to_owned();
    template.after = after.to_owned();
    template
}

/// A text that does not want some items, and others not at its beginning.
struct Choosy(TextRendering);

impl Rendering for Choosy {
    fn cost(&self, items: &Placed<'_>) -> Cost {
        self.0.cost(items)
    }

    fn refuses(&self, _: usize, item: &ContextItem) -> Option<&str> {
        item.content().ends_with('7').then_some("no sevens")
    }

    fn refuses_first(&self, _: usize, item: &ContextItem) -> Option<&str> {
        item.content()
            .ends_with(['0', '1', '2', '3'])
            .then_some("no small numbers at the beginning")
    }
}

/// How many ways of rendering there are to try.
pub(crate) const RENDERINGS: usize = 6;

/// A pipeline whose selections are rendered in some way; the first ways are not to.
pub(crate) fn rendered(pipeline: Pipeline, way: usize) -> Pipeline {
    let text = |template, group| TextRendering::new(template, Arc::new(Groups(group)));
    match way {
        0 | 1 => pipeline,
        2 => pipeline.rendered_by(text(Template::default(), 3)),
        3 => pipeline.rendered_by(text(template("<all>", "[{kind}: {content}]", " ", "</all>"), 4)),
        4 => pipeline.rendered_by(DocumentRendering::new(Arc::new(Groups(3)))),
        _ => pipeline.rendered_by(Choosy(text(Template::default(), 2))),
    }
}
