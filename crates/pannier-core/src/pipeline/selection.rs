//! The result of a run, with the decisions of all stages.
//!
//! The stages keep indices, scores and verdicts, not reasons. A report derives reasons from them when a caller asks for
//! it, so a run without a report pays nothing for diagnostics.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;

use super::classify::Classified;
use super::close::{Outcome, RenderDrops};
use super::deduplicate::Duplicate;
use super::floor::FloorCut;
use super::near_duplicates::Containment;
use super::place::{Overflow, TruncatedUnit};
use crate::diagnostics::{
    ExcludedItem, ExclusionReason, ExclusionVariant, IncludedItem, InclusionReason, Note,
    OverflowEvent, PipelineStage, SelectionReport, StageCount, TraceEvent,
};
use crate::layout::PlannedCosts;
use crate::model::Levels;
use crate::{
    ContextBudget, ContextItem, CountRequirementShortfall, Error, Form, FormName, Ledger, Level,
    Offer, Offers, OverflowStrategy, PlacedItems, Sent, SliceBudget, Verdict, order, sum_tokens,
};

/// The selected items in their final order, and the decisions about all others.
///
/// A selection borrows its items from the pool. It keeps the decisions of every stage, so it can make a
/// [report](Self::report) at any time, which costs nothing before.
#[derive(Debug)]
pub struct Selection<'a> {
    pub(super) run: RunState<'a>,
}

impl<'a> Selection<'a> {
    /// Returns the selected items in the order they should be sent, in the form they should be sent in.
    pub fn items(&self) -> impl ExactSizeIterator<Item = &'a ContextItem> + Clone {
        self.sent().map(|sent| sent.item())
    }

    /// Returns the selected items in the same order, each with the form that is sent.
    pub fn sent(&self) -> impl ExactSizeIterator<Item = Sent<'a>> + Clone {
        let (items, levels) = (&self.run.prepared.items, &self.run.levels);
        self.run.placed.iter().map(move |index| levels.sent(items, *index))
    }

    /// Returns their indices in the pool, in the same order.
    pub fn indices(&self) -> impl ExactSizeIterator<Item = usize> + Clone {
        self.run.placed.iter().map(|index| *index as usize)
    }

    /// Returns the selected items with their forms, for a [layout](crate::Layout) to render.
    pub fn placed(&self) -> PlacedItems<'_> {
        PlacedItems::new(&self.run.prepared.items, &self.run.placed, &self.run.levels)
    }

    /// Returns the number of selected items.
    pub fn len(&self) -> usize {
        self.run.placed.len()
    }

    /// Returns whether no item is selected.
    pub fn is_empty(&self) -> bool {
        self.run.placed.is_empty()
    }

    /// Returns the sum of the tokens of the selected items.
    pub fn tokens(&self) -> i64 {
        sum_tokens(self.items().map(ContextItem::tokens))
    }

    /// Returns the pool.
    pub fn pool(&self) -> &[&'a ContextItem] {
        &self.run.prepared.items
    }

    /// Returns the budget.
    pub fn budget(&self) -> &ContextBudget {
        &self.run.budget
    }

    /// Returns the tokens that every selection takes: pinned items, and the fixed text of the layout.
    pub fn committed_tokens(&self) -> i64 {
        self.run.prepared.committed_tokens()
    }

    /// Returns the budget of the slicer.
    pub fn effective_budget(&self) -> SliceBudget {
        self.run.effective
    }

    /// Returns the required counts that the pool could not meet.
    pub fn shortfalls(&self) -> &[CountRequirementShortfall] {
        &self.run.shortfalls
    }

    /// Returns remarks on how the items were chosen, where that differs from what the pipeline asks for.
    pub fn notes(&self) -> &[Note] {
        &self.run.notes
    }

    /// Returns how much value the best selection has above this one, at most: 0 if this one is proven to be the best.
    /// `None` if that is not known, because the slicer does not prove it or the layout measures more than its plan states.
    pub fn gap(&self) -> Option<f64> {
        self.run.gap
    }

    /// Returns the overflow, if the selection exceeds its target and the strategy is to proceed.
    pub fn overflow(&self) -> Option<OverflowEvent<&'a ContextItem>> {
        let RunState { prepared, budget, overflow, .. } = &self.run;
        Some(OverflowEvent {
            tokens_over_budget: overflow.tokens_over_budget?,
            overflowing_items: overflow
                .merged
                .iter()
                .map(|index| prepared.items[*index as usize])
                .collect(),
            budget: budget.clone(),
        })
    }

    /// Returns the number of dropped items for each reason.
    pub fn exclusion_counts(&self) -> BTreeMap<ExclusionVariant, usize> {
        let mut counts = BTreeMap::new();
        for stage in RunState::STAGES {
            self.run.for_each_excluded(&stage, |_, reason| {
                *counts.entry(reason.variant()).or_default() += 1;
            });
        }
        counts
    }

    /// Returns the token breakdown of the window. Without a layout, all tokens are those of items.
    pub fn ledger(&self) -> &Ledger {
        &self.run.ledger
    }

    /// Returns every item of the pool, selected or dropped, with its score and its reason.
    pub fn report(&self) -> SelectionReport<&'a ContextItem> {
        self.report_with(Vec::new())
    }

    /// Returns the [report](Self::report) with the events that a collector recorded.
    pub fn report_with(&self, events: Vec<TraceEvent>) -> SelectionReport<&'a ContextItem> {
        let run = &self.run;
        let mut included = Vec::with_capacity(run.placed.len());
        run.for_each_included(|index, reason| {
            let sent = run.levels.sent(&run.prepared.items, index);
            let (index, _, score) = run.entry(index);
            let form =
                sent.form().map(Form::name).filter(|name| **name != FormName::SHORT).cloned();
            included.push(IncludedItem {
                index: Some(index),
                item: sent.item(),
                score,
                reason,
                form,
            });
        });
        let mut excluded = Vec::with_capacity(run.prepared.items.len() - included.len());
        for (rank, stage) in RunState::STAGES.iter().enumerate() {
            run.for_each_excluded(stage, |index, reason| {
                let (index, item, score) = run.entry(index);
                let key = (order::descending_key(score), rank, index);
                let form = None;
                excluded
                    .push((key, ExcludedItem { index: Some(index), item, score, reason, form }));
            });
        }
        excluded.sort_unstable_by_key(|(key, _)| *key);
        let excluded = excluded.into_iter().map(|(_, entry)| entry).collect();
        let mut report = SelectionReport::new(included, excluded);
        if !run.levels.all_whole() {
            // The total is that of the pool, not of the short forms.
            report.total_tokens_considered =
                sum_tokens(run.prepared.items.iter().map(|item| item.tokens()));
        }
        report.events = events;
        report.stages = run.stage_counts();
        report.count_requirement_shortfalls.clone_from(&run.shortfalls);
        report.overflow = self.overflow();
        report.ledger = Some(run.ledger.clone());
        report.notes.clone_from(&run.notes);
        report.gap = run.gap;
        report
    }
}

