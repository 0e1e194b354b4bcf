//! A fixed-size set of small integers.

/// A set of positions of requests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BitSet(Vec<u64>);

impl BitSet {
    /// Builds an empty set for positions below `count`.
    pub(super) fn with_capacity(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    /// Builds the set of the positions of the 1 bits.
    pub(super) fn from_bits(bits: usize) -> Self {
        Self(vec![bits as u64])
    }

    pub(super) fn insert(&mut self, position: usize) {
        if let Some(word) = self.0.get_mut(position / 64) {
            *word |= 1 << (position % 64);
        }
    }

    pub(super) fn contains(&self, position: usize) -> bool {
        self.0.get(position / 64).is_some_and(|word| word & (1 << (position % 64)) != 0)
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(super) fn is_subset(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(word, other)| word & !other == 0)
    }

    pub(super) fn union(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(word, other)| word | other).collect())
    }

    /// Returns the positions below `count` that are not in the set.
    pub(super) fn complement(&self, count: usize) -> Self {
        let mut complement = Self::with_capacity(count);
        (0..count)
            .filter(|position| !self.contains(*position))
            .for_each(|position| complement.insert(position));
        complement
    }
}
