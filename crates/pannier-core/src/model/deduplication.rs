//! Which items are too much like others to be sent beside them.

/// What counts as the same, so that only the best of it stays.
///
/// `true` and `false` stand for [`Exact`](Self::Exact) and [`Off`](Self::Off).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Deduplication {
    /// Nothing: every item may be selected.
    Off,
    /// Equal contents.
    Exact,
    /// Equal contents, and contents of which too large a share is found in a better one.
    ///
    /// What is compared are runs of five words, without regard to case and punctuation; of a content with fewer
    /// words, the words. [Passages](crate::Passage) of one document are compared by the bytes that they share.
    /// What a group is compared by is its best member.
    Near {
        /// The share, in thousandths, that may still be found in a better one: with 800, an item goes if more than
        /// four fifths of it are. With 1000, none does.
        threshold: u16,
    },
}

impl From<bool> for Deduplication {
    fn from(deduplication: bool) -> Self {
        if deduplication { Self::Exact } else { Self::Off }
    }
}
