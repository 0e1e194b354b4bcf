//! A set of requests, by their places.

/// Some of so many places.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Places(Vec<u64>);

impl Places {
    pub(super) fn none(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    /// Those that the bits of a number are set for.
    pub(super) fn of_bits(bits: usize) -> Self {
        Self(vec![bits as u64])
    }

    pub(super) fn insert(&mut self, place: usize) {
        if let Some(word) = self.0.get_mut(place / 64) {
            *word |= 1 << (place % 64);
        }
    }

    pub(super) fn contains(&self, place: usize) -> bool {
        self.0.get(place / 64).is_some_and(|word| word & (1 << (place % 64)) != 0)
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(super) fn is_within(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(word, other)| word & !other == 0)
    }

    pub(super) fn with(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(word, other)| word | other).collect())
    }

    /// All of so many places, but for these.
    pub(super) fn others(&self, count: usize) -> Self {
        let mut others = Self::none(count);
        (0..count).filter(|place| !self.contains(*place)).for_each(|place| others.insert(place));
        others
    }
}
