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
    /// Where each item's numbers start in `numbers`, and a last entry for the end.
    starts: Vec<usize>,
    numbers: Vec<u32>,
}

impl<'a> TagIndex<'a> {
    fn new(items: &[&'a ContextItem]) -> Self {
        let total = items.iter().map(|item| item.tags().len()).sum();
        let mut interner = Interner::new(total);
        let mut starts = Vec::with_capacity(items.len() + 1);
        let mut numbers = Vec::with_capacity(total);
        starts.push(0);
        for item in items {
            numbers.extend(item.tags().iter().map(|tag| interner.number(tag)));
            starts.push(numbers.len());
        }
        Self { names: interner.names, starts, numbers }
    }

    /// The numbers of one item's tags, in the item's order.
    pub(super) fn of(&self, item: usize) -> &[u32] {
        &self.numbers[self.starts[item]..self.starts[item + 1]]
    }

    /// How many tags all items have together.
    pub(super) fn total(&self) -> usize {
        self.numbers.len()
    }
}

/// Numbers texts in order of first appearance.
///
/// A hash table that is never more than half full and never grows. The hash has no secret, so a
/// hostile pool could make all its tags collide; after a few steps in vain a text goes into an
/// ordered map instead, and the worst case stays `n log n`.
struct Interner<'a> {
    names: Vec<&'a str>,
    hashes: Vec<u64>,
    /// Numbers plus one; zero is free.
    slots: Vec<u32>,
    crowded: BTreeMap<&'a str, u32>,
}

impl<'a> Interner<'a> {
    const PATIENCE: usize = 32;

    fn new(most: usize) -> Self {
        // Pools have far fewer different tags than tags.
        let few = most.min(256);
        Self {
            names: Vec::with_capacity(few),
            hashes: Vec::with_capacity(few),
            slots: vec![0; (most * 2).next_power_of_two()],
            crowded: BTreeMap::new(),
        }
    }

    fn number(&mut self, text: &'a str) -> u32 {
        let hash = xxh3_64(text.as_bytes());
        let mask = self.slots.len() - 1;
        for step in 0..Self::PATIENCE {
            let slot = (hash as usize).wrapping_add(step) & mask;
            match self.slots[slot] {
                0 => {
                    let number = self.add(text, hash);
                    self.slots[slot] = number + 1;
                    return number;
                }
                taken => {
                    let number = taken - 1;
                    if self.hashes[number as usize] == hash && self.names[number as usize] == text {
                        return number;
                    }
                }
            }
        }
        match self.crowded.get(text) {
            Some(&number) => number,
            None => {
                let number = self.add(text, hash);
                self.crowded.insert(text, number);
                number
            }
        }
    }

    fn add(&mut self, text: &'a str, hash: u64) -> u32 {
        let number = self.names.len() as u32;
        self.names.push(text);
        self.hashes.push(hash);
        number
    }
}

opaque_debug!(Pool<'a>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_get_equal_numbers_and_others_do_not() {
        let texts: Vec<String> = (0..500).map(|i| format!("tag-{}", i % 137)).collect();
        let mut interner = Interner::new(texts.len());
        let numbers: Vec<u32> = texts.iter().map(|text| interner.number(text)).collect();
        for (i, number) in numbers.iter().enumerate() {
            assert_eq!(*number as usize, i % 137);
        }
        assert_eq!(interner.names.len(), 137);
    }

    #[test]
    fn a_crowded_table_still_numbers_correctly() {
        // A table of one slot per text sends most of them to the ordered map.
        let texts: Vec<String> = (0..300).map(|i| format!("tag-{}", i % 100)).collect();
        let mut interner = Interner::new(8);
        interner.slots = vec![0; 16];
        let numbers: Vec<u32> = texts.iter().map(|text| interner.number(text)).collect();
        assert!(!interner.crowded.is_empty());
        assert!(numbers.iter().enumerate().all(|(i, number)| *number as usize == i % 100));
    }
}
