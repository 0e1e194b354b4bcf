//! What a run tells about itself while it runs.

use std::borrow::Cow;
use std::fmt;

use super::{ExclusionReason, InclusionReason};
use crate::{ContextBudget, ContextItem};

/// A stage of the pipeline that can be observed. Sorting has nothing to tell and is not one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PipelineStage {
    /// Splits pinned from scoreable items, and drops invalid ones.
    Classify,
    /// Scores items.
    Score,
    /// Drops items with equal content.
    Deduplicate,
    /// Selects what fits.
    Slice,
    /// Merges, handles overflow, and orders.
    Place,
    /// A stage of another implementation, by its name.
    Other(Cow<'static, str>),
}

impl PipelineStage {
    /// The stage's name, as it is written in reports.
    pub fn name(&self) -> &str {
        match self {
            Self::Classify => "Classify",
            Self::Score => "Score",
            Self::Deduplicate => "Deduplicate",
            Self::Slice => "Slice",
            Self::Place => "Place",
            Self::Other(name) => name,
        }
    }

    /// The stage with this name; an unknown name is kept.
    pub fn from_name(name: &str) -> Self {
        match name {
            "Classify" => Self::Classify,
            "Score" => Self::Score,
            "Deduplicate" => Self::Deduplicate,
            "Slice" => Self::Slice,
            "Place" => Self::Place,
            other => Self::Other(Cow::Owned(other.to_owned())),
        }
    }
}

impl fmt::Display for PipelineStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for PipelineStage {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for PipelineStage {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = <String as serde::Deserialize>::deserialize(deserializer)?;
        Ok(Self::from_name(&name))
    }
}

/// One observation: a stage that ended, or, in detail, what became of one item in it.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TraceEvent {
    /// The stage.
    pub stage: PipelineStage,
    /// How long the stage took. 0 for a single item, and where no clock was given.
    pub duration_ms: f64,
    /// How many items entered the stage; 1 for a single item.
    pub item_count: usize,
    /// What there is to say about it.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub message: Option<String>,
}

/// What a stage decided about one item.
#[derive(Clone, Copy, Debug)]
pub struct ItemEvent<'e> {
    /// The stage.
    pub stage: &'e PipelineStage,
    /// The item's index in the pool.
    pub index: usize,
    /// The item.
    pub item: &'e ContextItem,
    /// Its score; 0 before it has one, 1 if it is pinned.
    pub score: f64,
    /// What was decided.
    pub decision: ItemDecision<'e>,
}

/// The decision of an [`ItemEvent`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ItemDecision<'e> {
    /// The item was given its score.
    Scored,
    /// The item is out.
    Excluded(&'e ExclusionReason),
    /// The item is in.
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

/// A selection that went over its target because the strategy is to proceed.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct OverflowEvent<I = ContextItem> {
    /// How far over the target it is.
    pub tokens_over_budget: i64,
    /// Everything that was selected: pinned items, then the others by score.
    pub overflowing_items: Vec<I>,
    /// The budget that was exceeded.
    pub budget: ContextBudget,
}
