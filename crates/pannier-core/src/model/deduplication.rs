//! The criterion by which stage 3 drops duplicates.

/// Which items count as duplicates. Of each set of duplicates, the pipeline keeps the highest-ranked item.
///
/// `true` converts to [`Exact`](Self::Exact), `false` to [`Off`](Self::Off).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Deduplication {
    /// No item.
    Off,
    /// Items with equal content.
    Exact,
    /// Items with equal content, and items of which a higher-ranked item contains too much.
    ///
    /// Containment is the share of an item's shingles (runs of five words, without case and punctuation) that occur in
    /// the other item. Items with fewer words are compared by their words, [passages](crate::Passage) of one document by
    /// the bytes that they share, and groups by their best members.
    NearDuplicates {
        /// The largest containment that is allowed, from 0 to 1. At 0.8, an item is dropped if more than 80 % of it is
        /// in a higher-ranked item; at 1, none is. Rounded to millionths, and clamped to the range.
        threshold: f64,
    },
}

impl From<bool> for Deduplication {
    fn from(is_exact: bool) -> Self {
        if is_exact { Self::Exact } else { Self::Off }
    }
}
