//! How many tokens a context may have.

use pannier_core::{ContextBudget, Error};
use serde::{Deserialize, Serialize};

/// A window, and what of it is kept for other things than passages.
///
/// ```
/// use pannier_docs::TokenBudget;
///
/// assert_eq!(TokenBudget::new(2_000).available_tokens(), 1_200);
/// // Less than what is kept: nothing is left, and a context is empty.
/// assert_eq!(TokenBudget::new(500).available_tokens(), 0);
/// assert_eq!(TokenBudget::available(500).available_tokens(), 500);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TokenBudget {
    /// All tokens.
    pub total_tokens: usize,
    /// Kept for a system prompt.
    pub reserved_system: usize,
    /// Kept for the query.
    pub reserved_query: usize,
    /// Kept for the answer.
    pub reserved_response: usize,
    /// What the line that names a document costs at least.
    pub per_doc_overhead: usize,
}

impl TokenBudget {
    /// A window of so many tokens, of which 200 are kept for a system prompt, 100 for the query and 500 for the answer.
    pub fn new(total_tokens: usize) -> Self {
        Self {
            total_tokens,
            reserved_system: 200,
            reserved_query: 100,
            reserved_response: 500,
            per_doc_overhead: 10,
        }
    }

    /// So many tokens for passages, and nothing else.
    pub fn available(tokens: usize) -> Self {
        Self {
            total_tokens: tokens,
            reserved_system: 0,
            reserved_query: 0,
            reserved_response: 0,
            per_doc_overhead: 10,
        }
    }

    /// What is left for passages.
    pub fn available_tokens(&self) -> usize {
        let reserves = [self.reserved_system, self.reserved_query, self.reserved_response];
        reserves.iter().fold(self.total_tokens, |left, reserve| left.saturating_sub(*reserve))
    }

    /// The same for the engine.
    ///
    /// # Errors
    ///
    /// None: every number of tokens is a budget.
    pub fn context_budget(&self) -> Result<ContextBudget, Error> {
        let tokens = i64::try_from(self.available_tokens()).unwrap_or(i64::MAX);
        ContextBudget::new(tokens, tokens)
    }
}