/// The decisions of the stages that do not depend on the size of the budget, as far as they have run.
#[derive(Clone, Debug, Default)]
pub(crate) struct PreparedRun<'a> {
    pub(crate) items: Vec<&'a ContextItem>,
    pub(crate) classified: Classified,
    /// The costs of the layout; zero without a layout.
    pub(crate) costs: PlannedCosts,
    /// By pool index: 1 for pinned items, 0 for items that were not scored.
    pub(crate) scores: Vec<f64>,
    pub(super) duplicates: Vec<Duplicate>,
    /// The units below the relevance floor, if there is one.
    pub(super) floor: Option<FloorCut>,
    /// The units that are neither duplicates nor below the floor, by descending score.
    pub(crate) sorted: Vec<u32>,
    /// Their offers, in the same order.
    pub(crate) offers: Offers<'a>,
}

impl PreparedRun<'_> {
    /// Returns an error if the pinned items exceed the window.
    pub(super) fn check_pinned(&self, budget: &ContextBudget) -> Result<(), Error> {
        let (pinned_tokens, available_tokens) =
            (self.classified.pinned_tokens, budget.input_tokens());
        if pinned_tokens > available_tokens {
            return Err(Error::PinnedOverBudget { pinned_tokens, available_tokens });
        }
        Ok(())
    }

    /// Returns the tokens that every selection takes.
    pub(crate) fn committed_tokens(&self) -> i64 {
        let around = self.around(&self.classified.pinned.in_pool_order());
        let fixed_tokens = self.costs.plan.fixed;
        self.classified.pinned_tokens.saturating_add(fixed_tokens).saturating_add(around)
    }

    /// Returns the tokens that the layout adds around these items.
    fn around(&self, indices: &[u32]) -> i64 {
        if self.costs.is_free_of_frames() {
            return 0;
        }
        sum_tokens(indices.iter().map(|index| self.costs.around(*index as usize, Level::WHOLE)))
    }

    /// Returns the committed tokens and those of all candidates.
    pub(crate) fn total_tokens(&self) -> i64 {
        let candidates = self.offers.candidates().iter().map(|candidate| candidate.tokens);
        sum_tokens(candidates.chain([self.committed_tokens()]))
    }

    /// Returns the tokens of a unit, with those that the layout adds around its items.
    pub(crate) fn unit_tokens(&self, unit: u32) -> i64 {
        let units = &self.classified.scoreable;
        units.tokens(unit).saturating_add(self.around(units.members(unit)))
    }

    /// Returns the forms of a unit below the whole, longest first.
    pub(super) fn forms<'s>(
        &'s self,
        unit: u32,
        scores: &'s [f64],
    ) -> impl Iterator<Item = Offer> + 's {
        let units = &self.classified.scoreable;
        let (members, best) = (units.members(unit), units.best_member(unit, scores));
        self.costs.forms(&self.items, members, best, |index| scores[index as usize])
    }

    /// Returns the units that are kept, in ascending order. A unit is kept also if a duplicate of it is.
    pub(super) fn kept_units(&self, duplicates: &[Duplicate]) -> Vec<u32> {
        let units = &self.classified.scoreable;
        let is_kept = |unit: &u32| {
            units.members(*unit).iter().any(|index| self.items[*index as usize].is_kept())
        };
        let mut kept: Vec<u32> = (0..units.len() as u32).filter(is_kept).collect();
        let of_duplicates = duplicates.iter().filter(|duplicate| is_kept(&duplicate.unit));
        kept.extend(of_duplicates.map(|duplicate| duplicate.kept));
        kept.sort_unstable();
        kept
    }

    /// Returns the number of scored items that are not duplicates.
    pub(super) fn unique_items(&self) -> usize {
        let units = &self.classified.scoreable;
        let dropped = self.duplicates.iter().map(|duplicate| units.members(duplicate.unit).len());
        units.item_count() - dropped.sum::<usize>()
    }

    /// Returns the number of items that compete for the budget.
    pub(super) fn competing_items(&self) -> usize {
        let units = &self.classified.scoreable;
        let below = self.floor.iter().flat_map(|floor| &floor.below);
        self.unique_items() - below.map(|unit| units.members(*unit).len()).sum::<usize>()
    }

    /// Reports each member of a unit with the same reason.
    fn report_members(
        &self,
        unit: u32,
        reason: ExclusionReason,
        report: &mut impl FnMut(u32, ExclusionReason),
    ) {
        let members = self.classified.scoreable.members(unit);
        let reasons = iter::repeat_n(reason, members.len());
        members.iter().zip(reasons).for_each(|(index, reason)| report(*index, reason));
    }

    /// Reports each item that one of these stages dropped, with the reason.
    pub(super) fn for_each_excluded(
        &self,
        stage: &PipelineStage,
        report: &mut impl FnMut(u32, ExclusionReason),
    ) {
        let units = &self.classified.scoreable;
        match stage {
            PipelineStage::Classify => {
                for &index in &self.classified.invalid {
                    report(index, self.invalid_reason(index));
                }
            }
            PipelineStage::Deduplicate => {
                // A content with many duplicates is copied once.
                let mut contents = BTreeMap::new();
                let mut content = |index: u32| -> Arc<str> {
                    let content = || self.items[index as usize].identity().0.into();
                    Arc::clone(contents.entry(index).or_insert_with(content))
                };
                for Duplicate { unit, kept, overlap } in &self.duplicates {
                    if let Some(Containment { shared, total }) = *overlap {
                        let near_duplicate_of = content(units.best_member(*kept, &self.scores));
                        let reason =
                            ExclusionReason::NearDuplicate { near_duplicate_of, shared, total };
                        self.report_members(*unit, reason, report);
                        continue;
                    }
                    for (&index, kept) in units.members(*unit).iter().zip(units.members(*kept)) {
                        let deduplicated_against = content(*kept);
                        report(index, ExclusionReason::Deduplicated { deduplicated_against });
                    }
                }
            }
            PipelineStage::Floor => {
                for (unit, floor) in self
                    .floor
                    .iter()
                    .flat_map(|cut| cut.below.iter().map(|unit| (*unit, cut.score)))
                {
                    let score = self.scores[units.best_member(unit, &self.scores) as usize];
                    self.report_members(unit, ExclusionReason::BelowFloor { score, floor }, report);
                }
            }
            _ => {}
        }
    }

    fn invalid_reason(&self, index: u32) -> ExclusionReason {
        let item = self.items[index as usize];
        if let Some(rule) = self.costs.rejection_rule(index) {
            return ExclusionReason::RejectedByFormat { rule: rule.to_owned() };
        }
        match (item.tokens(), item.group()) {
            (0.., Some(group)) => {
                let of_group = |index: u32| self.items[index as usize].group() == Some(group);
                let mut rejected = self.costs.plan.rejected.iter();
                let is_rejected = rejected.any(|(index, _)| of_group(*index));
                // The names that reports use.
                let cause = if is_rejected { "Refused" } else { "NegativeTokens" }.to_owned();
                ExclusionReason::GroupExcluded { group: group.to_owned(), cause }
            }
            (tokens, _) => ExclusionReason::NegativeTokens { tokens },
        }
    }
}

