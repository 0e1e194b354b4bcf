//! A selection as data, as the command line and the server print it.

use pannier_core::{ContextBudget, ContextItem, Ledger, Note, Selection};
use serde::Serialize;

/// The selected items and totals of a selection.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SelectionSummary<'a> {
    /// The items, in the order they should be sent.
    pub items: Vec<&'a ContextItem>,
    /// The totals.
    pub totals: SelectionTotals<'a>,
}

/// The totals of a selection.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SelectionTotals<'a> {
    /// The number of items in the pool.
    pub candidates: usize,
    /// The number of selected items.
    pub selected: usize,
    /// The sum of their tokens.
    pub tokens: i64,
    /// The budget.
    pub budget: &'a ContextBudget,
    /// The token breakdown of the window.
    pub ledger: &'a Ledger,
    /// Remarks on how the items were chosen, where that differs from what the pipeline asks for.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub notes: &'a [Note],
}

impl<'a> SelectionSummary<'a> {
    /// Summarizes a selection.
    pub fn new(selection: &'a Selection<'_>) -> Self {
        let totals = SelectionTotals {
            candidates: selection.pool().len(),
            selected: selection.len(),
            tokens: selection.tokens(),
            budget: selection.budget(),
            ledger: selection.ledger(),
            notes: selection.notes(),
        };
        Self { items: selection.items().collect(), totals }
    }
}
