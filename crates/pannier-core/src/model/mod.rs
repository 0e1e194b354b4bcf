//! What goes in and what is promised about it: items, budgets and the names they carry.
//!
//! Every type here checks itself when it is built, and again when it is read with serde, so the
//! rest of the engine never meets an item without content or a target above its window.

mod budget;
mod deduplication;
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
pub use form::Level;
pub(crate) use form::Levels;
#[cfg(feature = "serde")]
pub use item::UncountedItem;
pub use item::{ContextItem, ContextItemBuilder, ScoredItem, find_item};
pub(crate) use label::cmp_ignore_ascii_case;
pub use label::{ContextKind, ContextSource};
pub use metadata::{Metadata, MetadataValue};
pub use overflow::OverflowStrategy;
pub use passage::Passage;
pub use previous_prompt::PreviousPrompt;
pub use timestamp::Timestamp;
