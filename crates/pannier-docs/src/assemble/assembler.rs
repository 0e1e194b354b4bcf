//! The assembler: an index, a configuration and a token counter.

use std::sync::Arc;

use pannier_core::TokenCounter;
use pannier_policy::Receipt;
use pannier_tokens::BytesOverFour;
use serde_json::Value;

use super::candidates::KIND;
use crate::{
    AssembledContext, AssemblyConfig, Candidates, DocsError, DocumentIndex, QueryVector,
    TokenBudget,
};

/// Assembles contexts from an index.
#[derive(Debug)]
pub struct Assembler<'c> {
    index: &'c DocumentIndex,
    config: AssemblyConfig,
    counter: Arc<dyn TokenCounter>,
}

impl<'c> Assembler<'c> {
    /// Creates an assembler that counts one token per four bytes.
    pub fn new(index: &'c DocumentIndex, config: AssemblyConfig) -> Self {
        Self { index, config, counter: Arc::new(BytesOverFour) }
    }

    /// Counts tokens with another counter.
    pub fn with_counter(mut self, counter: Arc<dyn TokenCounter>) -> Self {
        self.counter = counter;
        self
    }

    /// Returns the index.
    pub fn index(&self) -> &'c DocumentIndex {
        self.index
    }

    /// Returns the configuration.
    pub fn config(&self) -> &AssemblyConfig {
        &self.config
    }

    /// Returns the token counter.
    pub fn counter(&self) -> &Arc<dyn TokenCounter> {
        &self.counter
    }

    /// Searches the passages for a query.
    ///
    /// # Errors
    ///
    /// As [`DocumentIndex::search`].
    pub fn candidates(
        &self,
        query: &str,
        vector: QueryVector<'_>,
    ) -> Result<Candidates, DocsError> {
        let hits = self.index.search(query, &self.config.search, vector)?;
        Candidates::new(self, query, hits)
    }

    /// Assembles the context for a query within a budget.
    ///
    /// # Errors
    ///
    /// As [`DocumentIndex::search`], and [`DocsError::Engine`].
    pub fn assemble(
        &self,
        query: &str,
        budget: &TokenBudget,
        vector: QueryVector<'_>,
    ) -> Result<AssembledContext, DocsError> {
        self.candidates(query, vector)?.assemble(budget)
    }

    /// Returns the configuration that a receipt records. `null` counts as absent.
    ///
    /// # Errors
    ///
    /// [`DocsError::Receipt`] if the receipt is not of an assembled context.
    pub fn config_from_receipt(receipt: &Receipt) -> Result<AssemblyConfig, DocsError> {
        let mismatch = |problem: &str| DocsError::Receipt { problem: problem.to_owned() };
        let source = &receipt.source;
        if source.kind != KIND {
            return Err(mismatch("its items are not passages of an index"));
        }
        let options = serde_json::to_value(&source.options).map(without_nulls);
        let config = options.and_then(serde_json::from_value);
        config.map_err(|error| mismatch(&error.to_string()))
    }
}

/// Removes the keys whose value is `null`, at every depth.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(fields.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        value => value,
    }
}

/// Assembles a context twice, including the search, and returns whether both are identical to the byte.
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
