//! Replays receipts of version 1, which were written before layouts had plans.
//!
//! Then, the slicer for documents charged headings under any layout, other slicers charged none, and a rendered
//! selection was only ever cut down.

use std::sync::Arc;

use pannier_core::layout::{Closing, PlacedItems, Plan, RenderCost};
use pannier_core::score::Pool;
use pannier_core::{Error, Layout, Pipeline, TokenCounter};
use pannier_layout::{DocumentLayout, TextLayout};

use super::{BudgetScope, Receipt};

/// The costs of version 1.
struct Version1 {
    /// What was counted, if anything was.
    counted: Option<Box<dyn Layout>>,
    /// The headings that were charged, if any were.
    headings: Option<DocumentLayout>,
}

impl Layout for Version1 {
    fn plan(&self, pool: &Pool<'_>) -> Result<Plan, Error> {
        let mut plan = match &self.counted {
            Some(counted) => counted.plan(pool)?,
            None => Plan::default(),
        };
        let headings = match &self.headings {
            Some(headings) => headings.plan(pool)?,
            None => Plan::default(),
        };
        (plan.sections, plan.section_of) = (headings.sections, headings.section_of);
        plan.headings = headings.headings;
        Ok(plan)
    }

    fn measure(&self, placed: &PlacedItems<'_>, up_to: i64) -> Result<Option<RenderCost>, Error> {
        match &self.counted {
            Some(counted) => counted.measure(placed, up_to),
            None => Ok(Some(RenderCost { items: placed.tokens(), ..RenderCost::default() })),
        }
    }
}

/// The pipeline that made a selection of version 1.
pub(super) fn pipeline(
    pipeline: Pipeline,
    receipt: &Receipt,
    counter: Arc<dyn TokenCounter>,
) -> Pipeline {
    let documents = match receipt.budget_scope {
        BudgetScope::Documents => DocumentLayout::new(Arc::clone(&counter)),
        _ => DocumentLayout::uncounted(),
    };
    let headings = receipt.policy().slicer().document_layout(documents);
    let counted: Option<Box<dyn Layout>> = match receipt.budget_scope {
        BudgetScope::Documents => Some(Box::new(DocumentLayout::new(counter))),
        BudgetScope::Text => Some(Box::new(TextLayout::new(receipt.template.clone(), counter))),
        _ => None,
    };
    if headings.is_none() && counted.is_none() {
        return pipeline;
    }
    let builder = pipeline.into_builder().closing(Closing::DropOnly);
    builder.layout(Version1 { counted, headings }).build()
}
