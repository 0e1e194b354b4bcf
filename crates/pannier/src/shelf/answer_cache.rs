//! The answers of recent searches, so that a server computes the answer of a repeated search once.
//!
//! An answer is determined by the request, the version of the index and the settings of the shelf, which do not change. When
//! the cache is full, the least recently used answers are dropped.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::ops::FoundPassages;

/// The memory for answers and their keys.
const MAX_BYTES: usize = 16 << 20;

/// A cache of answers within a limit of memory.
#[derive(Debug, Default)]
pub(crate) struct AnswerCache {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: BTreeMap<String, Entry>,
    bytes: usize,
    next_use: u64,
}

#[derive(Debug)]
struct Entry {
    last_use: u64,
    bytes: usize,
    answer: Arc<FoundPassages>,
}

impl AnswerCache {
    /// Returns the answer of a key.
    pub(crate) fn get(&self, key: &str) -> Option<Arc<FoundPassages>> {
        self.with(|state| {
            let entry = state.entries.get_mut(key)?;
            entry.last_use = state.next_use;
            state.next_use += 1;
            Some(Arc::clone(&entry.answer))
        })
    }

    /// Adds an answer. One that exceeds the limit alone is not kept.
    pub(crate) fn insert(&self, key: String, answer: FoundPassages) {
        let bytes = key.len() + answer.memory();
        if bytes > MAX_BYTES {
            return;
        }
        self.with(|state| {
            let entry = Entry { last_use: state.next_use, bytes, answer: Arc::new(answer) };
            state.next_use += 1;
            state.bytes += bytes;
            let replaced = state.entries.insert(key, entry);
            state.bytes -= replaced.map_or(0, |entry| entry.bytes);
            while state.bytes > MAX_BYTES {
                state.drop_oldest();
            }
        });
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        // A panic cannot leave the state inconsistent: no step in between can fail.
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    /// Drops the least recently used answer. Scanning costs little, compared with a search.
    fn drop_oldest(&mut self) {
        let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.last_use);
        let oldest = oldest.map(|(key, _)| key.clone());
        let dropped = oldest.and_then(|key| self.entries.remove(&key));
        self.bytes -= dropped.map_or(self.bytes, |entry| entry.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_answers_are_dropped() {
        let cache = AnswerCache::default();
        let answer = |bytes: usize| {
            let text = "x".repeat(bytes);
            FoundPassages { text, ..FoundPassages::default() }
        };
        cache.insert("first".to_owned(), answer(10));
        for number in 0..20 {
            cache.insert(number.to_string(), answer(MAX_BYTES / 4));
            assert_eq!(cache.get("first").unwrap().text.len(), 10);
            cache.with(|state| {
                let sum: usize = state.entries.values().map(|entry| entry.bytes).sum();
                assert!(sum == state.bytes && sum <= MAX_BYTES);
            });
        }
        assert!(cache.get("19").is_some() && cache.get("0").is_none());
        cache.insert("19".to_owned(), answer(1));
        assert_eq!(cache.get("19").unwrap().text, "x");
        cache.insert("large".to_owned(), answer(MAX_BYTES));
        assert!(cache.get("large").is_none());
    }
}
