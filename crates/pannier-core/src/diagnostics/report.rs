//! The account of a run: every item of the pool, in exactly one of two lists, with its reason.

use super::{ExclusionReason, InclusionReason, OverflowEvent, PipelineStage, TraceEvent};
#[cfg(feature = "serde")]
use crate::model::null;
use crate::{ContextItem, CountRequirementShortfall, Ledger};

/// What was selected, what was not, and why.
///
/// A report made from a selection borrows its items; one that was read with serde, or made by hand,
/// owns them. The type parameter is the difference.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct SelectionReport<I = ContextItem> {
    /// What a collector recorded, in order.
    pub events: Vec<TraceEvent>,
    /// Items in the selection, in the order they are placed.
    pub included: Vec<IncludedItem<I>>,
    /// All others: highest score first, then by stage, then by position in the pool.
    pub excluded: Vec<ExcludedItem<I>>,
    /// How many items there were.
    pub total_candidates: usize,
    /// What they cost together; negative counts are added as they are.
    pub total_tokens_considered: i64,
    /// How many items entered and left each stage.
    #[cfg_attr(
        feature = "serde",
        serde(
            default,
            deserialize_with = "null::as_default",
            skip_serializing_if = "Vec::is_empty"
        )
    )]
    pub stages: Vec<StageCount>,
    /// Required counts that the pool could not meet.
    #[cfg_attr(
        feature = "serde",
        serde(
            default,
            deserialize_with = "null::as_default",
            skip_serializing_if = "Vec::is_empty"
        )
    )]
    pub count_requirement_shortfalls: Vec<CountRequirementShortfall>,
    /// How the selection went over its target, if it did and the strategy is to proceed.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub overflow: Option<OverflowEvent<I>>,
    /// Where the tokens of the window go. Absent in reports of other implementations.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub ledger: Option<Ledger>,
}

/// How many items entered and left a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StageCount {
    /// The stage.
    pub stage: PipelineStage,
    /// How many items entered it.
    pub items_in: usize,
    /// How many left it for the next.
    pub items_out: usize,
}

/// An item in the selection.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct IncludedItem<I = ContextItem> {
    /// The item's index in the pool, where the report comes from a run. Not part of the JSON form.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub index: Option<usize>,
    /// The item.
    pub item: I,
    /// Its score; 1 if it is pinned.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "wire::score"))]
    pub score: f64,
    /// Why it is in.
    pub reason: InclusionReason,
}

/// An item that is not in the selection.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ExcludedItem<I = ContextItem> {
    /// The item's index in the pool, where the report comes from a run. Not part of the JSON form.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub index: Option<usize>,
    /// The item.
    pub item: I,
    /// Its score; 0 if it was excluded before it had one.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "wire::score"))]
    pub score: f64,
    /// Why it is out.
    pub reason: ExclusionReason,
}

impl<I> IncludedItem<I> {
    /// An entry made by hand.
    pub fn new(item: I, score: f64, reason: InclusionReason) -> Self {
        Self { index: None, item, score, reason }
    }
}

impl<I> ExcludedItem<I> {
    /// An entry made by hand.
    pub fn new(item: I, score: f64, reason: ExclusionReason) -> Self {
        Self { index: None, item, score, reason }
    }
}

impl<I: std::borrow::Borrow<ContextItem>> SelectionReport<I> {
    /// A report of these lists, with its totals. The lists are kept in the order they are given.
    pub fn new(included: Vec<IncludedItem<I>>, excluded: Vec<ExcludedItem<I>>) -> Self {
        let included_tokens = included.iter().map(|entry| entry.item.borrow().tokens());
        let excluded_tokens = excluded.iter().map(|entry| entry.item.borrow().tokens());
        Self {
            total_candidates: included.len() + excluded.len(),
            total_tokens_considered: crate::sum_tokens(included_tokens.chain(excluded_tokens)),
            events: Vec::new(),
            included,
            excluded,
            stages: Vec::new(),
            count_requirement_shortfalls: Vec::new(),
            overflow: None,
            ledger: None,
        }
    }

    /// The same report with items of its own, to keep when the pool is gone.
    pub fn into_owned(self) -> SelectionReport {
        let own = |item: I| item.borrow().clone();
        let included = self.included.into_iter().map(|entry| IncludedItem {
            index: entry.index,
            item: own(entry.item),
            score: entry.score,
            reason: entry.reason,
        });
        let excluded = self.excluded.into_iter().map(|entry| ExcludedItem {
            index: entry.index,
            item: own(entry.item),
            score: entry.score,
            reason: entry.reason,
        });
        SelectionReport {
            events: self.events,
            included: included.collect(),
            excluded: excluded.collect(),
            total_candidates: self.total_candidates,
            total_tokens_considered: self.total_tokens_considered,
            stages: self.stages,
            count_requirement_shortfalls: self.count_requirement_shortfalls,
            overflow: self.overflow.map(|event| OverflowEvent {
                tokens_over_budget: event.tokens_over_budget,
                overflowing_items: event.overflowing_items.into_iter().map(own).collect(),
                budget: event.budget,
            }),
            ledger: self.ledger,
        }
    }
}

#[cfg(feature = "serde")]
mod wire {
    use serde::{Deserialize, Deserializer};

    /// JSON writes a score that is not a number as `null`.
    pub(super) fn score<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
    }
}
