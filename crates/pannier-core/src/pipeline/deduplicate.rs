//! Stage 3: keeps the best of each set of units with equal content, and perhaps of those that are nearly so.
//!
//! Equal contents are brought together by sorting their hashes, not by a hash table: the same
//! number of steps, no table to size, and no input that makes it slow, because contents whose
//! hashes collide are sorted by their bytes.

use std::cmp::Ordering;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::near_duplicates::{Containment, ShingleIndex};
use super::units::Units;
use crate::{ContextItem, Deduplication, order};

/// A unit that was dropped, and the one that was kept for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Duplicate {
    pub(crate) unit: u32,
    pub(crate) kept: u32,
    /// How much of it is found there, if they are not equal.
    pub(crate) overlap: Option<Containment>,
}

/// The units to drop, in ascending order.
pub(super) fn deduplicate(
    items: &[&ContextItem],
    units: &Units,
    scores: &[f64],
    deduplication: Deduplication,
) -> Vec<Duplicate> {
    match deduplication {
        Deduplication::Off => Vec::new(),
        Deduplication::Exact => equal(items, units, scores),
        Deduplication::NearDuplicates { threshold } => {
            let fingerprints = ShingleIndex::new(items, units);
            nearly_equal(items, units, scores, &fingerprints, threshold)
        }
    }
}

/// Those that are equal to a better one; and of the others those that are nearly equal to a better one that stays.
pub(super) fn nearly_equal(
    items: &[&ContextItem],
    units: &Units,
    scores: &[f64],
    fingerprints: &ShingleIndex<'_>,
    threshold: f64,
) -> Vec<Duplicate> {
    let mut duplicates = equal(items, units, scores);
    let mut dropped = duplicates.iter().map(|duplicate| duplicate.unit).peekable();
    let unique = (0..units.len() as u32).filter(|unit| dropped.next_if_eq(unit).is_none());
    let key = |unit| {
        let lead = units.best_member(unit, scores);
        order::key(scores[lead as usize], lead, unit)
    };
    let mut keys: Vec<u128> = unique.map(key).collect();
    keys.sort_unstable();
    let leads: Vec<u32> = keys.iter().map(|key| order::first(*key)).collect();
    for (new, kept, overlap) in fingerprints.find(&leads, threshold) {
        let unit = |place: usize| order::second(keys[place]);
        duplicates.push(Duplicate { unit: unit(new), kept: unit(kept), overlap: Some(overlap) });
    }
    duplicates.sort_unstable();
    duplicates
}

fn equal(items: &[&ContextItem], units: &Units, scores: &[f64]) -> Vec<Duplicate> {
    let contents = Contents { items, units };
    by_hash(&contents, scores, |unit| contents.hash(unit))
}

fn by_hash(contents: &Contents<'_>, scores: &[f64], hash: impl Fn(u32) -> u64) -> Vec<Duplicate> {
    let units = contents.units;
    // A hash and a unit share a word. The hash loses a few bits, which costs nothing but a rare
    // comparison of bytes, and half as much is moved.
    let unit_bits = usize::BITS - units.len().leading_zeros();
    let unit_mask = (1_u64 << unit_bits) - 1;
    let mut keys: Vec<u64> =
        (0..units.len() as u32).map(|unit| hash(unit) & !unit_mask | u64::from(unit)).collect();
    keys.sort_unstable();

    let mut duplicates = Vec::new();
    for run in keys.chunk_by_mut(|a, b| a & !unit_mask == b & !unit_mask) {
        if run.len() == 1 {
            continue;
        }
        let unit = |key: &u64| (key & unit_mask) as u32;
        // All but always, equal hashes are equal contents, and need no sorting.
        let (first, others) = (unit(&run[0]), &run[1..]);
        if others.iter().any(|other| contents.compare(first, unit(other)).is_ne()) {
            run.sort_by(|a, b| contents.compare(unit(a), unit(b)));
        }
        for equals in run.chunk_by(|a, b| contents.compare(unit(a), unit(b)).is_eq()) {
            let score = |unit: u32| scores[units.best_member(unit, scores) as usize];
            let rank = |key: &u64| (order::descending(score(unit(key))), unit(key));
            let Some(kept) = equals.iter().map(rank).min().map(|(_, kept)| kept) else {
                continue;
            };
            let dropped = equals.iter().map(unit).filter(|unit| *unit != kept);
            duplicates.extend(dropped.map(|unit| Duplicate { unit, kept, overlap: None }));
        }
    }
    duplicates.sort_unstable();
    duplicates
}

struct Contents<'u> {
    items: &'u [&'u ContextItem],
    units: &'u Units,
}

impl<'u> Contents<'u> {
    fn of(&self, unit: u32) -> impl Iterator<Item = &'u str> {
        let items = self.items;
        self.units.members(unit).iter().map(move |member| items[*member as usize].content())
    }

    /// A group of one is not the same as an item without a group.
    fn is_group(&self, unit: u32) -> bool {
        self.items[self.units.members(unit)[0] as usize].group().is_some()
    }

    fn hash(&self, unit: u32) -> u64 {
        match *self.units.members(unit) {
            [only] => xxh3_64(self.items[only as usize].content().as_bytes()),
            _ => self.of(unit).fold(0, |seed, content| xxh3_64_with_seed(content.as_bytes(), seed)),
        }
    }

    fn compare(&self, left: u32, right: u32) -> Ordering {
        let by_group = self.is_group(left).cmp(&self.is_group(right));
        by_group.then_with(|| self.of(left).cmp(self.of(right)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_copy_survives_and_the_first_on_ties() {
        let contents = ["a", "b", "a", "b", "c", "a"];
        let items: Vec<_> = contents.map(|text| ContextItem::new(text, 1).unwrap()).into();
        let mut units = Units::default();
        (0..6).for_each(|index| units.push_item(index));
        let items: Vec<&ContextItem> = items.iter().collect();
        let duplicates = equal(&items, &units, &[0.1, 0.5, 0.9, 0.5, 0.0, f64::NAN]);
        let pairs: Vec<_> = duplicates.iter().map(|d| (d.unit, d.kept)).collect();
        assert_eq!(pairs, [(0, 2), (3, 1), (5, 2)]);
    }

    #[test]
    fn collisions_are_told_apart_by_their_bytes() {
        let items: Vec<_> = ["x", "y", "x"].map(|text| ContextItem::new(text, 1).unwrap()).into();
        let mut units = Units::default();
        (0..3).for_each(|index| units.push_item(index));
        let items: Vec<&ContextItem> = items.iter().collect();
        let contents = Contents { items: &items, units: &units };
        let all_collide = by_hash(&contents, &[0.1, 0.2, 0.3], |_| 7);
        assert_eq!(all_collide, [Duplicate { unit: 0, kept: 2, overlap: None }]);
    }
}
