//! The assembler: a corpus, a configuration and a token counter.

use std::sync::Arc;

use pannier_core::TokenCounter;
use pannier_policy::Receipt;
use pannier_tokens::BytesOverFour;
use serde_json::Value;

use super::candidates::KIND;
use crate::{
    AssembledContext, AssemblyConfig, Candidates, Corpus, DocsError, QueryVector, Reranker,
    Reranking, TokenBudget,
};

/// Assembles contexts from a corpus.
#[derive(Debug)]
pub struct Assembler<'c> {
    index: &'c dyn Corpus,
    config: AssemblyConfig,
    counter: Arc<dyn TokenCounter>,
    reranker: Option<&'c dyn Reranker>,
}

impl<'c> Assembler<'c> {
    /// Creates an assembler that counts one token per four bytes.
    pub fn new(index: &'c dyn Corpus, config: AssemblyConfig) -> Self {
        Self { index, config, counter: Arc::new(BytesOverFour), reranker: None }
    }

    /// Counts tokens with another counter.
    pub fn with_counter(mut self, counter: Arc<dyn TokenCounter>) -> Self {
        self.counter = counter;
        self
    }

    /// Scores the best passages again with a reranker.
    pub fn with_reranker(mut self, reranker: Option<&'c dyn Reranker>) -> Self {
        self.reranker = reranker;
        self
    }

    /// Returns the corpus.
    pub fn index(&self) -> &'c dyn Corpus {
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

    /// Searches the passages for a query. Recorded scores and a recorded vector of the configuration take precedence over the
    /// reranker and `vector`.
    ///
    /// # Errors
    ///
    /// As [`Corpus::search`], and [`DocsError::Reranker`].
    pub fn candidates(
        &self,
        query: &str,
        vector: QueryVector<'_>,
    ) -> Result<Candidates, DocsError> {
        let mut config = self.config.clone();
        if let (None, QueryVector::Embedder(embedder)) = (&config.query_vector, vector)
            && !embedder.is_reproducible()
        {
            config.query_vector = self.index.query_vector(query, embedder, config.search.mode)?;
        }
        let vector = config.query_vector.as_deref().map_or(vector, QueryVector::Given);
        let mut hits = self.index.search(query, &config.search, vector)?;
        if let (None, Some(reranker)) = (&config.reranking, self.reranker) {
            config.reranking = Some(Reranking::ask(reranker, query, &hits)?);
        }
        if let Some(reranking) = &config.reranking {
            reranking.apply(&mut hits)?;
        }
        Candidates::new(self, config, query, hits)
    }

    /// Assembles the context for a query within a budget.
    ///
    /// # Errors
    ///
    /// As [`Corpus::search`], and [`DocsError::Engine`].
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
