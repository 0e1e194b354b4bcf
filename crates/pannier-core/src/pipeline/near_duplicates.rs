//! The second half of stage 3: finds units that are near-duplicates of a higher-ranked unit.
//!
//! Near-duplication is containment: the share of a unit's shingles (runs of five words) that occur in the other unit.
//! Items are visited in rank order and compared with the items kept so far.
//!
//! Prefix filtering avoids comparing all pairs: a unit above threshold `t` shares at least one of its
//! `n - floor(t*n)` rarest shingles, so only those are probed. With few common shingles, the time is close to that of
//! one sort of all shingles. In the worst case, all items share all shingles, and it is quadratic.
//!
//! Hashes only select candidates. Both contents are compared by their words before a unit is dropped, so a hash
//! collision never drops an item.

use std::collections::BTreeMap;

use pannier_text::{SHINGLE_LEN, WordSequence, split_words};

use super::units::Units;
use crate::{ContextItem, Passage};

/// The rank of an item that is not kept.
const NOT_KEPT: u32 = u32::MAX;

/// The share of a unit that occurs in another unit: in shingles, words or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Containment {
    pub(crate) shared: u64,
    pub(crate) total: u64,
}

impl Containment {
    fn exceeds(self, threshold: Threshold) -> bool {
        u128::from(self.shared) > threshold.scale(self.total)
    }
}

/// A share from 0 to 1, rounded to millionths, so that all comparisons are exact integer comparisons.
#[derive(Clone, Copy)]
struct Threshold(u32);

impl Threshold {
    const MILLIONTHS: f64 = 1_000_000.0;

    fn new(share: f64) -> Self {
        Self((share.clamp(0.0, 1.0) * Self::MILLIONTHS).round() as u32)
    }

    /// Returns the largest integer that does not exceed this share of `total`.
    fn scale(self, total: u64) -> u128 {
        u128::from(self.0) * u128::from(total) / Self::MILLIONTHS as u128
    }
}

fn sorted<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// Compares two contents by their words. Hashes come first only because they sort faster.
fn containment(new: &str, kept: &str) -> Containment {
    let (new, kept) = (WordSequence::new(new), WordSequence::new(kept));
    let (own, others) = match new.is_short() {
        true => (sorted(new.words()), sorted(kept.words())),
        false => (sorted(new.shingles()), sorted(kept.shingles())),
    };
    let shared = own.iter().filter(|value| others.binary_search(value).is_ok()).count();
    Containment { shared: shared as u64, total: own.len() as u64 }
}

/// The shingles of all items of a pool. It does not depend on scores.
pub(crate) struct ShingleIndex<'a> {
    items: &'a [&'a ContextItem],
    sets: Vec<ShingleSet>,
    /// The start of each shingle's posting list, and the end of the last list.
    starts: Vec<usize>,
    passages: Passages<'a>,
}

/// The shingles of one item, or the words of an item that is shorter than a shingle. Only shingles that occur in
/// another item get an id.
#[derive(Clone, Default)]
struct ShingleSet {
    total: u64,
    /// The ids of its own shingles.
    own: Vec<u32>,
    /// The ids that it can be probed by: its own, and words that are all that a short item has.
    all: Vec<u32>,
}

/// The hash of a shingle, its item, and whether it is only a probe. One wide integer, because sorting dominates the
/// time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Shingle(u128);

impl Shingle {
    fn own(hash: u64, index: u32) -> Self {
        Self(u128::from(hash) << 64 | u128::from(index) << 1)
    }

    /// A word of a long item. It finds the item for short ones, and does not count towards its total.
    fn probe(hash: u64, index: u32) -> Self {
        Self(Self::own(hash, index).0 | 1)
    }

    fn hash(self) -> u64 {
        (self.0 >> 64) as u64
    }

    fn index(self) -> usize {
        (self.0 as u64 >> 1) as usize
    }

    fn is_own(self) -> bool {
        self.0 & 1 == 0
    }
}

