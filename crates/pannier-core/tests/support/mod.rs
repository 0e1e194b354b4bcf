//! Short ways to make pools for tests.
#![allow(dead_code, reason = "each test file uses some of it")]

mod items;

pub(crate) use items::*;

use std::sync::Arc;

use pannier_core::item::{Exactness, SliceBudget};
use pannier_core::layout::{Headings, PlacedItems, Plan, RenderCost};
use pannier_core::report::SelectionReport;
use pannier_core::score::{Pool, ReflexiveScorer};
use pannier_core::slice::{Candidate, FillOrder, FillSlice, Move, Offers, Tally};
use pannier_core::{ContextItem, Error, Layout, Pipeline, PipelineBuilder, Slicer, TokenCounter};
use pannier_layout::{DocumentLayout, Template, TextLayout};

/// A pipeline that scores by hints.
pub(crate) fn pipeline() -> PipelineBuilder {
    Pipeline::builder(ReflexiveScorer)
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

pub(crate) fn template(before: &str, item: &str, separator: &str, after: &str) -> Template {
    let mut template = Template::default();
    template.before = before.to_owned();
    template.item = item.parse().unwrap();
    template.separator = separator.to_owned();
    template.after = after.to_owned();
    template
}

/// A text that does not want some items, and others not at its beginning.
struct Choosy(TextLayout);

impl Layout for Choosy {
    fn plan(&self, pool: &Pool<'_>) -> Result<Plan, Error> {
        let mut plan = Plan::default();
        for (item, index) in pool.items().iter().zip(0..) {
            if item.content().ends_with('7') {
                plan.rejected.push((index, "no sevens".into()));
            }
            if item.content().ends_with(['0', '1', '2', '3']) {
                plan.not_first.push((index, "no small numbers at the beginning".into()));
            }
        }
        Ok(plan)
    }

    fn measure(&self, items: &PlacedItems<'_>, up_to: i64) -> Result<Option<RenderCost>, Error> {
        self.0.measure(items, up_to)
    }
}

/// How passages of documents are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Greedy,
    Interleaved,
    ScoreWeighted,
}

impl Packing {
    pub(crate) const ALL: [Self; 3] = [Self::Greedy, Self::Interleaved, Self::ScoreWeighted];

    pub(crate) fn slicer(self) -> FillSlice {
        FillSlice::new(if self == Self::Interleaved { FillOrder::Turns } else { FillOrder::Score })
    }

    pub(crate) fn headings(self) -> Headings {
        if self == Self::Greedy { Headings::Once } else { Headings::AtEveryChange }
    }

    pub(crate) fn layout(self, min_heading_tokens: i64) -> DocumentLayout {
        let layout = DocumentLayout::uncounted().with_headings(self.headings());
        layout.with_min_heading_tokens(min_heading_tokens)
    }
}

/// The tally of a slice over plain candidates.
pub(crate) fn slice<R>(
    slicer: &dyn Slicer,
    candidates: &[Candidate<'_>],
    budget: SliceBudget,
    read: impl FnOnce(&Tally<'_, '_>) -> R,
) -> Result<R, Error> {
    let offers = Offers::new(candidates.iter().copied());
    let mut tally = Tally::new(&offers, budget);
    slicer.slice(&mut tally)?;
    Ok(read(&tally))
}

/// The positions that were taken, in their order.
pub(crate) fn taken(tally: &Tally<'_, '_>) -> Vec<usize> {
    tally.moves().iter().map(|Move { position, .. }| *position as usize).collect()
}

/// How many ways of rendering there are to try.
pub(crate) const RENDERINGS: usize = 6;

/// A pipeline whose selections are rendered in some way; the first ways are not to.
pub(crate) fn rendered(pipeline: Pipeline, way: usize) -> Pipeline {
    let text = |template, group| TextLayout::new(template, Arc::new(Groups(group)));
    match way {
        0 | 1 => pipeline,
        2 => pipeline.with_layout(text(Template::default(), 3)),
        3 => pipeline.with_layout(text(template("<all>", "[{kind}: {content}]", " ", "</all>"), 4)),
        4 => pipeline.with_layout(DocumentLayout::new(Arc::new(Groups(3)))),
        _ => pipeline.with_layout(Choosy(text(Template::default(), 2))),
    }
}
