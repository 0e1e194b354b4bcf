//! Stage 3: keeps the best of each set of units with equal content, and perhaps of those that are nearly so.
//!
//! Sorting hashes groups equal contents. A hash table would take as many steps, and a hostile pool could make it slow;
//! here contents whose hashes collide are sorted by their bytes. The first hash covers the length and the
//! beginning of each content, so most contents are never read whole. Contents that agree in those are compared, and hashed
//! whole where they differ.

use std::cmp::Ordering;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::near_duplicates::{Containment, ShingleIndex};
use super::units::Units;
use crate::{ContextItem, ContextKind, Deduplication, order};

/// The bytes of each content that the first hash covers: rarely more than one cache line.
const SAMPLE_BYTES: usize = 32;

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
    contents: &UnitContents<'_>,
    scores: &[f64],
    deduplication: Deduplication,
) -> Vec<Duplicate> {
    match deduplication {
        Deduplication::Off => Vec::new(),
        Deduplication::Exact => find_duplicates(contents, scores),
        Deduplication::NearDuplicates { threshold } => {
            let fingerprints = ShingleIndex::new(contents.items, contents.units);
            find_near_duplicates(contents, scores, &fingerprints, threshold)
        }
    }
}

/// Those that are equal to a better one; and of the others those that are nearly equal to a better one that stays.
pub(super) fn find_near_duplicates(
    contents: &UnitContents<'_>,
    scores: &[f64],
    fingerprints: &ShingleIndex<'_>,
    threshold: f64,
) -> Vec<Duplicate> {
    let units = contents.units;
    let mut duplicates = find_duplicates(contents, scores);
    let sorted = units.by_score(contents.compared(), &duplicates, scores);
    let leads: Vec<u32> = sorted.iter().map(|unit| units.best_member(*unit, scores)).collect();
    for (new, kept, overlap) in fingerprints.find(&leads, threshold) {
        let (unit, kept) = (sorted[new], sorted[kept]);
        duplicates.push(Duplicate { unit, kept, overlap: Some(overlap) });
    }
    duplicates.sort_unstable();
    duplicates
}

/// Finds units that are equal to a better one.
fn find_duplicates(contents: &UnitContents<'_>, scores: &[f64]) -> Vec<Duplicate> {
    group_by_hash(contents, scores, |unit| contents.sample_hash(unit), |unit| contents.hash(unit))
}

fn group_by_hash(
    contents: &UnitContents<'_>,
    scores: &[f64],
    sample_hash: impl Fn(u32) -> u64,
    hash: impl Fn(u32) -> u64,
) -> Vec<Duplicate> {
    let units = contents.units;
    // A hash and a unit share a word. The hash loses a few bits, which costs nothing but a rare comparison of bytes,
    // and half as much is moved.
    let unit_mask = order::low_bits(units.len());
    let key = |hash: u64, unit: u32| hash & !unit_mask | u64::from(unit);
    let unit = |key: &u64| (key & unit_mask) as u32;
    let has_same_hash = |a: &u64, b: &u64| a & !unit_mask == b & !unit_mask;
    let mut keys: Vec<u64> = Vec::with_capacity(units.len());
    keys.extend(contents.compared().map(|unit| key(sample_hash(unit), unit)));
    order::sort_by_prefix(&mut keys, |key| key);
    let runs = keys.chunk_by(has_same_hash).filter(|run| run.len() > 1);
    let mut suspects: Vec<u32> = Vec::with_capacity(units.len());
    suspects.extend(runs.flatten().map(unit));
    // In pool order, which is mostly that of the memory.
    suspects.sort_unstable();
    keys.clear();
    keys.extend(suspects.iter().map(|unit| key(hash(*unit), *unit)));
    order::sort_by_prefix(&mut keys, |key| key);

    let mut duplicates = Vec::with_capacity(keys.len());
    let mut add = |equals: &[u64]| {
        let score = |unit: u32| scores[units.best_member(unit, scores) as usize];
        let rank = |key: &u64| (order::descending_key(score(unit(key))), unit(key));
        let Some((_, kept)) = equals.iter().map(rank).min() else { return };
        let dropped = equals.iter().map(unit).filter(|unit| *unit != kept);
        duplicates.extend(dropped.map(|unit| Duplicate { unit, kept, overlap: None }));
    };
    for run in keys.chunk_by_mut(has_same_hash).filter(|run| run.len() > 1) {
        if contents.are_equal(run, unit) {
            add(run);
        } else {
            run.sort_by(|a, b| contents.compare(unit(a), unit(b)));
            run.chunk_by(|a, b| contents.compare(unit(a), unit(b)).is_eq()).for_each(&mut add);
        }
    }
    duplicates.sort_unstable();
    duplicates
}

