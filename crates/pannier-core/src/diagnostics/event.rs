//! The events of a run: stages, and decisions about items.

use std::borrow::Cow;
use std::fmt;

use super::{ExclusionReason, InclusionReason};
use crate::{ContextBudget, ContextItem};

/// A stage of the pipeline that collectors observe. Sorting has no events of its own and is not a stage here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum PipelineStage {
    /// Splits pinned from scoreable items, and drops invalid ones.
    Classify,
    /// Scores items.
    Score,
    /// Drops duplicates.
    Deduplicate,
    /// Drops items below the relevance floor. Only pipelines with a floor have this stage.
    Floor,
    /// Selects the items that fit.
    Slice,
    /// Merges pinned and selected items, handles overflow, and orders.
    Place,
    /// A stage of another implementation, by its name.
    #[cfg_attr(feature = "serde", serde(untagged))]
    Other(Cow<'static, str>),
}

impl PipelineStage {
    /// Returns the name that reports use.
    pub fn name(&self) -> &str {
        match self {
            Self::Classify => "Classify",
            Self::Score => "Score",
            Self::Deduplicate => "Deduplicate",
            Self::Floor => "Floor",
            Self::Slice => "Slice",
            Self::Place => "Place",
            Self::Other(name) => name,
        }
    }
}

impl fmt::Display for PipelineStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A recorded event: the end of a stage, or a decision about one item.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TraceEvent {
    /// The stage.
    pub stage: PipelineStage,
    /// The duration of the stage; 0 for a single item, and without a clock.
    pub duration_ms: f64,
    /// The number of items that entered the stage; 1 for a single item.
    pub item_count: usize,
    /// The decision about a single item.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub message: Option<String>,
}

/// The decision of a stage about one item.
#[derive(Clone, Copy, Debug)]
pub struct ItemEvent<'e> {
    /// The stage.
    pub stage: &'e PipelineStage,
    /// The item's index in the pool.
    pub index: usize,
    /// The item.
    pub item: &'e ContextItem,
    /// Its score; 0 before scoring, 1 if it is pinned.
    pub score: f64,
    /// The decision.
    pub decision: ItemDecision<'e>,
}

/// The decision of an [`ItemEvent`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ItemDecision<'e> {
    /// The item got its score.
    Scored,
    /// The item was dropped.
    Excluded(&'e ExclusionReason),
    /// The item was selected.
    Included(InclusionReason),
}

impl fmt::Display for ItemEvent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.decision {
            ItemDecision::Scored => write!(f, "Scored: {}", self.score),
            ItemDecision::Excluded(reason) => reason.fmt(f),
            ItemDecision::Included(reason) => write!(f, "Included: {reason}"),
        }
    }
}

/// A selection that exceeds its target, which the strategy [`Proceed`](crate::OverflowStrategy::Proceed) allows.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct OverflowEvent<I = ContextItem> {
    /// The tokens above the target.
    pub tokens_over_budget: i64,
    /// All selected items: pinned items, then the others by score.
    pub overflowing_items: Vec<I>,
    /// The budget that was exceeded.
    pub budget: ContextBudget,
}
