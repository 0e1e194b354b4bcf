//! What the answers of searching and reading share: the budget bounds everything that is sent.

use std::sync::Arc;

use pannier_core::{ContextBudget, ContextItem, Error, Layout, Pipeline, Selection, TokenCounter};
use pannier_docs::DocsError;
use pannier_layout::{RecordLayout, Records, SentItem};
use pannier_policy::{BudgetScope, PolicyRegistry, Receipt, Replay, RunConfig};
use serde::Serialize;

use crate::Failure;
use crate::ops::Answer;

/// What the budget of a search bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The text: passages or documents under headings.
    Text,
    /// The answer as one line of JSON, and also its text together with its structured form.
    Answer,
}

/// Makes the answer of a selection, with its records.
pub(super) trait Found: Clone + Send + Sync + 'static {
    type Answer: Answer;
    type Record: Serialize;
    type Stub: Send + Sync + 'static;

    /// Returns the record of an item.
    fn record(&self, sent: SentItem<'_>) -> Self::Record;

    /// Returns the stub of an item that is left out, with the name of the reason.
    fn stub(&self, index: usize, item: &ContextItem, reason: &str) -> Self::Stub;

    /// Returns the answer with these stubs.
    fn answer(&self, sent: &[SentItem<'_>], stubs: &[Self::Stub]) -> Self::Answer;
}

/// The records of a pool, and stubs of items that a selection leaves out.
struct FoundRecords<F: Found> {
    found: F,
    stubs: Vec<F::Stub>,
}

impl<F: Found> Records for FoundRecords<F> {
    fn record(&self, sent: SentItem<'_>) -> String {
        line(&self.found.record(sent))
    }

    fn array(&self, _: SentItem<'_>) -> &str {
        "found"
    }

    fn answer(&self, sent: &[SentItem<'_>], stubs: usize) -> Vec<String> {
        vec![line(&self.found.answer(sent, &self.stubs[..stubs]))]
    }

    /// A server sends the text for the model, and the structured form for programs.
    fn other_answer(&self, sent: &[SentItem<'_>], stubs: usize) -> Option<Vec<String>> {
        let answer = self.found.answer(sent, &self.stubs[..stubs]);
        Some(vec![answer.text().into_owned(), answer.structured().to_string()])
    }
}

/// Serializes plain data, which cannot fail, as a line.
fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default() + "\n"
}

/// Returns the layout that bounds whole answers.
pub(super) fn layout<F: Found>(found: &F, counter: &Arc<dyn TokenCounter>) -> Arc<dyn Layout> {
    let records = FoundRecords { found: found.clone(), stubs: Vec::new() };
    Arc::new(RecordLayout::new(records, Arc::clone(counter)))
}

/// Returns the answer of a selection that was made with the [`layout`], with the stubs that fit.
pub(super) fn answer<F: Found>(
    found: &F,
    counter: &Arc<dyn TokenCounter>,
    selection: &Selection<'_>,
) -> F::Answer {
    let excluded = selection.report().excluded.into_iter();
    let stubs = excluded.filter_map(|excluded| {
        Some(found.stub(excluded.index?, excluded.item, excluded.reason.name()))
    });
    let records = FoundRecords { found: found.clone(), stubs: stubs.collect() };
    let layout = RecordLayout::new(records, Arc::clone(counter));
    let (placed, target) = (selection.placed(), selection.budget().target_tokens());
    let stubs = &layout.records().stubs;
    let fitting = layout.fitting_stubs(&placed, stubs.len(), target);
    let sent: Vec<SentItem<'_>> = placed.indices().zip(placed.items()).collect();
    found.answer(&sent, &stubs[..fitting])
}

/// Returns the text of a selection that the budget bounds as a text.
pub(super) fn text_answer<F: Found>(found: &F, selection: &Selection<'_>) -> F::Answer {
    let sent: Vec<SentItem<'_>> = selection.indices().zip(selection.items()).collect();
    found.answer(&sent, &[])
}

/// Names the smallest budget of an answer that does not fit.
pub(super) fn name_smallest_budget(failure: Failure, budget: &ContextBudget) -> Failure {
    let (Failure::Engine(error) | Failure::Docs(DocsError::Engine(error))) = &failure else {
        return failure;
    };
    match error {
        Error::RequiredTextOverBudget { fixed_tokens, .. } => Failure::AnswerOverBudget {
            smallest_budget: fixed_tokens.saturating_add(budget.output_reserve()),
            budget: budget.max_tokens(),
        },
        _ => failure,
    }
}

/// Records a selection.
pub(super) fn receipt<F: Found>(
    found: &F,
    counter: &Arc<dyn TokenCounter>,
    bound: Bound,
    selection: &Selection<'_>,
    config: RunConfig,
) -> Receipt {
    match bound {
        Bound::Text => Receipt::new(selection, config),
        Bound::Answer => {
            Receipt::for_text(selection, config, &line(&answer(found, counter, selection)))
        }
    }
}

/// Returns what the budget of a receipt bounds.
pub(super) fn bound_of(receipt: &Receipt) -> Bound {
    match receipt.budget_scope {
        BudgetScope::CustomRenderer => Bound::Answer,
        _ => Bound::Text,
    }
}

/// Selects from a pool as a receipt records it, and compares.
pub(super) fn replay<F: Found>(
    found: &F,
    counter: &Arc<dyn TokenCounter>,
    receipt: &Receipt,
    pool: &[ContextItem],
    pipeline: &Pipeline,
) -> Result<Replay, Failure> {
    Ok(match bound_of(receipt) {
        Bound::Text => receipt.replay(pool, &PolicyRegistry::default(), counter)?,
        Bound::Answer => receipt.replay_for_text(pool, pipeline, |selection| {
            line(&answer(found, counter, selection))
        })?,
    })
}

/// Rounds a share to four digits.
pub(super) fn rounded(share: f64) -> f64 {
    (share * 10_000.0).round() / 10_000.0
}

pub(super) fn is_zero(count: &usize) -> bool {
    *count == 0
}
