//! The token budget of a context.

use pannier_core::{ContextBudget, Error};
use pannier_policy::{Receipt, SlicerPolicy};
use serde::{Deserialize, Serialize};

/// A context window with reserves for everything but passages, in tokens.
///
/// ```
/// use pannier_docs::TokenBudget;
///
/// assert_eq!(TokenBudget::new(2_000).available_tokens(), 1_200);
/// // The reserves exceed the window, so the context is empty.
/// assert_eq!(TokenBudget::new(500).available_tokens(), 0);
/// assert_eq!(TokenBudget::available(500).available_tokens(), 500);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TokenBudget {
    /// The window.
    pub total_tokens: usize,
    /// The reserve for a system prompt.
    pub reserved_system: usize,
    /// The reserve for the query.
    pub reserved_query: usize,
    /// The reserve for the answer.
    pub reserved_response: usize,
    /// The minimum cost of a document's heading line.
    pub per_doc_overhead: usize,
}

impl TokenBudget {
    /// Creates a budget with reserves of 200 tokens for a system prompt, 100 for the query and 500 for the answer.
    pub fn new(total_tokens: usize) -> Self {
        Self {
            reserved_system: 200,
            reserved_query: 100,
            reserved_response: 500,
            ..Self::available(total_tokens)
        }
    }

    /// Creates a budget without reserves.
    pub fn available(tokens: usize) -> Self {
        Self {
            total_tokens: tokens,
            reserved_system: 0,
            reserved_query: 0,
            reserved_response: 0,
            per_doc_overhead: 10,
        }
    }

    /// Returns the budget that a receipt of passages records.
    pub fn from_receipt(receipt: &Receipt) -> Self {
        let tokens = usize::try_from(receipt.budget.target_tokens()).unwrap_or_default();
        let mut budget = Self::available(tokens);
        if let SlicerPolicy::Document(options) = receipt.policy().slicer() {
            budget.per_doc_overhead = usize::try_from(options.overhead).unwrap_or_default();
        }
        budget
    }

    /// Returns the tokens that remain for passages.
    pub fn available_tokens(&self) -> usize {
        let reserves = [self.reserved_system, self.reserved_query, self.reserved_response];
        reserves.iter().fold(self.total_tokens, |rest, reserve| rest.saturating_sub(*reserve))
    }

    /// Returns the budget for the engine.
    ///
    /// # Errors
    ///
    /// None: every number of tokens is a budget.
    pub fn context_budget(&self) -> Result<ContextBudget, Error> {
        let tokens = i64::try_from(self.available_tokens()).unwrap_or(i64::MAX);
        ContextBudget::new(tokens, tokens)
    }
}