/// The decisions of all stages of a run.
#[derive(Debug)]
pub(crate) struct RunState<'a> {
    pub(crate) prepared: Arc<PreparedRun<'a>>,
    pub(super) budget: ContextBudget,
    pub(super) effective: SliceBudget,
    /// The slicer's verdict on each of the sorted units.
    pub(super) verdicts: Vec<Verdict>,
    pub(super) shortfalls: Vec<CountRequirementShortfall>,
    pub(super) notes: Vec<Note>,
    pub(super) gap: Option<f64>,
    pub(super) overflow: Overflow,
    /// The units that were dropped after rendering.
    pub(super) drops: RenderDrops,
    pub(super) ledger: Ledger,
    pub(super) placed: Vec<u32>,
    /// The form that each item is sent in.
    pub(super) levels: Levels,
}

impl<'a> RunState<'a> {
    pub(super) const STAGES: [PipelineStage; 6] = [
        PipelineStage::Classify,
        PipelineStage::Score,
        PipelineStage::Deduplicate,
        PipelineStage::Floor,
        PipelineStage::Slice,
        PipelineStage::Place,
    ];

    pub(super) fn new(prepared: Arc<PreparedRun<'a>>, budget: &ContextBudget) -> Self {
        Self {
            effective: budget.effective(prepared.committed_tokens()),
            prepared,
            budget: budget.clone(),
            verdicts: Vec::new(),
            shortfalls: Vec::new(),
            notes: Vec::new(),
            gap: None,
            overflow: Overflow::default(),
            drops: RenderDrops::default(),
            ledger: Ledger::default(),
            placed: Vec::new(),
            levels: Levels::default(),
        }
    }