impl<'a> ShingleIndex<'a> {
    /// Builds the index of the items in these units.
    pub(crate) fn new(items: &'a [&'a ContextItem], units: &Units) -> Self {
        let members = units.in_pool_order();
        let content = |index: u32| items[index as usize].content();
        let short = members
            .iter()
            .filter(|index| split_words(content(**index)).nth(SHINGLE_LEN - 1).is_none());
        let short_words = sorted(short.flat_map(|index| {
            let words = WordSequence::new(content(*index));
            words.words().map(|(hash, _)| hash).collect::<Vec<_>>()
        }));

        let mut shingles: Vec<Shingle> = Vec::new();
        for index in &*members {
            let words = WordSequence::new(content(*index));
            if words.is_short() {
                shingles.extend(words.words().map(|(hash, _)| Shingle::own(hash, *index)));
                continue;
            }
            shingles.extend(words.shingles().map(|(hash, _)| Shingle::own(hash, *index)));
            if !short_words.is_empty() {
                let hashes = words.words().map(|(hash, _)| hash);
                let probes = hashes.filter(|hash| short_words.binary_search(hash).is_ok());
                shingles.extend(probes.map(|hash| Shingle::probe(hash, *index)));
            }
        }
        shingles.sort_unstable();
        shingles.dedup();

        let mut sets = vec![ShingleSet::default(); items.len()];
        let mut starts = vec![0];
        for equal in shingles.chunk_by(|a, b| a.hash() == b.hash()) {
            for shingle in equal.iter().filter(|shingle| shingle.is_own()) {
                sets[shingle.index()].total += 1;
            }
            if equal.len() < 2 {
                continue;
            }
            let (id, start) = (starts.len() as u32 - 1, starts[starts.len() - 1]);
            starts.push(start + equal.len());
            for shingle in equal {
                let set = &mut sets[shingle.index()];
                set.all.push(id);
                if shingle.is_own() {
                    set.own.push(id);
                }
            }
        }
        Self { items, sets, starts, passages: Passages::new(items, &members) }
    }

    /// Finds the items whose containment in a kept item exceeds `threshold`, a share from 0 to 1. `ranked` holds pool
    /// indices, best first. Returns the ranks of both items, and the containment.
    pub(super) fn find(&self, ranked: &[u32], threshold: f64) -> Vec<(usize, usize, Containment)> {
        let mut duplicates = Vec::new();
        let mut kept = KeptItems {
            shingles: self,
            ranked,
            threshold: Threshold::new(threshold),
            ranks: vec![NOT_KEPT; self.items.len()],
            postings: vec![0; self.starts.last().copied().unwrap_or_default()],
            lens: vec![0; self.starts.len()],
        };
        for (rank, index) in ranked.iter().enumerate() {
            match kept.find_near_duplicate(*index) {
                Some((better, containment)) => duplicates.push((rank, better, containment)),
                None => kept.push(rank, *index),
            }
        }
        duplicates
    }

    /// Returns the containment of an item in another, if it exceeds the threshold.
    fn containment(&self, new: u32, kept: u32, threshold: Threshold) -> Option<Containment> {
        let exceeds = |containment: &Containment| containment.exceeds(threshold);
        if let Some(containment) = self.passages.containment(new, kept) {
            return Some(containment).filter(exceeds);
        }
        let (set, other) = (&self.sets[new as usize], &self.sets[kept as usize]);
        let is_shared = |id: &&u32| other.all.binary_search(id).is_ok();
        let shared = set.own.iter().filter(is_shared).count() as u64;
        if !exceeds(&Containment { shared, total: set.total }) {
            return None;
        }
        let content = |index: u32| self.items[index as usize].content();
        Some(containment(content(new), content(kept))).filter(exceeds)
    }
}

/// The items that are kept so far.
struct KeptItems<'f, 'a> {
    shingles: &'f ShingleIndex<'a>,
    ranked: &'f [u32],
    threshold: Threshold,
    /// By pool index.
    ranks: Vec<u32>,
    /// The posting list of each shingle: the ranks of the kept items that have it, ascending.
    postings: Vec<u32>,
    /// The length of each posting list.
    lens: Vec<u32>,
}

impl KeptItems<'_, '_> {
    fn push(&mut self, rank: usize, index: u32) {
        self.ranks[index as usize] = rank as u32;
        for id in &self.shingles.sets[index as usize].all {
            let id = *id as usize;
            self.postings[self.shingles.starts[id] + self.lens[id] as usize] = rank as u32;
            self.lens[id] += 1;
        }
    }

