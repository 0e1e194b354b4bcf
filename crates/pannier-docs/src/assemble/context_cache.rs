//! An LRU cache of assembled contexts.
//!
//! A context is determined by the query, the budget, the version of the index and the configuration, so equal requests share one
//! result. When the cache is full, the least recently used context is dropped.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{AssembledContext, Assembler, DocsError, QueryVector, TokenBudget};

/// A cache of assembled contexts with a maximum number of entries.
#[derive(Debug)]
pub struct ContextCache {
    max_contexts: usize,
    state: Mutex<CacheState>,
}

#[derive(Debug, Default)]
struct CacheState {
    /// The contexts, each with its last use.
    entries: BTreeMap<[u8; 32], (u64, Arc<AssembledContext>)>,
    next: u64,
}

impl ContextCache {
    /// Creates a cache for at most `max_contexts` contexts.
    pub fn new(max_contexts: usize) -> Self {
        Self { max_contexts, state: Mutex::new(CacheState::default()) }
    }

    /// Returns the number of cached contexts.
    pub fn len(&self) -> usize {
        self.with(|state| state.entries.len())
    }

    /// Returns whether no context is cached.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the cached context of an equal request, or assembles and caches it.
    ///
    /// # Errors
    ///
    /// As [`Assembler::assemble`].
    pub fn assemble(
        &self,
        assembler: &Assembler<'_>,
        query: &str,
        budget: &TokenBudget,
        vector: QueryVector<'_>,
    ) -> Result<Arc<AssembledContext>, DocsError> {
        let key = key(assembler, query, budget, vector);
        if let Some(context) = self.with(|state| state.get(&key)) {
            return Ok(context);
        }
        // The lock is not held meanwhile: two threads may assemble the same context, with equal results.
        let context = Arc::new(assembler.assemble(query, budget, vector)?);
        self.with(|state| state.insert(key, Arc::clone(&context), self.max_contexts));
        Ok(context)
    }

    fn with<T>(&self, f: impl FnOnce(&mut CacheState) -> T) -> T {
        // A panic cannot leave the state inconsistent: no step in between can fail.
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl CacheState {
    fn get(&mut self, key: &[u8; 32]) -> Option<Arc<AssembledContext>> {
        let (last_use, context) = self.entries.get_mut(key)?;
        *last_use = self.next;
        self.next += 1;
        Some(Arc::clone(context))
    }

    fn insert(&mut self, key: [u8; 32], context: Arc<AssembledContext>, max_contexts: usize) {
        self.entries.insert(key, (self.next, context));
        self.next += 1;
        // Scanning costs little, compared with assembling a context.
        while self.entries.len() > max_contexts
            && let Some((oldest, _)) =
                self.entries.iter().min_by_key(|(_, (last_use, _))| *last_use)
        {
            let oldest = *oldest;
            self.entries.remove(&oldest);
        }
    }
}

/// Returns a hash of everything that a context depends on.
fn key(
    assembler: &Assembler<'_>,
    query: &str,
    budget: &TokenBudget,
    vector: QueryVector<'_>,
) -> [u8; 32] {
    let mut hash = blake3::Hasher::new();
    let mut put = |bytes: &[u8]| _ = hash.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    put(query.as_bytes());
    put(assembler.index().manifest().version.as_bytes());
    put(assembler.counter().name().as_bytes());
    put(assembler.reranker_model().as_bytes());
    // Plain data always serializes.
    put(&serde_json::to_vec(&(budget, assembler.config())).unwrap_or_default());
    match vector {
        QueryVector::None => put(b""),
        QueryVector::Embedder(embedder) => put(embedder.model().hash.as_bytes()),
        QueryVector::Given(vector) => {
            put(&vector.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>());
        }
    }
    hash.finalize().into()
}
