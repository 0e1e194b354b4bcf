//! Token counts of texts that a client has sent before.
//!
//! An agent sends its history again with every request, and counting takes most of the time. The counts of each client are
//! kept apart: what one client has sent must not make another one's request faster. Texts are known by keyed hashes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pannier::TokenCounter;
use pannier::engine::item::Exactness;

use crate::identity::Client;

/// The number of clients that are remembered.
const MAX_CLIENTS: usize = 256;

/// The number of counts of each client in one generation; there are two.
const MAX_COUNTS: usize = 1 << 15;

/// The number of counts of all clients when a request begins: about 50 MB.
const MAX_ALL_COUNTS: usize = 1 << 20;

/// Shorter texts are counted faster than they are found.
const MIN_BYTES: usize = 64;

/// The key of a client's texts, for one tokenizer.
type Key = [u8; 32];

/// The counts of all clients.
#[derive(Debug, Default)]
pub(crate) struct KnownCounts {
    /// In the order of their last requests.
    clients: Mutex<Vec<(Key, Arc<Mutex<Counts>>)>>,
}

/// The counts of one client: those since the last change of generations, and those before.
#[derive(Debug, Default)]
struct Counts {
    recent: BTreeMap<u128, usize>,
    older: BTreeMap<u128, usize>,
}

impl Counts {
    fn len(&self) -> usize {
        self.recent.len() + self.older.len()
    }

    fn get(&mut self, key: u128) -> Option<usize> {
        if let Some(count) = self.recent.get(&key) {
            return Some(*count);
        }
        let count = *self.older.get(&key)?;
        self.insert(key, count);
        Some(count)
    }

    fn insert(&mut self, key: u128, count: usize) {
        if self.recent.len() >= MAX_COUNTS {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(key, count);
    }
}

impl KnownCounts {
    /// Returns a counter that remembers the counts of a client.
    pub(crate) fn counter<'c>(
        &self,
        client: &Client,
        inner: &'c dyn TokenCounter,
    ) -> KnownCounter<'c> {
        let key = client.key(&format!("counts {}", inner.name()));
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let position = clients.iter().position(|(known, _)| *known == key);
        let entry = position.map(|position| clients.remove(position));
        let entry = entry.unwrap_or_else(|| (key, Arc::default()));
        let counts = Arc::clone(&entry.1);
        clients.push(entry);
        let len =
            |counts: &Mutex<Counts>| counts.lock().unwrap_or_else(PoisonError::into_inner).len();
        let mut all: usize = clients.iter().map(|(_, counts)| len(counts)).sum();
        while clients.len() > MAX_CLIENTS || all > MAX_ALL_COUNTS && clients.len() > 1 {
            let (_, oldest) = clients.remove(0);
            all = all.saturating_sub(len(&oldest));
        }
        KnownCounter { inner, key, counts }
    }
}

/// A counter that remembers the counts of a client.
#[derive(Debug)]
pub(crate) struct KnownCounter<'c> {
    inner: &'c dyn TokenCounter,
    key: Key,
    counts: Arc<Mutex<Counts>>,
}

impl KnownCounter<'_> {
    /// Returns the hash of a text if it is long enough to be remembered.
    fn hash(&self, text: &str) -> Option<u128> {
        if text.len() < MIN_BYTES {
            return None;
        }
        let hash = *blake3::keyed_hash(&self.key, text.as_bytes()).as_bytes();
        let mut key = [0; 16];
        key.copy_from_slice(&hash[..16]);
        Some(u128::from_le_bytes(key))
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a counter that counts nothing, or `None` if the number of bytes does not bound the tokens.
    pub(crate) fn bound(&self) -> Option<BoundCounter<'_>> {
        self.inner.max_count(0)?;
        Some(BoundCounter { known: self })
    }
}

/// Upper bounds: the counts of known texts, and the largest count of a text that is as long as an unknown one.
#[derive(Debug)]
pub(crate) struct BoundCounter<'c> {
    known: &'c KnownCounter<'c>,
}

impl TokenCounter for BoundCounter<'_> {
    fn name(&self) -> &str {
        self.known.name()
    }

    fn exactness(&self) -> Exactness {
        Exactness::UpperBound
    }

    fn count(&self, text: &str) -> usize {
        let known = self.known.hash(text).and_then(|hash| self.known.counts().get(hash));
        known.unwrap_or_else(|| self.known.inner.max_count(text.len()).unwrap_or(usize::MAX))
    }

    fn count_each(&self, texts: &[&str]) -> Vec<usize> {
        texts.iter().map(|text| self.count(text)).collect()
    }
}