/// The contents of units, for comparison.
pub(super) struct UnitContents<'u> {
    pub(super) items: &'u [&'u ContextItem],
    pub(super) units: &'u Units,
    /// The kinds that are not compared.
    pub(super) keep: &'u [ContextKind],
}

impl<'u> UnitContents<'u> {
    /// Returns the units that are compared: those without a member of a kind whose duplicates are kept.
    fn compared(&self) -> impl Iterator<Item = u32> {
        let is_kept = |index: &u32| self.keep.contains(self.items[*index as usize].kind());
        (0..self.units.len() as u32).filter(move |unit| {
            self.keep.is_empty() || !self.units.members(*unit).iter().any(is_kept)
        })
    }

    fn of(&self, unit: u32) -> impl Iterator<Item = (&'u str, bool)> {
        let items = self.items;
        self.units.members(unit).iter().map(move |member| items[*member as usize].identity())
    }

    /// A group of one is not the same as an item without a group.
    fn is_group(&self, unit: u32) -> bool {
        self.items[self.units.members(unit)[0] as usize].group().is_some()
    }

    fn are_equal(&self, keys: &[u64], unit: impl Fn(&u64) -> u32) -> bool {
        keys.windows(2).all(|pair| self.compare(unit(&pair[0]), unit(&pair[1])).is_eq())
    }

    /// Hashes the lengths and the first bytes of a unit's contents.
    fn sample_hash(&self, unit: u32) -> u64 {
        self.of(unit).fold(0, |seed, (text, _)| {
            let sample = &text.as_bytes()[..text.len().min(SAMPLE_BYTES)];
            xxh3_64_with_seed(sample, seed ^ text.len() as u64)
        })
    }

    fn hash(&self, unit: u32) -> u64 {
        match *self.units.members(unit) {
            [only] => xxh3_64(self.items[only as usize].identity().0.as_bytes()),
            _ => self.of(unit).fold(0, |seed, (text, _)| xxh3_64_with_seed(text.as_bytes(), seed)),
        }
    }

    fn compare(&self, left: u32, right: u32) -> Ordering {
        let by_group = match self.units.has_groups() {
            true => self.is_group(left).cmp(&self.is_group(right)),
            false => Ordering::Equal,
        };
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
        (0..6).for_each(|index| units.push_item(index, &items[index as usize]));
        let items: Vec<&ContextItem> = items.iter().collect();
        let contents = UnitContents { items: &items, units: &units, keep: &[] };
        let duplicates = find_duplicates(&contents, &[0.1, 0.5, 0.9, 0.5, 0.0, f64::NAN]);
        let pairs: Vec<_> = duplicates.iter().map(|d| (d.unit, d.kept)).collect();
        assert_eq!(pairs, [(0, 2), (3, 1), (5, 2)]);
    }

    #[test]
    fn contents_with_equal_hashes_are_compared_by_bytes() {
        let items: Vec<_> = ["x", "y", "x"].map(|text| ContextItem::new(text, 1).unwrap()).into();
        let mut units = Units::default();
        (0..3).for_each(|index| units.push_item(index, &items[index as usize]));
        let items: Vec<&ContextItem> = items.iter().collect();
        let contents = UnitContents { items: &items, units: &units, keep: &[] };
        for is_whole_hash_equal in [true, false] {
            let hash = |unit| if is_whole_hash_equal { 7 } else { contents.hash(unit) };
            let duplicates = group_by_hash(&contents, &[0.1, 0.2, 0.3], |_| 7, hash);
            assert_eq!(duplicates, [Duplicate { unit: 0, kept: 2, overlap: None }]);
        }
    }

    #[test]
    fn contents_with_equal_beginnings_are_compared() {
        let text =
            |at: usize| -> String { (0..100).map(|i| if i == at { 'x' } else { '.' }).collect() };
        let items: Vec<_> =
            [50, 60, 70, 50].map(|at| ContextItem::new(text(at), 1).unwrap()).into();
        let mut units = Units::default();
        (0..4).for_each(|index| units.push_item(index, &items[index as usize]));
        let items: Vec<&ContextItem> = items.iter().collect();
        let contents = UnitContents { items: &items, units: &units, keep: &[] };
        assert_eq!(contents.sample_hash(0), contents.sample_hash(1));
        let duplicates = find_duplicates(&contents, &[0.1, 0.2, 0.3, 0.4]);
        assert_eq!(duplicates, [Duplicate { unit: 0, kept: 3, overlap: None }]);
    }
}
