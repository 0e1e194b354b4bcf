//! Remarks on a run as a whole, as data.

/// A remark on how a selection was chosen, where that differs from what its pipeline asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "note"))]
#[non_exhaustive]
pub enum Note {
    /// The knapsack is not exact: with single tokens, its table would exceed the memory limit.
    #[error(
        "the knapsack is not exact: it rounds items up to {bucket_size} tokens, because its table would exceed \
         {memory_limit} bytes; raise memory_limit for an exact choice"
    )]
    LargerBuckets {
        /// The tokens in a bucket.
        bucket_size: i64,
        /// The memory limit of the table, in bytes.
        memory_limit: u64,
    },
}