    /// Sets the results of the last stage.
    pub(super) fn set_outcome(
        &mut self,
        outcome: Outcome,
        has_layout: bool,
        strategy: OverflowStrategy,
    ) {
        let Outcome { overflow, drops, draft, .. } = outcome;
        self.ledger = Ledger::new(&self.budget, self.prepared.committed_tokens(), draft.cost);
        (self.overflow, self.drops) = (overflow, drops);
        (self.placed, self.levels) = (draft.placed, draft.levels);
        let over = self.ledger.sent().saturating_sub(self.budget.target_tokens());
        if has_layout && over > 0 && strategy == OverflowStrategy::Proceed {
            self.overflow.tokens_over_budget = Some(over);
            self.overflow.merged.clone_from(&self.placed);
        }
    }

    /// Returns the pool index, the item and its score.
    pub(super) fn entry(&self, index: u32) -> (usize, &'a ContextItem, f64) {
        let index = index as usize;
        (index, self.prepared.items[index], self.prepared.scores[index])
    }

    /// Returns the number of items that the slicer took.
    pub(super) fn sliced_items(&self) -> usize {
        let units = &self.prepared.classified.scoreable;
        let decided = self.prepared.sorted.iter().zip(&self.verdicts);
        let taken = decided.filter(|(_, verdict)| verdict.is_taken());
        taken.map(|(unit, _)| units.members(*unit).len()).sum()
    }

    /// Reports each selected item with its reason, in placed order.
    pub(super) fn for_each_included(&self, mut report: impl FnMut(u32, InclusionReason)) {
        let run = &self.prepared;
        let pinned = run.classified.pinned.in_pool_order();
        let kept = run.offers.kept().iter().map(|position| run.sorted[*position as usize]);
        let mut kept: Vec<u32> =
            kept.flat_map(|unit| run.classified.scoreable.members(unit)).copied().collect();
        kept.sort_unstable();
        let is_last = |index: u32| self.levels.get(index) == run.items[index as usize].last_level();
        for &index in &self.placed {
            let reason = if pinned.binary_search(&index).is_ok() {
                InclusionReason::Pinned
            } else if kept.binary_search(&index).is_ok() && is_last(index) {
                InclusionReason::Kept
            } else if !self.levels.is_whole(index) {
                InclusionReason::Shortened
            } else if self.prepared.items[index as usize].tokens() == 0 {
                InclusionReason::ZeroToken
            } else {
                InclusionReason::Scored
            };
            report(index, reason);
        }
    }

