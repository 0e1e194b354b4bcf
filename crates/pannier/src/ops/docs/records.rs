//! What the answers of searching and reading share: the budget bounds everything that is sent.

use std::sync::Arc;

use pannier_core::{ContextBudget, ContextItem, Error, Layout, Pipeline, Selection, TokenCounter};
use pannier_docs::DocsError;
use pannier_layout::{Citations, CitedLayout, RecordLayout, Records, SentItem};
use pannier_policy::{BudgetScope, PolicyRegistry, Receipt, Replay, RunConfig};
use serde::Serialize;

use crate::Failure;
use crate::ops::{Answer, Control, Sends};

/// What the budget of a search bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The text: passages or documents under citations.
    Text,
    /// The answer as one line of JSON, and also its text together with its details.
    Answer,
}

impl Bound {
    /// Returns what the budget bounds if the caller sends this part of an answer.
    pub(super) fn new(control: &Control<'_>) -> Self {
        if control.sends() == Sends::Text { Self::Text } else { Self::Answer }
    }
}

/// Makes the answer of a selection, with its records.
pub(super) trait Found: Citations + Clone + 'static {
    type Answer: Answer;
    type Record: Serialize;
    type Stub: Send + Sync + 'static;

    /// Returns the record of an item.
    fn record(&self, sent: SentItem<'_>) -> Self::Record;

    /// Returns the stub of an item that is left out, with the name of the reason.
    fn stub(&self, index: usize, item: &ContextItem, reason: &str) -> Self::Stub;

    /// Returns the answer with these stubs, without its text.
    fn answer(&self, sent: &[SentItem<'_>], stubs: &[Self::Stub]) -> Self::Answer;

    /// Returns the place of the text in an answer.
    fn text(answer: &mut Self::Answer) -> &mut String;

    /// Returns the last line of a text with these stubs.
    fn omitted_line(_: &[Self::Stub]) -> String {
        String::new()
    }
}

/// The number of stubs in a text.
const MAX_STUBS: usize = 5;

/// The records of a pool, and stubs of items that a selection leaves out.
struct FoundRecords<F: Found> {
    found: F,
    stubs: Vec<F::Stub>,
    texts: CitedLayout<F>,
}

impl<F: Found> FoundRecords<F> {
    fn new(found: &F, counter: &Arc<dyn TokenCounter>, stubs: Vec<F::Stub>) -> Self {
        let texts = CitedLayout::new(found.clone(), Arc::clone(counter));
        Self { found: found.clone(), stubs, texts }
    }

    /// Returns the answer with its text.
    fn whole_answer(&self, sent: &[SentItem<'_>], stubs: usize) -> F::Answer {
        let mut answer = self.found.answer(sent, &self.stubs[..stubs]);
        *F::text(&mut answer) = self.texts.render(sent.iter().copied());
        answer
    }
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

    /// A tool sends the text, and the details if a client asks for them.
    fn other_answer(&self, sent: &[SentItem<'_>], stubs: usize) -> Option<Vec<String>> {
        let answer = self.whole_answer(sent, stubs);
        Some(vec![answer.text().into_owned(), answer.details().to_string()])
    }
}

/// Serializes plain data, which cannot fail, as a line.
fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default() + "\n"
}

/// Returns the layout for what the budget bounds.
pub(super) fn layout<F: Found>(
    found: &F,
    counter: &Arc<dyn TokenCounter>,
    bound: Bound,
) -> Arc<dyn Layout> {
    match bound {
        Bound::Text => Arc::new(CitedLayout::new(found.clone(), Arc::clone(counter))),
        Bound::Answer => {
            let records = FoundRecords::new(found, counter, Vec::new());
            Arc::new(RecordLayout::new(records, Arc::clone(counter)))
        }
    }
}

/// Returns the answer of a selection that was made with the [`layout`], with the stubs that fit.
pub(super) fn answer<F: Found>(
    found: &F,
    counter: &Arc<dyn TokenCounter>,
    bound: Bound,
    selection: &Selection<'_>,
) -> F::Answer {
    let excluded = selection.report().excluded.into_iter();
    let stubs = excluded.filter_map(|excluded| {
        Some(found.stub(excluded.index?, excluded.item, excluded.reason.name()))
    });
    let records = FoundRecords::new(found, counter, stubs.collect());
    let (placed, target) = (selection.placed(), selection.budget().target_tokens());
    let sent: Vec<SentItem<'_>> = placed.indices().zip(placed.items()).collect();
    match bound {
        Bound::Answer => {
            let layout = RecordLayout::new(records, Arc::clone(counter));
            let fitting = layout.fitting_stubs(&placed, layout.records().stubs.len(), target);
            layout.records().whole_answer(&sent, fitting)
        }
        Bound::Text => {
            let mut answer = records.whole_answer(&sent, records.stubs.len());
            let text = F::text(&mut answer);
            let limit = usize::try_from(target).unwrap_or_default();
            let lines = (1..=records.stubs.len().min(MAX_STUBS)).rev();
            let texts = lines
                .map(|count| F::omitted_line(&records.stubs[..count]))
                .filter(|line| !line.is_empty())
                .map(|line| format!("{text}\n{line}"));
            let mut fitting = texts.filter(|text| counter.count_up_to(text, limit).is_some());
            if let Some(longer) = fitting.next() {
                *F::text(&mut answer) = longer;
            }
            answer
        }
    }
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

/// Returns what a receipt records of a selection.
fn recorded<F: Found>(
    found: &F,
    counter: &Arc<dyn TokenCounter>,
    bound: Bound,
    selection: &Selection<'_>,
) -> String {
    let answer = answer(found, counter, bound, selection);
    match bound {
        Bound::Text => answer.text().into_owned(),
        Bound::Answer => line(&answer),
    }
}

/// Records a selection.
pub(super) fn receipt<F: Found>(
    found: &F,
    counter: &Arc<dyn TokenCounter>,
    bound: Bound,
    selection: &Selection<'_>,
    mut config: RunConfig,
) -> Receipt {
    if bound == Bound::Text {
        config.budget_scope = BudgetScope::Citations;
    }
    Receipt::for_text(selection, config, &recorded(found, counter, bound, selection))
}

/// Returns what the budget of a receipt bounds. `None`: a text under the names of documents, without citations.
pub(super) fn bound_of(receipt: &Receipt) -> Option<Bound> {
    match receipt.budget_scope {
        BudgetScope::CustomRenderer => Some(Bound::Answer),
        BudgetScope::Citations => Some(Bound::Text),
        _ => None,
    }
}

/// Selects from a pool as a receipt records it, and compares.
pub(super) fn replay<F: Found>(
    found: &F,
    counter: &Arc<dyn TokenCounter>,
    bound: Bound,
    receipt: &Receipt,
    pool: &[ContextItem],
    pipeline: &Pipeline,
) -> Result<Replay, Failure> {
    let write = |selection: &Selection<'_>| recorded(found, counter, bound, selection);
    Ok(receipt.replay_for_text(pool, pipeline, write)?)
}

/// Replays a receipt of a text under the names of documents.
pub(super) fn replay_documents(
    receipt: &Receipt,
    counter: &Arc<dyn TokenCounter>,
    pool: &[ContextItem],
) -> Result<Replay, Failure> {
    Ok(receipt.replay(pool, &PolicyRegistry::default(), counter)?)
}

/// Rounds a share to four digits.
pub(super) fn rounded(share: f64) -> f64 {
    (share * 10_000.0).round() / 10_000.0
}

pub(super) fn is_zero(count: &usize) -> bool {
    *count == 0
}
