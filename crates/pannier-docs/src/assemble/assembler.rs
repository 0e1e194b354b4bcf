//! From a query to its context.

use std::sync::Arc;

use pannier_core::TokenCounter;
use pannier_policy::Receipt;
use pannier_tokens::BytesOverFour;

use super::candidates::KIND;
use crate::{
    AssembledContext, AssemblyConfig, Candidates, DocsError, DocumentIndex, QueryVector,
    TokenBudget,
};

/// A cache, how contexts are assembled from it, and what counts their tokens.
pub struct Assembler<'c> {
    cache: &'c DocumentIndex,
    config: AssemblyConfig,
    counter: Arc<dyn TokenCounter>,
}

impl std::fmt::Debug for Assembler<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Assembler").field("config", &self.config).finish_non_exhaustive()
    }
}

impl<'c> Assembler<'c> {
    /// An assembler that counts a token for every four bytes.
    pub fn new(cache: &'c DocumentIndex, config: AssemblyConfig) -> Self {
        Self { cache, config, counter: Arc::new(BytesOverFour) }
    }

    /// Counts tokens by another counter.
    pub fn with_counter(mut self, counter: Arc<dyn TokenCounter>) -> Self {
        self.counter = counter;
        self
    }

    /// The cache.
    pub fn cache(&self) -> &'c DocumentIndex {
        self.cache
    }

    /// How contexts are assembled.
    pub fn config(&self) -> &AssemblyConfig {
        &self.config
    }

    /// What counts tokens.
    pub fn counter(&self) -> &Arc<dyn TokenCounter> {
        &self.counter
    }

    /// Finds the passages for a query.
    ///
    /// # Errors
    ///
    /// As [`DocumentIndex::search`].
    pub fn candidates(
        &self,
        query: &str,
        vector: QueryVector<'_>,
    ) -> Result<Candidates<'_>, DocsError> {
        let hits = self.cache.search(query, &self.config.search, vector)?;
        Candidates::new(self, query, hits)
    }

    /// The context for a query, within a budget.
    ///
    /// # Errors
    ///
    /// As [`DocumentIndex::search`], and whatever keeps the engine from selecting.
    pub fn assemble(
        &self,
        query: &str,
        budget: &TokenBudget,
        vector: QueryVector<'_>,
    ) -> Result<AssembledContext, DocsError> {
        self.candidates(query, vector)?.assemble(budget)
    }

    /// How a context was assembled of which this is the receipt.
    ///
    /// # Errors
    ///
    /// [`DocsError::Receipt`] if it is of something else.
    pub fn config_from_receipt(receipt: &Receipt) -> Result<AssemblyConfig, DocsError> {
        let wrong = |problem: &str| DocsError::Receipt { problem: problem.to_owned() };
        let source = &receipt.source;
        if source.kind != KIND {
            return Err(wrong("its items are no passages of a cache"));
        }
        let options = serde_json::to_value(&source.options);
        let config = options.and_then(serde_json::from_value);
        config.map_err(|error| wrong(&error.to_string()))
    }
}

/// Assembles a context twice, from the search on, and tells whether both are the same in every byte.
///
/// # Errors
///
/// As [`Assembler::assemble`].
pub fn verify_determinism(
    assembler: &Assembler<'_>,
    query: &str,
    budget: &TokenBudget,
    vector: QueryVector<'_>,
) -> Result<bool, DocsError> {
    let first = assembler.assemble(query, budget, vector)?;
    let second = assembler.assemble(query, budget, vector)?;
    Ok(first == second && serde_json::to_string(&first).ok() == serde_json::to_string(&second).ok())
}
