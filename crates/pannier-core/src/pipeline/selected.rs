//! A selection as data, in the form that the command and the server write it.

use crate::{ContextBudget, ContextItem, Ledger, Selection};

/// The selected items, and totals.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SelectionSummary<'a> {
    /// The items, in the order they should be sent.
    pub items: Vec<&'a ContextItem>,
    /// What they come to.
    pub totals: SelectionTotals<'a>,
}

/// What a selection comes to.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SelectionTotals<'a> {
    /// How many items there were.
    pub candidates: usize,
    /// How many were selected.
    pub selected: usize,
    /// What they cost.
    pub tokens: i64,
    /// What there was to spend.
    pub budget: &'a ContextBudget,
    /// Where it went.
    pub ledger: &'a Ledger,
}

impl<'a> SelectionSummary<'a> {
    /// The items of a selection, and its totals.
    pub fn new(selection: &'a Selection<'_>) -> Self {
        let totals = SelectionTotals {
            candidates: selection.pool().len(),
            selected: selection.len(),
            tokens: selection.tokens(),
            budget: selection.budget(),
            ledger: selection.ledger(),
        };
        Self { items: selection.items().collect(), totals }
    }
}
