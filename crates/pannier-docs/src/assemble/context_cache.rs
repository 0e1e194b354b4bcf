//! Contexts that were assembled before.
//!
//! A context follows from the query, the budget, the state of the cache and everything that is configured; whoever asks the
//! same again gets the same, and need not wait. The one that was asked for longest ago goes first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{AssembledContext, Assembler, DocsError, QueryVector, TokenBudget};

/// Keeps contexts that were assembled, up to a number of them.
#[derive(Debug)]
pub struct ContextCache {
    most: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    contexts: BTreeMap<[u8; 32], (u64, Arc<AssembledContext>)>,
    /// When each was last asked for.
    asked: BTreeMap<u64, [u8; 32]>,
    next: u64,
}

impl ContextCache {
    /// Keeps at most so many contexts.
    pub fn new(most: usize) -> Self {
        Self { most, kept: Mutex::new(Kept::default()) }
    }

    /// How many contexts are kept.
    pub fn len(&self) -> usize {
        self.with(|kept| kept.contexts.len())
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As [`Assembler::assemble`], or what it was the last time.
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
        if let Some(context) = self.with(|kept| kept.get(&key)) {
            return Ok(context);
        }
        // Others are not kept waiting meanwhile; if two make the same, it is the same.
        let context = Arc::new(assembler.assemble(query, budget, vector)?);
        self.with(|kept| kept.put(key, Arc::clone(&context), self.most));
        Ok(context)
    }

    fn with<T>(&self, f: impl FnOnce(&mut Kept) -> T) -> T {
        // Nothing in here fails halfway.
        f(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Kept {
    fn get(&mut self, key: &[u8; 32]) -> Option<Arc<AssembledContext>> {
        let (asked, context) = self.contexts.get_mut(key)?;
        self.asked.remove(asked);
        *asked = self.next;
        self.asked.insert(self.next, *key);
        self.next += 1;
        Some(Arc::clone(context))
    }

    fn put(&mut self, key: [u8; 32], context: Arc<AssembledContext>, most: usize) {
        if let Some((asked, _)) = self.contexts.insert(key, (self.next, context)) {
            self.asked.remove(&asked);
        }
        self.asked.insert(self.next, key);
        self.next += 1;
        while self.contexts.len() > most
            && let Some((_, oldest)) = self.asked.pop_first()
        {
            self.contexts.remove(&oldest);
        }
    }
}

/// Everything that a context depends on, as one number.
fn key(
    assembler: &Assembler<'_>,
    query: &str,
    budget: &TokenBudget,
    vector: QueryVector<'_>,
) -> [u8; 32] {
    let mut hash = blake3::Hasher::new();
    let mut put = |bytes: &[u8]| _ = hash.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    put(query.as_bytes());
    put(assembler.cache().manifest().version.as_bytes());
    put(assembler.counter().name().as_bytes());
    // Plain data, which is always written.
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
