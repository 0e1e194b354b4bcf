//! The data model: items, budgets, kinds and sources.
//!
//! Constructors and deserialization check every value. The rest of the engine relies on it: no item has an empty
//! content, and no target exceeds its window.

mod budget;
mod deduplication;
mod floor;
mod form;
mod item;
mod label;
mod metadata;
#[cfg(feature = "serde")]
pub(crate) mod null;
mod overflow;
mod passage;
mod previous_prompt;
mod timestamp;

pub use budget::{ContextBudget, ContextBudgetBuilder, SliceBudget};
pub use deduplication::Deduplication;
pub use floor::Floor;
pub(crate) use form::Levels;
pub use form::{Form, FormWorths, Level, Sent};
#[cfg(feature = "serde")]
pub use item::UncountedItem;
pub use item::{ContextItem, ContextItemBuilder, ScoredItem, find_item};
pub use label::{ContextKind, ContextSource, FormName};
pub(crate) use label::{KindMap, cmp_ignore_ascii_case};
pub use metadata::{Metadata, MetadataValue};
pub use overflow::OverflowStrategy;
pub use passage::Passage;
pub use previous_prompt::PreviousPrompt;
pub use timestamp::Timestamp;

/// Adds token counts, and clamps the sum to the range of `i64`. Callers may pass any counts. The clamped sum compares
/// with every budget below `i64::MAX` as the true sum does.
pub fn sum_tokens(tokens: impl Iterator<Item = i64>) -> i64 {
    let sum: i128 = tokens.map(i128::from).sum();
    sum.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}
