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
    entries: BTreeMap<[u8; 32], CacheEntry>,
    /// The keys by the time of their last use.
    by_last_use: BTreeMap<u64, [u8; 32]>,
    /// A logical clock.
    next: u64,
}

#[derive(Debug)]
struct CacheEntry {
    last_use: u64,
    context: Arc<AssembledContext>,
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
        let entry = self.entries.get_mut(key)?;
        self.by_last_use.remove(&entry.last_use);
        entry.last_use = self.next;
        self.by_last_use.insert(self.next, *key);
        self.next += 1;
        Some(Arc::clone(&entry.context))
    }

    fn insert(&mut self, key: [u8; 32], context: Arc<AssembledContext>, max_contexts: usize) {
        let entry = CacheEntry { last_use: self.next, context };
        if let Some(replaced) = self.entries.insert(key, entry) {
            self.by_last_use.remove(&replaced.last_use);
        }
        self.by_last_use.insert(self.next, key);
        self.next += 1;
        while self.entries.len() > max_contexts
            && let Some((_, oldest)) = self.by_last_use.pop_first()
        {
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
