//! The items that are scored together, and what several scorers want to know about them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use xxhash_rust::xxh3::xxh3_64;

use super::Scorer;
use crate::{ContextItem, Error};

/// The items that compete for a budget, as a scorer sees them.
pub struct Pool<'a> {
    items: Cow<'a, [&'a ContextItem]>,
    tags: OnceLock<TagIndex<'a>>,
}

impl<'a> Pool<'a> {
    /// A pool of these items, in this order.
    pub fn new(items: impl IntoIterator<Item = &'a ContextItem>) -> Self {
        Self { items: items.into_iter().collect(), tags: OnceLock::new() }
    }

    /// A pool that borrows its list of items.
    pub(crate) fn borrowed(items: &'a [&'a ContextItem]) -> Self {
        Self { items: items.into(), tags: OnceLock::new() }
    }

    /// The items.
    pub fn items(&self) -> &[&'a ContextItem] {
        &self.items
    }

    /// The scores that a scorer gives these items, in their order.
    ///
    /// # Errors
    ///
    /// Any error of the scorer.
    pub fn scores<S: Scorer + ?Sized>(&self, scorer: &S) -> Result<Vec<f64>, Error> {
        let mut scores = vec![0.0; self.len()];
        scorer.score(self, &mut scores)?;
        Ok(scores)
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The tags of all items as numbers. Reading the texts is the expensive part of everything that
    /// has to do with tags, so it is done once, for the first scorer that asks.
    pub(super) fn tags(&self) -> &TagIndex<'a> {
        self.tags.get_or_init(|| TagIndex::new(&self.items))
    }
}

/// Every tag of every item, as a number; two tags have the same number if their bytes are equal.
pub(super) struct TagIndex<'a> {
    /// The text of each number.
    pub(super) names: Vec<&'a str>,
    /// How often each number occurs.
    pub(super) occurrences: Vec<u32>,
    /// The start of each item's numbers in `numbers`, and a last entry for the end.
    starts: Vec<usize>,
    numbers: Vec<u32>,
}

impl<'a> TagIndex<'a> {
    /// Items that are read together. Tags lie anywhere in memory: loads that do not wait for each other overlap.
    const BLOCK_ITEMS: usize = 64;

    fn new(items: &[&'a ContextItem]) -> Self {
        let mut interner = Interner::with_capacity(256);
        let mut starts = Vec::with_capacity(items.len() + 1);
        let mut numbers = Vec::with_capacity(2 * items.len());
        let mut tags = Vec::with_capacity(4 * Self::BLOCK_ITEMS);
        let mut hashes = Vec::with_capacity(4 * Self::BLOCK_ITEMS);
        let mut occurrences: Vec<u32> = Vec::with_capacity(256);
        starts.push(0);
        for block in items.chunks(Self::BLOCK_ITEMS) {
            let before = numbers.len();
            for item in block {
                tags.extend(item.tags().iter().map(String::as_str));
                starts.push(before + tags.len());
            }
            hashes.extend(tags.iter().map(|tag| xxh3_64(tag.as_bytes())));
            let hashed = tags.drain(..).zip(hashes.drain(..));
            numbers.extend(hashed.map(|(tag, hash)| interner.number(tag, hash)));
            occurrences.resize(interner.keys.len(), 0);
            numbers[before..].iter().for_each(|number| occurrences[*number as usize] += 1);
        }
        Self { names: interner.keys, occurrences, starts, numbers }
    }

    /// Returns the numbers of one item's tags, in the item's order.
    pub(super) fn of(&self, item: usize) -> &[u32] {
        &self.numbers[self.starts[item]..self.starts[item + 1]]
    }

    /// Returns how many tags all items have together.
    pub(super) fn total(&self) -> usize {
        self.numbers.len()
    }
}

/// Numbers keys in order of first appearance.
///
/// A hash table with linear probing that is at most half full. The hash has no secret, so a hostile pool could make all
/// its keys collide. After `MAX_PROBES` steps a key goes into an ordered map instead: the worst case stays `n log n`.
pub(super) struct Interner<K> {
    pub(super) keys: Vec<K>,
    hashes: Vec<u64>,
    /// Numbers plus one; zero is free. The length is a power of two.
    slots: Vec<u32>,
    crowded: BTreeMap<K, u32>,
}

impl<K: Copy + Ord> Interner<K> {
    const MAX_PROBES: usize = 32;

    pub(super) fn with_capacity(keys: usize) -> Self {
        Self {
            keys: Vec::with_capacity(keys),
            hashes: Vec::with_capacity(keys),
            slots: vec![0; (keys * 2 + 1).next_power_of_two()],
            crowded: BTreeMap::new(),
        }
    }

    pub(super) fn number(&mut self, key: K, hash: u64) -> u32 {
        let free = match self.probe(hash, |number| self.keys[number as usize] == key) {
            Ok(number) => return number,
            Err(free) => free,
        };
        if free.is_none()
            && let Some(number) = self.crowded.get(&key)
        {
            return *number;
        }
        self.add(key, hash, free)
    }

    /// Finds the number of a key, or the slot that is free for it; `None` if there is no free slot near.
    fn probe(&self, hash: u64, is_key: impl Fn(u32) -> bool) -> Result<u32, Option<usize>> {
        let mask = self.slots.len() - 1;
        for step in 0..Self::MAX_PROBES {
            let slot = (hash as usize).wrapping_add(step) & mask;
            let Some(number) = self.slots[slot].checked_sub(1) else {
                return Err(Some(slot));
            };
            if self.hashes[number as usize] == hash && is_key(number) {
                return Ok(number);
            }
        }
        Err(None)
    }

    fn add(&mut self, key: K, hash: u64, free: Option<usize>) -> u32 {
        let number = self.keys.len() as u32;
        self.keys.push(key);
        self.hashes.push(hash);
        self.place(number, free);
        if self.keys.len() * 2 > self.slots.len() {
            self.slots = vec![0; self.slots.len() * 2];
            self.crowded.clear();
            for number in 0..self.keys.len() as u32 {
                let free = self.probe(self.hashes[number as usize], |_| false);
                self.place(number, free.err().flatten());
            }
        }
        number
    }

    fn place(&mut self, number: u32, free: Option<usize>) {
        match free {
            Some(slot) => self.slots[slot] = number + 1,
            None => _ = self.crowded.insert(self.keys[number as usize], number),
        }
    }
}

opaque_debug!(Pool<'a>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_get_equal_numbers() {
        let mut interner = Interner::with_capacity(8);
        for i in 0..5_000_u64 {
            let key = i % 1_370;
            assert_eq!(u64::from(interner.number(key, xxh3_64(&key.to_le_bytes()))), key);
        }
        assert_eq!(interner.keys.len(), 1_370);
        assert!(interner.crowded.is_empty());
    }

    #[test]
    fn keys_whose_hashes_collide_get_numbers_of_their_own() {
        let mut interner = Interner::with_capacity(8);
        for i in 0..3_000_u32 {
            assert_eq!(interner.number(i % 1_000, 7), i % 1_000);
        }
        assert_eq!(interner.crowded.len(), 1_000 - Interner::<u32>::MAX_PROBES);
    }
}
