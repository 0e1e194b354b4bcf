//! The result of a run, and its memory.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::classify::Classified;
use super::close::{Outcome, RenderDrops};
use super::deduplicate::Duplicate;
use super::near::Overlap;
use super::place::Overflow;
use crate::diagnostics::{
    ExcludedItem, ExclusionReason, ExclusionVariant, IncludedItem, InclusionReason, OverflowEvent,
    PipelineStage, SelectionReport, StageCount, TraceEvent,
};
use crate::layout::PlannedCosts;
use crate::model::Levels;
use crate::{
    ContextBudget, ContextItem, CountRequirementShortfall, Error, Ledger, Level, Offer, Offers,
    OverflowStrategy, PlacedItems, RenderCost, SliceBudget, Verdict, order, sum_tokens,
};

/// The selected items in their final order, and why the others are not among them.
///
/// A selection borrows from the pool it was made from. It remembers what every stage decided, so a
/// [report](Self::report) can be asked for at any time, and costs nothing until it is.
#[derive(Debug)]
pub struct Selection<'a> {
    pub(super) run: RunState<'a>,
}

impl<'a> Selection<'a> {
    pub(super) fn new(run: RunState<'a>) -> Self {
        Self { run }
    }

    /// Returns the selected items, in the order they should be sent; or their short forms, where those should be.
    pub fn items(&self) -> impl ExactSizeIterator<Item = &'a ContextItem> + Clone {
        let (items, levels) = (&self.run.prepared.items, &self.run.levels);
        self.run.placed.iter().map(move |index| levels.sent(items, *index))
    }

    /// Returns their indices in the pool, in the same order.
    pub fn indices(&self) -> impl ExactSizeIterator<Item = usize> + Clone {
        self.run.placed.iter().map(|index| *index as usize)
    }

    /// Returns whether each of them is a short form, in the same order.
    pub fn shortened(&self) -> impl ExactSizeIterator<Item = bool> + Clone {
        let levels = &self.run.levels;
        self.run.placed.iter().map(move |index| !levels.is_whole(*index))
    }

    /// Returns what is sent, for a [layout](crate::Layout) to write.
    pub fn placed(&self) -> PlacedItems<'_> {
        PlacedItems::new(&self.run.prepared.items, &self.run.placed, &self.run.levels)
    }

    /// How many items are selected.
    pub fn len(&self) -> usize {
        self.run.placed.len()
    }

    /// Whether nothing is selected.
    pub fn is_empty(&self) -> bool {
        self.run.placed.is_empty()
    }

    /// What the selected items cost together.
    pub fn tokens(&self) -> i64 {
        sum_tokens(self.items().map(ContextItem::tokens))
    }

    /// Returns the pool that was selected from.
    pub fn pool(&self) -> &[&'a ContextItem] {
        &self.run.prepared.items
    }

    /// The budget that was kept.
    pub fn budget(&self) -> &ContextBudget {
        &self.run.budget
    }

    /// What was spent before anything was chosen: pinned items, and what is sent whatever is selected.
    pub fn committed_tokens(&self) -> i64 {
        self.run.prepared.committed_tokens()
    }

    /// What the slicer could spend.
    pub fn effective_budget(&self) -> SliceBudget {
        self.run.effective
    }

    /// Required counts that the pool could not meet.
    pub fn shortfalls(&self) -> &[CountRequirementShortfall] {
        &self.run.shortfalls
    }

    /// How the selection went over its target, if it did and the strategy is to proceed.
    pub fn overflow(&self) -> Option<OverflowEvent<&'a ContextItem>> {
        self.run.overflow.tokens_over_budget.map(|tokens| self.run.overflow_event(tokens))
    }

    /// How many items are out for each reason.
    pub fn exclusion_counts(&self) -> BTreeMap<ExclusionVariant, usize> {
        let mut counts = BTreeMap::new();
        for stage in RunState::STAGES {
            self.run.for_each_excluded(&stage, |_, reason| {
                *counts.entry(reason.variant()).or_default() += 1;
            });
        }
        counts
    }

    /// Where the tokens of the window go. If the pipeline does not know how its selections are rendered, they
    /// go into the items.
    pub fn ledger(&self) -> &Ledger {
        &self.run.ledger
    }

    /// Every item of the pool, in or out, with its score and its reason.
    pub fn report(&self) -> SelectionReport<&'a ContextItem> {
        self.report_with(Vec::new())
    }

    /// As [`report`](Self::report), with the events that a collector recorded.
    pub fn report_with(&self, events: Vec<TraceEvent>) -> SelectionReport<&'a ContextItem> {
        let run = &self.run;
        let mut included = Vec::with_capacity(run.placed.len());
        run.for_each_included(|index, reason| {
            let item = run.levels.sent(&run.prepared.items, index);
            let (index, _, score) = run.entry(index);
            included.push(IncludedItem { index: Some(index), item, score, reason });
        });
        let mut excluded = Vec::with_capacity(run.prepared.items.len() - included.len());
        for (rank, stage) in RunState::STAGES.iter().enumerate() {
            run.for_each_excluded(stage, |index, reason| {
                let (index, item, score) = run.entry(index);
                let key = (order::descending(score), rank, index);
                excluded.push((key, ExcludedItem { index: Some(index), item, score, reason }));
            });
        }
        excluded.sort_unstable_by_key(|(key, _)| *key);
        let excluded = excluded.into_iter().map(|(_, entry)| entry).collect();
        let mut report = SelectionReport::new(included, excluded);
        if !run.levels.all_whole() {
            // What was considered is the whole of what is sent in short forms.
            report.total_tokens_considered =
                sum_tokens(run.prepared.items.iter().map(|item| item.tokens()));
        }
        report.events = events;
        report.stages = run.stage_counts();
        report.count_requirement_shortfalls.clone_from(&run.shortfalls);
        report.overflow = self.overflow();
        report.ledger = Some(self.run.ledger.clone());
        report
    }
}