    /// Reports each item that a stage dropped, with the reason.
    pub(super) fn for_each_excluded(
        &self,
        stage: &PipelineStage,
        mut report: impl FnMut(u32, ExclusionReason),
    ) {
        let run = &*self.prepared;
        let pin: OnceCell<Arc<str>> = OnceCell::new();
        let mut report_verdict = |unit, verdict: &Verdict| {
            if let Some(reason) = self.exclusion_reason(unit, verdict, &pin) {
                run.report_members(unit, reason, &mut report);
            }
        };
        match stage {
            PipelineStage::Slice => {
                let decided = run.sorted.iter().zip(&self.verdicts);
                decided.for_each(|(unit, verdict)| report_verdict(*unit, verdict));
            }
            PipelineStage::Place => {
                for &TruncatedUnit { unit, available_tokens } in &self.overflow.truncated {
                    report_verdict(unit, &Verdict::Left { available_tokens });
                }
                let RenderDrops { over, rendered_tokens, target_tokens, rejected } = &self.drops;
                let (rendered_tokens, target_tokens) = (*rendered_tokens, *target_tokens);
                let over_budget =
                    ExclusionReason::RenderedOverBudget { rendered_tokens, target_tokens };
                for unit in over {
                    run.report_members(*unit, over_budget.clone(), &mut report);
                }
                for (unit, rule) in rejected {
                    let reason = ExclusionReason::RejectedByFormat { rule: rule.clone() };
                    run.report_members(*unit, reason, &mut report);
                }
            }
            _ => run.for_each_excluded(stage, &mut report),
        }
    }

    /// Returns why the slicer left a unit out. `pin` caches the content of the first pinned item.
    fn exclusion_reason(
        &self,
        unit: u32,
        verdict: &Verdict,
        pin: &OnceCell<Arc<str>>,
    ) -> Option<ExclusionReason> {
        let run = &self.prepared;
        let item_tokens = run.unit_tokens(unit);
        let exceeded = |available_tokens, outcompeted| ExclusionReason::BudgetExceeded {
            item_tokens,
            available_tokens,
            outcompeted,
        };
        Some(match verdict {
            Verdict::Taken(_) => return None,
            Verdict::Left { .. } if self.is_displaced(item_tokens) => {
                let first = || run.classified.pinned.members(0)[0] as usize;
                let displaced_by = pin.get_or_init(|| run.items[first()].content().into());
                ExclusionReason::PinnedOverride { displaced_by: Arc::clone(displaced_by) }
            }
            Verdict::Left { available_tokens } => exceeded(*available_tokens, false),
            Verdict::Outcompeted { available_tokens } => exceeded(*available_tokens, true),
            Verdict::Capped { cap, count } => {
                let best = run.classified.scoreable.best_member(unit, &run.scores);
                let kind = run.items[best as usize].kind().to_string();
                ExclusionReason::CountCapExceeded { kind, cap: *cap, count: *count }
            }
            Verdict::Excluded(reason) => (**reason).clone(),
        })
    }

    /// Returns whether a unit exceeds the target with the pinned items, and fits without them.
    fn is_displaced(&self, tokens: i64) -> bool {
        let run = &self.prepared;
        run.classified.pinned_tokens > 0
            && tokens > self.effective.target_tokens
            && tokens <= self.budget.effective(run.costs.plan.fixed).target_tokens
    }

    fn stage_counts(&self) -> Vec<StageCount> {
        let pinned = self.prepared.classified.pinned.item_count();
        let scored = self.prepared.classified.scoreable.item_count();
        let (unique, competing) = (self.prepared.unique_items(), self.prepared.competing_items());
        let sliced = self.sliced_items();
        let counts = [
            (self.prepared.items.len(), pinned + scored),
            (scored, scored),
            (scored, unique),
            (unique, competing),
            (competing, sliced),
            (pinned + sliced, self.placed.len()),
        ];
        let count = |(stage, (items_in, items_out))| StageCount { stage, items_in, items_out };
        let mut stages: Vec<StageCount> = Self::STAGES.into_iter().zip(counts).map(count).collect();
        stages.retain(|count| count.stage != PipelineStage::Floor || self.prepared.floor.is_some());
        stages
    }
}
