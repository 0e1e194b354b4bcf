//! A cache of values that were read from files, so that those in frequent use are read and checked once.
//!
//! Two generations bound the memory: a value that is used moves to the young one, and when that is full, it becomes the old one.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// The recently used values, within a limit of memory.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    max_generation_bytes: usize,
    state: Mutex<Generations<K, V>>,
}

#[derive(Debug)]
struct Generations<K, V> {
    /// The values with their sizes.
    young: HashMap<K, (usize, Arc<V>)>,
    old: HashMap<K, (usize, Arc<V>)>,
    young_bytes: usize,
}

impl<K: Hash + Eq, V> Recent<K, V> {
    /// Creates a cache of at most this many bytes.
    pub(crate) fn new(max_bytes: usize) -> Self {
        let (young, old) = (HashMap::new(), HashMap::new());
        let state = Mutex::new(Generations { young, old, young_bytes: 0 });
        Self { max_generation_bytes: max_bytes / 2, state }
    }

    /// Returns the value of a key, or reads it. `bytes` returns the memory of an entry, or `None` if the value is not kept.
    pub(crate) fn get_or_read<Q: Hash + Eq + ToOwned<Owned = K> + ?Sized, E>(
        &self,
        key: &Q,
        bytes: impl FnOnce(&V) -> Option<usize>,
        read: impl FnOnce() -> Result<V, E>,
    ) -> Result<Arc<V>, E>
    where
        K: Borrow<Q>,
    {
        // The lock is not held while a value is read: two threads may read the same.
        if let Some(value) = self.with(|own| own.get(key, self.max_generation_bytes)) {
            return Ok(value);
        }
        let value = Arc::new(read()?);
        if let Some(bytes) = bytes(&value).filter(|bytes| *bytes <= self.max_generation_bytes) {
            let entry = (bytes, Arc::clone(&value));
            self.with(|own| own.insert(key.to_owned(), entry, self.max_generation_bytes));
        }
        Ok(value)
    }

    fn with<T>(&self, f: impl FnOnce(&mut Generations<K, V>) -> T) -> T {
        // A panic cannot leave the state inconsistent: no step in between can fail.
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<K: Hash + Eq, V> Generations<K, V> {
    fn get<Q: Hash + Eq + ?Sized>(&mut self, key: &Q, max_bytes: usize) -> Option<Arc<V>>
    where
        K: Borrow<Q>,
    {
        if let Some((_, value)) = self.young.get(key) {
            return Some(Arc::clone(value));
        }
        let (key, entry) = self.old.remove_entry(key)?;
        let value = Arc::clone(&entry.1);
        self.insert(key, entry, max_bytes);
        Some(value)
    }

    fn insert(&mut self, key: K, entry: (usize, Arc<V>), max_bytes: usize) {
        let bytes = entry.0;
        if self.young_bytes + bytes > max_bytes {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += bytes;
        let replaced = self.young.insert(key, entry);
        self.young_bytes -= replaced.map_or(0, |(bytes, _)| bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_values_are_kept_within_the_limit() {
        let cache: Recent<String, usize> = Recent::new(100);
        let bytes = |size: &usize| (*size > 0).then_some(*size);
        let unread = || -> Result<usize, ()> { panic!("it is cached") };
        let failed = cache.get_or_read("x", bytes, || Err(()));
        assert_eq!(failed, Err(()));
        for number in 0..50 {
            let key = number.to_string();
            assert_eq!(*cache.get_or_read(&key, bytes, || Ok::<_, ()>(10)).unwrap(), 10);
            assert_eq!(*cache.get_or_read("0", bytes, unread).unwrap(), 10);
            cache.with(|own| {
                let sum = |values: &HashMap<String, (usize, Arc<usize>)>| {
                    values.values().map(|(bytes, _)| bytes).sum::<usize>()
                };
                assert_eq!(own.young_bytes, sum(&own.young));
                assert!(sum(&own.young) <= 50 && sum(&own.old) <= 50);
            });
        }
        cache.get_or_read("49", bytes, unread).unwrap();
        assert_eq!(*cache.get_or_read("1", bytes, || Ok::<_, ()>(60)).unwrap(), 60);
        // Too large to be kept, and no reason to drop others.
        assert_eq!(*cache.get_or_read("1", bytes, || Ok::<_, ()>(5)).unwrap(), 5);
        cache.get_or_read("49", bytes, unread).unwrap();
        // Not to be kept.
        cache.get_or_read("2", bytes, || Ok::<_, ()>(0)).unwrap();
        assert_eq!(*cache.get_or_read("2", bytes, || Ok::<_, ()>(6)).unwrap(), 6);
    }
}