/// What the stages that do not depend on the size of the budget decided, as far as they have come.
#[derive(Debug, Default)]
pub(crate) struct PreparedRun<'a> {
    pub(crate) items: Vec<&'a ContextItem>,
    pub(crate) classified: Classified,
    /// What the layout charges; nothing if there is none.
    pub(crate) costs: PlannedCosts,
    /// By pool index: 1 for pinned items, 0 for items that were not scored.
    pub(crate) scores: Vec<f64>,
    pub(super) duplicates: Vec<Duplicate>,
    /// Units in the order of the sort stage.
    pub(crate) sorted: Vec<u32>,
    /// What they offer, in the same order.
    pub(crate) offers: Offers<'a>,
}

impl PreparedRun<'_> {
    /// Fails if the pinned items do not fit the window.
    pub(super) fn check_pinned(&self, budget: &ContextBudget) -> Result<(), Error> {
        let (pinned_tokens, available_tokens) =
            (self.classified.pinned_tokens, budget.input_tokens());
        match pinned_tokens > available_tokens {
            true => Err(Error::PinnedOverBudget { pinned_tokens, available_tokens }),
            false => Ok(()),
        }
    }

    /// What is spent before anything is selected.
    pub(crate) fn committed_tokens(&self) -> i64 {
        let around = self.around(&self.classified.pinned.in_pool_order());
        let fixed_tokens = self.costs.plan.fixed;
        self.classified.pinned_tokens.saturating_add(fixed_tokens).saturating_add(around)
    }

    fn around(&self, indices: &[u32]) -> i64 {
        match self.costs.is_free_of_frames() {
            true => 0,
            false => sum_tokens(
                indices.iter().map(|index| self.costs.around(*index as usize, Level::WHOLE)),
            ),
        }
    }

    /// What all candidates and everything that is committed cost together.
    pub(crate) fn total_tokens(&self) -> i64 {
        let candidates = self.offers.candidates().iter().map(|candidate| candidate.tokens);
        sum_tokens(candidates.chain([self.committed_tokens()]))
    }

    /// What a unit costs, with what is sent around its items.
    pub(crate) fn unit_tokens(&self, unit: u32) -> i64 {
        let units = &self.classified.scoreable;
        units.tokens(unit, &self.items).saturating_add(self.around(units.members(unit)))
    }

    pub(super) fn has_short_form(&self, unit: u32) -> bool {
        match *self.classified.scoreable.members(unit) {
            [index] => self.items[index as usize].short_form().is_some(),
            _ => false,
        }
    }

    /// The short form of a unit, if it is one item that has one.
    pub(super) fn short_form(&self, unit: u32, scores: &[f64]) -> Option<Offer> {
        let [index] = *self.classified.scoreable.members(unit) else {
            return None;
        };
        let index = index as usize;
        let tokens = self.items[index].short_form()?.tokens();
        (tokens >= 0).then(|| self.costs.offer(index, Level::SHORT, tokens, scores[index]))
    }

    /// How many of the scored items are not dropped as duplicates.
    pub(super) fn unique_items(&self) -> usize {
        let units = &self.classified.scoreable;
        let dropped = self.duplicates.iter().map(|duplicate| units.members(duplicate.unit).len());
        units.item_count() - dropped.sum::<usize>()
    }

    /// Reports each item that one of these stages dropped, and why.
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
                // A content that was kept for many is copied once.
                let mut contents = BTreeMap::new();
                let mut content = |index: u32| -> Arc<str> {
                    let content = || self.items[index as usize].identity().0.into();
                    Arc::clone(contents.entry(index).or_insert_with(content))
                };
                for Duplicate { unit, kept, overlap } in &self.duplicates {
                    if let Some(Overlap { shared, own: total }) = *overlap {
                        let near_duplicate_of = content(units.best_member(*kept, &self.scores));
                        let reason =
                            ExclusionReason::NearDuplicate { near_duplicate_of, shared, total };
                        let members = units.members(*unit).iter();
                        members.for_each(|index| report(*index, reason.clone()));
                        continue;
                    }
                    for (&index, kept) in units.members(*unit).iter().zip(units.members(*kept)) {
                        let deduplicated_against = content(*kept);
                        report(index, ExclusionReason::Deduplicated { deduplicated_against });
                    }
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
                // Reports name the causes as they did when they were first written.
                let cause = if is_rejected { "Refused" } else { "NegativeTokens" }.to_owned();
                ExclusionReason::GroupExcluded { group: group.to_owned(), cause }
            }
            (tokens, _) => ExclusionReason::NegativeTokens { tokens },
        }
    }
}

