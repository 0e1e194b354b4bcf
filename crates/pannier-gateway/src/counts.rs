//! Token counts of texts that a client has sent before.
//!
//! An agent sends its history again with every request, and counting takes most of the time. The counts of each client are
//! kept apart: what one client has sent must not make another one's request faster. A client is a keyed hash of its
//! credential, so the gateway holds neither credentials nor texts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use pannier::TokenCounter;
use pannier::engine::item::Exactness;

use crate::headers::SESSION;

/// The number of clients that are remembered.
const MAX_CLIENTS: usize = 256;

/// The number of counts of each client in one generation; there are two.
const MAX_COUNTS: usize = 1 << 15;

/// Shorter texts are counted faster than they are found.
const MIN_BYTES: usize = 64;

/// The headers by which providers know a client.
const CREDENTIALS: [&str; 3] = ["x-api-key", "api-key", "openai-organization"];

/// The counts of all clients.
#[derive(Debug)]
pub(crate) struct KnownCounts {
    /// Without it, nobody can find out by hashing what a client has sent.
    secret: [u8; 32],
    /// In the order of their last requests.
    clients: Mutex<Vec<(Client, Arc<Mutex<Counts>>)>>,
}

/// A client with a tokenizer: a keyed hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Client([u8; 32]);

/// The counts of one client: those since the last change of generations, and those before.
#[derive(Debug, Default)]
struct Counts {
    recent: BTreeMap<u128, usize>,
    older: BTreeMap<u128, usize>,
}

impl Counts {
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
    /// Knows nothing.
    pub(crate) fn new() -> Result<Self, getrandom::Error> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        Ok(Self { secret, clients: Mutex::default() })
    }

    /// Returns the client that sent a request, for a tokenizer.
    pub(crate) fn client(&self, headers: &HeaderMap, tokenizer: &str) -> Client {
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        let mut add = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        add(tokenizer.as_bytes());
        for name in CREDENTIALS.into_iter().chain([AUTHORIZATION.as_str(), SESSION.as_str()]) {
            let values = headers.get_all(name);
            add(&(values.iter().count() as u64).to_le_bytes());
            values.iter().for_each(|value| add(value.as_bytes()));
        }
        Client(hasher.finalize().into())
    }

    /// Returns a counter that remembers the counts of a client.
    pub(crate) fn counter<'c>(
        &self,
        client: Client,
        inner: &'c dyn TokenCounter,
    ) -> KnownCounter<'c> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let position = clients.iter().position(|(known, _)| *known == client);
        let entry = position.map(|position| clients.remove(position));
        let entry = entry.unwrap_or_else(|| (client, Arc::default()));
        let counts = Arc::clone(&entry.1);
        if clients.len() >= MAX_CLIENTS {
            clients.remove(0);
        }
        clients.push(entry);
        KnownCounter { inner, client, counts }
    }
}

/// A counter that remembers the counts of a client.
#[derive(Debug)]
pub(crate) struct KnownCounter<'c> {
    inner: &'c dyn TokenCounter,
    client: Client,
    counts: Arc<Mutex<Counts>>,
}

impl TokenCounter for KnownCounter<'_> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn exactness(&self) -> Exactness {
        self.inner.exactness()
    }

    fn count(&self, text: &str) -> usize {
        if text.len() < MIN_BYTES {
            return self.inner.count(text);
        }
        let hash = *blake3::keyed_hash(&self.client.0, text.as_bytes()).as_bytes();
        let mut key = [0; 16];
        key.copy_from_slice(&hash[..16]);
        let key = u128::from_le_bytes(key);
        let known = self.counts.lock().unwrap_or_else(PoisonError::into_inner).get(key);
        known.unwrap_or_else(|| {
            let count = self.inner.count(text);
            self.counts.lock().unwrap_or_else(PoisonError::into_inner).insert(key, count);
            count
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use pannier::tokens::BytesOverFour;

    use super::*;

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

    fn headers(values: &[(&'static str, &str)]) -> HeaderMap {
        values.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn clients_share_nothing() {
        let known = KnownCounts::new().unwrap();
        let calls = Calls::default();
        let text = "a text that was sent before ".repeat(10);
        let users = [
            headers(&[("x-api-key", "a")]),
            headers(&[("x-api-key", "b")]),
            headers(&[("authorization", "a")]),
            headers(&[("x-api-key", "a"), ("pannier-session", "1")]),
            headers(&[]),
        ];
        for (index, headers) in users.iter().enumerate() {
            for _ in 0..3 {
                let counter = known.counter(known.client(headers, "calls"), &calls);
                assert_eq!(counter.count(&text), BytesOverFour.count(&text));
            }
            assert_eq!(calls.0.load(Ordering::Relaxed), index + 1);
        }
        let (one, other) = (known.client(&users[0], "calls"), known.client(&users[0], "o200k"));
        assert_ne!(one, other, "counts depend on the tokenizer");
    }

    #[test]
    fn memory_is_bounded() {
        let known = KnownCounts::new().unwrap();
        for number in 0..2 * MAX_CLIENTS {
            let client = known.client(&headers(&[("x-api-key", &number.to_string())]), "");
            known.counter(client, &BytesOverFour);
        }
        assert_eq!(known.clients.lock().unwrap().len(), MAX_CLIENTS);
        let mut counts = Counts::default();
        (0..3 * MAX_COUNTS).for_each(|number| counts.insert(number as u128, number));
        assert!(counts.recent.len() + counts.older.len() <= 2 * MAX_COUNTS);
        let last = 3 * MAX_COUNTS - 1;
        assert_eq!(counts.get(last as u128), Some(last));
        assert_eq!(counts.get(0), None);
    }
}
