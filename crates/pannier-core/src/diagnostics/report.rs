//! The report of a run: every item of the pool is in exactly one of two lists, with its reason.

use std::borrow::Borrow;

use super::{ExclusionReason, InclusionReason, Note, OverflowEvent, PipelineStage, TraceEvent};
#[cfg(feature = "serde")]
use crate::model::null;
use crate::{ContextItem, CountRequirementShortfall, FormName, Ledger};

/// The selected and the dropped items of a run, with reasons and totals.
///
/// A report of a selection borrows its items. A report that is deserialized or built by hand owns them. The type
/// parameter is the difference.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct SelectionReport<I = ContextItem> {
    /// The events that a collector recorded, in order.
    pub events: Vec<TraceEvent>,
    /// The selected items, in the order of the placer.
    pub included: Vec<IncludedItem<I>>,
    /// All other items: by descending score, then by stage, then by position in the pool.
    pub excluded: Vec<ExcludedItem<I>>,
    /// The number of items in the pool.
    pub total_candidates: usize,
    /// The sum of their tokens, including negative counts.
    pub total_tokens_considered: i64,
    /// The number of items that entered and left each stage.
    #[cfg_attr(feature = "serde", serde(default, deserialize_with = "null::as_default"))]
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub stages: Vec<StageCount>,
    /// The required counts that the pool could not meet.
    #[cfg_attr(feature = "serde", serde(default, deserialize_with = "null::as_default"))]
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub count_requirement_shortfalls: Vec<CountRequirementShortfall>,
    /// The overflow, if the selection exceeds its target and the strategy is to proceed.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub overflow: Option<OverflowEvent<I>>,
    /// The token breakdown of the window. Reports of other implementations have none.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub ledger: Option<Ledger>,
    /// Remarks on how the items were chosen, where that differs from what the pipeline asks for.
    #[cfg_attr(feature = "serde", serde(default, deserialize_with = "null::as_default"))]
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub notes: Vec<Note>,
    /// How much value the best selection has above this one, at most: 0 if this one is proven to be the best. Absent if
    /// that is not known.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub gap: Option<f64>,
}

/// The number of items that entered and left a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StageCount {
    /// The stage.
    pub stage: PipelineStage,
    /// The number of items that entered it.
    pub items_in: usize,
    /// The number of items that it passed on.
    pub items_out: usize,
}

/// A selected item in a report.
pub type IncludedItem<I = ContextItem> = ReportedItem<I, InclusionReason>;

/// A dropped item in a report.
pub type ExcludedItem<I = ContextItem> = ReportedItem<I, ExclusionReason>;

/// An item in a report, with its score and its reason.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ReportedItem<I, R> {
    /// The item's index in the pool, if the report comes from a run. JSON does not contain it.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub index: Option<usize>,
    /// The item.
    pub item: I,
    /// Its score: 1 if it is pinned, 0 if it was dropped before scoring.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "null::as_nan"))]
    pub score: f64,
    /// Why it is in or out.
    pub reason: R,
    /// The name of the form that is sent, unless it is the whole item or the form `short`.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub form: Option<FormName>,
}

impl<I, R> ReportedItem<I, R> {
    /// Creates an entry by hand, without an index.
    pub fn new(item: I, score: f64, reason: R) -> Self {
        Self { index: None, item, score, reason, form: None }
    }
}

impl<I: Borrow<ContextItem>, R> ReportedItem<I, R> {
    fn into_owned(self) -> ReportedItem<ContextItem, R> {
        let Self { index, item, score, reason, form } = self;
        ReportedItem { index, item: item.borrow().clone(), score, reason, form }
    }
}

impl<I: Borrow<ContextItem>> SelectionReport<I> {
    /// Creates a report of these lists in their order, with the totals.
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
            notes: Vec::new(),
            gap: None,
        }
    }

    /// Clones the items, so that the report can outlive the pool.
    pub fn into_owned(self) -> SelectionReport {
        let overflow = self.overflow.map(|event| OverflowEvent {
            tokens_over_budget: event.tokens_over_budget,
            overflowing_items: event.overflowing_items.iter().map(|i| i.borrow().clone()).collect(),
            budget: event.budget,
        });
        SelectionReport {
            events: self.events,
            included: self.included.into_iter().map(ReportedItem::into_owned).collect(),
            excluded: self.excluded.into_iter().map(ReportedItem::into_owned).collect(),
            total_candidates: self.total_candidates,
            total_tokens_considered: self.total_tokens_considered,
            stages: self.stages,
            count_requirement_shortfalls: self.count_requirement_shortfalls,
            overflow,
            ledger: self.ledger,
            notes: self.notes,
            gap: self.gap,
        }
    }
}