/// What all stages of a run decided.
#[derive(Debug)]
pub(crate) struct RunState<'a> {
    pub(crate) prepared: Arc<PreparedRun<'a>>,
    pub(super) budget: ContextBudget,
    pub(super) effective: SliceBudget,
    /// The slicer's verdict on each of the sorted units.
    pub(super) verdicts: Vec<Verdict>,
    pub(super) shortfalls: Vec<CountRequirementShortfall>,
    pub(super) overflow: Overflow,
    /// What was dropped when the rest was rendered, and the numbers.
    pub(super) drops: RenderDrops,
    pub(super) ledger: Ledger,
    pub(super) placed: Vec<u32>,
    /// In which form items are sent.
    pub(super) levels: Levels,
}

impl<'a> RunState<'a> {
    pub(super) const STAGES: [PipelineStage; 5] = [
        PipelineStage::Classify,
        PipelineStage::Score,
        PipelineStage::Deduplicate,
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
            overflow: Overflow::default(),
            drops: RenderDrops::default(),
            ledger: Ledger::new(budget, RenderCost::default()),
            placed: Vec::new(),
            levels: Levels::default(),
        }
    }

    /// Takes over how the run ended.
    pub(super) fn set_outcome(
        &mut self,
        outcome: Outcome,
        has_layout: bool,
        strategy: OverflowStrategy,
    ) {
        let Outcome { overflow, drops, draft, .. } = outcome;
        self.ledger = Ledger::new(&self.budget, draft.cost);
        (self.overflow, self.drops) = (overflow, drops);
        (self.placed, self.levels) = (draft.placed, draft.levels);
        let over = self.ledger.sent().saturating_sub(self.budget.target_tokens());
        if has_layout && over > 0 && strategy == OverflowStrategy::Proceed {
            self.overflow.tokens_over_budget = Some(over);
            self.overflow.merged.clone_from(&self.placed);
        }
    }

    pub(super) fn overflow_event(&self, tokens_over_budget: i64) -> OverflowEvent<&'a ContextItem> {
        let items = &self.prepared.items;
        OverflowEvent {
            tokens_over_budget,
            overflowing_items: self
                .overflow
                .merged
                .iter()
                .map(|index| items[*index as usize])
                .collect(),
            budget: self.budget.clone(),
        }
    }

    pub(super) fn entry(&self, index: u32) -> (usize, &'a ContextItem, f64) {
        let index = index as usize;
        (index, self.prepared.items[index], self.prepared.scores[index])
    }

    /// How many items the slicer took.
    pub(super) fn sliced_items(&self) -> usize {
        let units = &self.prepared.classified.scoreable;
        let decided = self.prepared.sorted.iter().zip(&self.verdicts);
        let taken = decided.filter(|(_, verdict)| verdict.is_taken());
        taken.map(|(unit, _)| units.members(*unit).len()).sum()
    }

    /// Reports each selected item and why it is in, in placed order.
    pub(super) fn for_each_included(&self, mut report: impl FnMut(u32, InclusionReason)) {
        let pinned = self.prepared.classified.pinned.in_pool_order();
        for &index in &self.placed {
            let reason = if pinned.binary_search(&index).is_ok() {
                InclusionReason::Pinned
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

    /// Reports each item that a stage dropped and why.
    pub(super) fn for_each_excluded(
        &self,
        stage: &PipelineStage,
        mut report: impl FnMut(u32, ExclusionReason),
    ) {
        let units = &self.prepared.classified.scoreable;
        let pin: OnceCell<Arc<str>> = OnceCell::new();
        match stage {
            PipelineStage::Slice => {
                for (&unit, verdict) in self.prepared.sorted.iter().zip(&self.verdicts) {
                    self.report_unit(unit, verdict, &pin, &mut report);
                }
            }
            PipelineStage::Place => {
                for truncated in &self.overflow.truncated {
                    let available_tokens = truncated.available_tokens;
                    let verdict = Verdict::Left { available_tokens };
                    self.report_unit(truncated.unit, &verdict, &pin, &mut report);
                }
                let RenderDrops { over, rendered_tokens, target_tokens, rejected } = &self.drops;
                for index in over.iter().flat_map(|unit| units.members(*unit)) {
                    let (rendered_tokens, target_tokens) = (*rendered_tokens, *target_tokens);
                    let reason =
                        ExclusionReason::RenderedOverBudget { rendered_tokens, target_tokens };
                    report(*index, reason);
                }
                for (unit, rule) in rejected {
                    for index in units.members(*unit) {
                        report(*index, ExclusionReason::RejectedByFormat { rule: rule.clone() });
                    }
                }
            }
            _ => self.prepared.for_each_excluded(stage, &mut report),
        }
    }

    fn report_unit(
        &self,
        unit: u32,
        verdict: &Verdict,
        pin: &OnceCell<Arc<str>>,
        report: &mut impl FnMut(u32, ExclusionReason),
    ) {
        if verdict.is_taken() {
            return;
        }
        let run = &self.prepared;
        let units = &run.classified.scoreable;
        let item_tokens = run.unit_tokens(unit);
        let best = units.best_member(unit, &run.scores);
        for &index in units.members(unit) {
            let reason = match verdict {
                Verdict::Left { .. } if self.is_displaced(item_tokens) => {
                    let displaced_by = pin.get_or_init(|| {
                        let first = run.classified.pinned.members(0)[0];
                        run.items[first as usize].content().into()
                    });
                    ExclusionReason::PinnedOverride { displaced_by: Arc::clone(displaced_by) }
                }
                Verdict::Capped { cap, count } => ExclusionReason::CountCapExceeded {
                    kind: run.items[best as usize].kind().to_string(),
                    cap: *cap,
                    count: *count,
                },
                Verdict::Excluded(reason) => (**reason).clone(),
                Verdict::Outcompeted { available_tokens } => ExclusionReason::BudgetExceeded {
                    item_tokens,
                    available_tokens: *available_tokens,
                    outcompeted: true,
                },
                Verdict::Left { available_tokens } => ExclusionReason::BudgetExceeded {
                    item_tokens,
                    available_tokens: *available_tokens,
                    outcompeted: false,
                },
                Verdict::Taken(_) => return,
            };
            report(index, reason);
        }
    }

    /// Whether a unit is too large for what pinned items leave, and would not be without them.
    fn is_displaced(&self, tokens: i64) -> bool {
        let run = &self.prepared;
        run.classified.pinned_tokens > 0
            && tokens > self.effective.target_tokens
            && tokens <= self.budget.effective(run.costs.plan.fixed).target_tokens
    }

    fn stage_counts(&self) -> Vec<StageCount> {
        let pinned = self.prepared.classified.pinned.item_count();
        let scored = self.prepared.classified.scoreable.item_count();
        let unique = self.prepared.unique_items();
        let sliced = self.sliced_items();
        let counts = [
            (self.prepared.items.len(), pinned + scored),
            (scored, scored),
            (scored, unique),
            (unique, sliced),
            (pinned + sliced, self.placed.len()),
        ];
        let counts = Self::STAGES.into_iter().zip(counts);
        counts
            .map(|(stage, (items_in, items_out))| StageCount { stage, items_in, items_out })
            .collect()
    }
}