    /// Finds the best kept item that contains more of an item than the threshold allows.
    fn find_near_duplicate(&self, index: u32) -> Option<(usize, Containment)> {
        let set = &self.shingles.sets[index as usize];
        // An item without words is compared with nothing.
        if set.total == 0 {
            return None;
        }
        let mut candidates = self.shingles.passages.overlapping(index);
        candidates.retain_mut(|index| {
            *index = self.ranks[*index as usize];
            *index != NOT_KEPT
        });
        // Shingles without an id are the rarest ones and have no postings.
        let without_id = set.total - set.own.len() as u64;
        let prefix = u128::from(set.total) - self.threshold.scale(set.total);
        let probes = prefix.saturating_sub(u128::from(without_id)) as usize;
        if probes > 0 {
            let starts = &self.shingles.starts;
            let frequency = |id: u32| starts[id as usize + 1] - starts[id as usize];
            let mut rarest: Vec<(usize, u32)> =
                set.own.iter().map(|id| (frequency(*id), *id)).collect();
            rarest.sort_unstable();
            for (_, id) in rarest.into_iter().take(probes) {
                let (start, len) = (starts[id as usize], self.lens[id as usize] as usize);
                candidates.extend(&self.postings[start..start + len]);
            }
        }
        candidates.sort_unstable();
        candidates.dedup();
        candidates.into_iter().find_map(|rank| {
            let kept = self.ranked[rank as usize];
            let containment = self.shingles.containment(index, kept, self.threshold)?;
            Some((rank as usize, containment))
        })
    }
}

/// The items that are passages. Two passages of one document are compared by the bytes that they share.
struct Passages<'a> {
    /// By pool index.
    passages: Vec<Option<Passage<'a>>>,
    /// Document, start and pool index, ascending.
    sorted: Vec<(&'a str, u64, u32)>,
    /// The length of the longest passage of each document.
    max_len: BTreeMap<&'a str, u64>,
}

impl<'a> Passages<'a> {
    fn new(items: &'a [&'a ContextItem], members: &[u32]) -> Self {
        let mut passages = vec![None; items.len()];
        let (mut sorted, mut max_len) = (Vec::new(), BTreeMap::new());
        for index in members {
            let Some(passage) = Passage::from_item(items[*index as usize]) else { continue };
            sorted.push((passage.document, passage.range.start, *index));
            let max_len = max_len.entry(passage.document).or_default();
            *max_len = passage.len().max(*max_len);
            passages[*index as usize] = Some(passage);
        }
        sorted.sort_unstable();
        Self { passages, sorted, max_len }
    }

    /// Returns the passages of the same document that may share bytes with an item.
    fn overlapping(&self, index: u32) -> Vec<u32> {
        let Some(Passage { document, range, .. }) = &self.passages[index as usize] else {
            return Vec::new();
        };
        let earliest = range.start.saturating_sub(self.max_len[document]);
        let first_from =
            |start: u64| self.sorted.partition_point(|key| *key < (*document, start, 0));
        let (first, end) = (first_from(earliest), first_from(range.end));
        self.sorted[first.min(end)..end].iter().map(|(_, _, index)| *index).collect()
    }

    /// Returns the containment in bytes, if both items are passages of one document.
    fn containment(&self, new: u32, kept: u32) -> Option<Containment> {
        let (new, kept) =
            (self.passages[new as usize].as_ref()?, self.passages[kept as usize].as_ref()?);
        let containment = Containment { shared: new.overlap_bytes(kept), total: new.len() };
        (new.document == kept.document).then_some(containment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containment_counts_the_shingles_of_the_new_content() {
        let counts = |new, kept| {
            let Containment { shared, total } = containment(new, kept);
            (shared, total)
        };
        let long = "one two three four five six";
        assert_eq!(counts(long, "zero one two three four five"), (1, 2));
        // The words of a short content are searched in the words of the other content.
        assert_eq!(counts("Two, six, two!", long), (2, 2));
        assert_eq!(counts(long, "two six"), (0, 2));
        // A repeated shingle counts once.
        assert_eq!(counts("a a a a a a a", "a a a a a"), (1, 1));
    }

    #[test]
    fn thresholds_of_three_decimals_are_exact() {
        for thousandths in 0..=1_000_u64 {
            let threshold = Threshold::new(thousandths as f64 / 1_000.0);
            for (shared, total) in [(thousandths, 1_000), (thousandths + 1, 1_000), (1, 3)] {
                let exceeds = 1_000 * shared > thousandths * total;
                assert_eq!(Containment { shared, total }.exceeds(threshold), exceeds);
            }
        }
    }

    #[test]
    fn a_hash_collision_drops_no_item() {
        let items = ["a b c d e", "f g h i j"].map(|text| ContextItem::new(text, 1).unwrap());
        let mut units = Units::default();
        (0..2).for_each(|index| units.push_item(index, &items[index as usize]));
        let items: Vec<&ContextItem> = items.iter().collect();
        let mut collided = ShingleIndex::new(&items, &units);
        let same = ShingleSet { total: 1, own: vec![0], all: vec![0] };
        collided.sets = vec![same.clone(), same];
        collided.starts = vec![0, 2];
        assert_eq!(collided.find(&[0, 1], 0.8), []);
    }
}