impl TokenCounter for KnownCounter<'_> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn exactness(&self) -> Exactness {
        self.inner.exactness()
    }

    fn count(&self, text: &str) -> usize {
        let Some(hash) = self.hash(text) else { return self.inner.count(text) };
        let known = self.counts().get(hash);
        known.unwrap_or_else(|| {
            let count = self.inner.count(text);
            self.counts().insert(hash, count);
            count
        })
    }

    /// Counts the unknown texts together, because the inner counter may use several threads.
    fn count_distinct(&self, texts: &[&str]) -> Vec<usize> {
        let hashes: Vec<Option<u128>> = texts.iter().map(|text| self.hash(text)).collect();
        let mut known: Vec<Option<usize>> = {
            let mut counts = self.counts();
            hashes.iter().map(|hash| counts.get((*hash)?)).collect()
        };
        let unknown = texts.iter().zip(&known).filter(|(_, known)| known.is_none());
        let unknown: Vec<&str> = unknown.map(|(text, _)| *text).collect();
        let mut new = self.inner.count_distinct(&unknown).into_iter();
        let mut counts = self.counts();
        for (known, hash) in known.iter_mut().zip(hashes).filter(|(known, _)| known.is_none()) {
            *known = new.next();
            if let (Some(hash), Some(count)) = (hash, *known) {
                counts.insert(hash, count);
            }
        }
        known.into_iter().map(Option::unwrap_or_default).collect()
    }
}

/// Counts one text after the other, on this thread.
#[derive(Debug)]
pub(crate) struct OneByOne<'c>(pub(crate) &'c dyn TokenCounter);

impl TokenCounter for OneByOne<'_> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn exactness(&self) -> Exactness {
        self.0.exactness()
    }

    fn count(&self, text: &str) -> usize {
        self.0.count(text)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::http::HeaderMap;
    use axum::http::header::AUTHORIZATION;
    use pannier::tokens::BytesOverFour;

    use super::*;
    use crate::identity::Secret;

    #[derive(Debug, Default)]
    struct Calls(AtomicUsize);

    impl TokenCounter for Calls {
        fn name(&self) -> &str {
            "calls"
        }

        fn exactness(&self) -> Exactness {
            Exactness::Estimate
        }

        fn count(&self, text: &str) -> usize {
            self.0.fetch_add(1, Ordering::Relaxed);
            BytesOverFour.count(text)
        }
    }

    #[test]
    fn clients_share_nothing() {
        let (secret, known) = (Secret::random().unwrap(), KnownCounts::default());
        let calls = Calls::default();
        let text = "a text that was sent before ".repeat(10);
        for user in 0..3 {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, user.into())]);
            for _ in 0..3 {
                let counter = known.counter(&secret.client(&headers), &calls);
                assert_eq!(counter.count(&text), BytesOverFour.count(&text));
            }
            assert_eq!(calls.0.load(Ordering::Relaxed), user + 1);
        }
        let client = secret.client(&HeaderMap::new());
        let (one, other) = (known.counter(&client, &calls), known.counter(&client, &BytesOverFour));
        assert_ne!(one.key, other.key, "counts depend on the tokenizer");
    }

    #[test]
    fn texts_are_counted_together_and_once() {
        let (secret, known) = (Secret::random().unwrap(), KnownCounts::default());
        let calls = Calls::default();
        let counter = known.counter(&secret.client(&HeaderMap::new()), &calls);
        let long = ["one long text ", "another text "].map(|text| text.repeat(20));
        let texts = [long[0].as_str(), "short", &long[1]];
        for total in [3, 4] {
            let counts: Vec<usize> = texts.map(|text| BytesOverFour.count(text)).into();
            assert_eq!(counter.count_distinct(&texts), counts);
            assert_eq!(OneByOne(&counter).count_each(&texts[..1]), counts[..1]);
            assert_eq!(calls.0.load(Ordering::Relaxed), total, "short texts are not remembered");
        }
    }

    #[test]
    fn memory_is_bounded() {
        let (secret, known) = (Secret::random().unwrap(), KnownCounts::default());
        for number in 0..2 * MAX_CLIENTS {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, number.into())]);
            known.counter(&secret.client(&headers), &BytesOverFour);
        }
        assert_eq!(known.clients.lock().unwrap().len(), MAX_CLIENTS);
        let full = MAX_ALL_COUNTS / MAX_COUNTS;
        for (_, counts) in known.clients.lock().unwrap().iter().rev().take(full + 1) {
            let counts = &mut counts.lock().unwrap();
            (0..MAX_COUNTS).for_each(|key| counts.insert(key as u128, key));
        }
        known.counter(&secret.client(&HeaderMap::new()), &BytesOverFour);
        assert_eq!(known.clients.lock().unwrap().len(), full + 1, "the last ones and the new one");
        let mut counts = Counts::default();
        (0..3 * MAX_COUNTS).for_each(|number| counts.insert(number as u128, number));
        assert!(counts.recent.len() + counts.older.len() <= 2 * MAX_COUNTS);
        let last = 3 * MAX_COUNTS - 1;
        assert_eq!(counts.get(last as u128), Some(last));
        assert_eq!(counts.get(0), None);
    }
}
