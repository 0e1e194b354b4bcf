//! The result of a run, and its memory.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::classify::Classified;
use super::deduplicate::Duplicate;
use super::fit::RenderedOut;
use super::forms::Forms;
use super::near::Overlap;
use super::place::Overflow;
use super::slice::taken;
use crate::diagnostics::{
    ExcludedItem, ExclusionReason, ExclusionVariant, IncludedItem, InclusionReason, OverflowEvent,
    PipelineStage, SelectionReport, StageCount, TraceEvent,
};
use crate::slicer::Verdict;
use crate::{
    ContextBudget, ContextItem, Cost, CountRequirementShortfall, Ledger, Placed, SliceBudget,
    order, sum_tokens,
};

/// The selected items in their final order, and why the others are not among them.
///
/// A selection borrows from the pool it was made from. It remembers what every stage decided, so a
/// [report](Self::report) can be asked for at any time, and costs nothing until it is.
#[derive(Debug)]
pub struct Selection<'a> {
    pub(super) run: Run<'a>,
}

impl<'a> Selection<'a> {
    pub(super) fn new(run: Run<'a>) -> Self {
        Self { run }
    }

    /// The selected items, in the order they should be sent; or their short forms, where those should be.
    pub fn items(&self) -> impl ExactSizeIterator<Item = &'a ContextItem> + Clone {
        let (items, forms) = (self.run.items, &self.run.forms);
        self.run.placed.iter().map(move |index| forms.of(items, *index))
    }

    /// Their indices in the pool, in the same order.
    pub fn indices(&self) -> impl ExactSizeIterator<Item = usize> + Clone {
        self.run.placed.iter().map(|index| *index as usize)
    }

    /// Whether each of them is a short form, in the same order.
    pub fn shortened(&self) -> impl ExactSizeIterator<Item = bool> + Clone {
        let forms = &self.run.forms;
        self.run.placed.iter().map(move |index| forms.is_short(*index))
    }

    /// What is sent, for a [rendering](crate::Rendering) to write.
    pub fn placed(&self) -> Placed<'_> {
        Placed::new(self.run.items, &self.run.placed, &self.run.forms)
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

    /// The pool that was selected from.
    pub fn pool(&self) -> &'a [ContextItem] {
        self.run.items
    }

    /// The budget that was kept.
    pub fn budget(&self) -> &ContextBudget {
        &self.run.budget
    }

    /// What was spent before anything was chosen: pinned items, and what is sent whatever is selected.
    pub fn committed_tokens(&self) -> i64 {
        self.run.committed_tokens()
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
        for stage in Run::STAGES {
            self.run.each_excluded(&stage, |_, reason| {
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
        run.each_included(|index, reason| {
            let item = run.forms.of(run.items, index);
            let (index, _, score) = run.entry(index);
            included.push(IncludedItem { index: Some(index), item, score, reason });
        });
        let mut excluded = Vec::with_capacity(run.items.len() - included.len());
        for (rank, stage) in Run::STAGES.iter().enumerate() {
            run.each_excluded(stage, |index, reason| {
                let (index, item, score) = run.entry(index);
                let key = (order::descending(score), rank, index);
                excluded.push((key, ExcludedItem { index: Some(index), item, score, reason }));
            });
        }
        excluded.sort_unstable_by_key(|(key, _)| *key);
        let excluded = excluded.into_iter().map(|(_, entry)| entry).collect();
        let mut report = SelectionReport::new(included, excluded);
        if !run.forms.is_whole() {
            // What was considered is the whole of what is sent in short forms.
            report.total_tokens_considered = sum_tokens(run.items.iter().map(ContextItem::tokens));
        }
        report.events = events;
        report.stages = run.stage_counts();
        report.count_requirement_shortfalls.clone_from(&run.shortfalls);
        report.overflow = self.overflow();
        report.ledger = Some(self.run.ledger.clone());
        report
    }
}

/// What the stages of a run decided, as far as they have come.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) items: &'a [ContextItem],
    pub(super) budget: ContextBudget,
    pub(crate) classified: Classified,
    /// What the rendering has whatever is selected, and what it puts around each item; nothing if there is none.
    pub(crate) fixed_tokens: i64,
    pub(super) framing: Vec<i64>,
    /// The same for its short form.
    pub(super) short_framing: Vec<i64>,
    /// What a heading for each item's document costs; nothing if there is no rendering.
    pub(super) headings: Vec<i64>,
    pub(super) effective: SliceBudget,
    /// By pool index: 1 for pinned items, 0 for items that were not scored.
    pub(crate) scores: Vec<f64>,
    pub(super) duplicates: Vec<Duplicate>,
    /// Units in the order of the sort stage.
    pub(crate) sorted: Vec<u32>,
    /// The slicer's verdict on each of them.
    pub(super) verdicts: Vec<Verdict>,
    pub(super) shortfalls: Vec<CountRequirementShortfall>,
    pub(super) overflow: Overflow,
    /// What left when the rest was rendered, and the numbers.
    pub(super) rendered_out: RenderedOut,
    pub(super) ledger: Ledger,
    /// Everything that overflowed, before it was placed.
    pub(super) merged: Vec<u32>,
    pub(super) placed: Vec<u32>,
    /// Which items are sent in their short form.
    pub(super) forms: Forms,
}

impl<'a> Run<'a> {
    pub(super) const STAGES: [PipelineStage; 5] = [
        PipelineStage::Classify,
        PipelineStage::Score,
        PipelineStage::Deduplicate,
        PipelineStage::Slice,
        PipelineStage::Place,
    ];

    pub(super) fn new(items: &'a [ContextItem], budget: &ContextBudget) -> Self {
        Self {
            items,
            budget: budget.clone(),
            classified: Classified::default(),
            fixed_tokens: 0,
            framing: Vec::new(),
            short_framing: Vec::new(),
            headings: Vec::new(),
            effective: SliceBudget::new(0),
            scores: Vec::new(),
            duplicates: Vec::new(),
            sorted: Vec::new(),
            verdicts: Vec::new(),
            shortfalls: Vec::new(),
            overflow: Overflow::default(),
            rendered_out: RenderedOut::default(),
            ledger: Ledger::new(budget, Cost::default()),
            merged: Vec::new(),
            placed: Vec::new(),
            forms: Forms::default(),
        }
    }

    /// What is spent before anything is selected.
    pub(crate) fn committed_tokens(&self) -> i64 {
        let framing = self.framing_of(&self.classified.pinned.in_pool_order());
        self.classified.pinned_tokens.saturating_add(self.fixed_tokens).saturating_add(framing)
    }

    fn framing_of(&self, indices: &[u32]) -> i64 {
        match self.framing.is_empty() {
            true => 0,
            false => sum_tokens(indices.iter().map(|index| self.framing[*index as usize])),
        }
    }

    /// What a unit costs, with what stands around its items.
    pub(crate) fn unit_tokens(&self, unit: u32) -> i64 {
        let units = &self.classified.scoreable;
        units.tokens(unit, self.items).saturating_add(self.framing_of(units.members(unit)))
    }

    /// What a unit costs in its short form, if it is one item that has one.
    pub(crate) fn unit_short_tokens(&self, unit: u32) -> Option<i64> {
        let [index] = *self.classified.scoreable.members(unit) else {
            return None;
        };
        let tokens = self.items[index as usize].short_form()?.tokens();
        let framing = self.short_framing.get(index as usize).copied().unwrap_or_default();
        (tokens >= 0).then(|| tokens.saturating_add(framing))
    }

    /// What a heading for an item's document costs.
    pub(super) fn heading_tokens(&self, index: usize) -> i64 {
        self.headings.get(index).copied().unwrap_or_default()
    }

    pub(super) fn overflow_event(&self, tokens_over_budget: i64) -> OverflowEvent<&'a ContextItem> {
        let items = self.items;
        OverflowEvent {
            tokens_over_budget,
            overflowing_items: self.merged.iter().map(|index| &items[*index as usize]).collect(),
            budget: self.budget.clone(),
        }
    }

    pub(super) fn entry(&self, index: u32) -> (usize, &'a ContextItem, f64) {
        let index = index as usize;
        (index, &self.items[index], self.scores[index])
    }

    /// How many of the scored items are not dropped as duplicates.
    pub(super) fn unique_items(&self) -> usize {
        let units = &self.classified.scoreable;
        let dropped = self.duplicates.iter().map(|duplicate| units.members(duplicate.unit).len());
        units.item_count() - dropped.sum::<usize>()
    }

    /// Tells each selected item and why it is in, in placed order.
    pub(super) fn each_included(&self, mut tell: impl FnMut(u32, InclusionReason)) {
        let pinned = self.classified.pinned.in_pool_order();
        for &index in &self.placed {
            let reason = if pinned.binary_search(&index).is_ok() {
                InclusionReason::Pinned
            } else if self.forms.is_short(index) {
                InclusionReason::Shortened
            } else if self.items[index as usize].tokens() == 0 {
                InclusionReason::ZeroToken
            } else {
                InclusionReason::Scored
            };
            tell(index, reason);
        }
    }

    /// Tells each item that a stage dropped and why.
    pub(super) fn each_excluded(
        &self,
        stage: &PipelineStage,
        mut tell: impl FnMut(u32, ExclusionReason),
    ) {
        let units = &self.classified.scoreable;
        let pin: OnceCell<Arc<str>> = OnceCell::new();
        match stage {
            PipelineStage::Classify => {
                for &index in &self.classified.invalid {
                    tell(index, self.invalid_reason(index));
                }
            }
            PipelineStage::Deduplicate => {
                // A content that was kept for many is copied once.
                let mut contents = BTreeMap::new();
                let mut content = |index: u32| -> Arc<str> {
                    let content = || self.items[index as usize].content().into();
                    Arc::clone(contents.entry(index).or_insert_with(content))
                };
                for Duplicate { unit, kept, overlap } in &self.duplicates {
                    if let Some(Overlap { shared, own }) = *overlap {
                        let near_duplicate_of = content(units.lead(*kept, &self.scores));
                        let reason =
                            ExclusionReason::NearDuplicate { near_duplicate_of, shared, own };
                        units.members(*unit).iter().for_each(|index| tell(*index, reason.clone()));
                        continue;
                    }
                    for (&index, kept) in units.members(*unit).iter().zip(units.members(*kept)) {
                        let deduplicated_against = content(*kept);
                        tell(index, ExclusionReason::Deduplicated { deduplicated_against });
                    }
                }
            }
            PipelineStage::Slice => {
                for (&unit, verdict) in self.sorted.iter().zip(&self.verdicts) {
                    self.tell_unit(unit, verdict, &pin, &mut tell);
                }
            }
            PipelineStage::Place => {
                for cut in &self.overflow.cut {
                    let available_tokens = cut.available_tokens;
                    self.tell_unit(cut.unit, &Verdict::Left { available_tokens }, &pin, &mut tell);
                }
                let RenderedOut { over, rendered_tokens, target_tokens, refused } =
                    &self.rendered_out;
                for index in over.iter().flat_map(|unit| units.members(*unit)) {
                    let (rendered_tokens, target_tokens) = (*rendered_tokens, *target_tokens);
                    let reason =
                        ExclusionReason::RenderedOverBudget { rendered_tokens, target_tokens };
                    tell(*index, reason);
                }
                for (unit, rule) in refused {
                    for index in units.members(*unit) {
                        tell(*index, ExclusionReason::Refused { rule: rule.clone() });
                    }
                }
            }
            PipelineStage::Score | PipelineStage::Other(_) => {}
        }
    }

    fn invalid_reason(&self, index: u32) -> ExclusionReason {
        let item = &self.items[index as usize];
        let refused = &self.classified.refused;
        if let Ok(place) = refused.binary_search_by_key(&index, |(index, _)| *index) {
            return ExclusionReason::Refused { rule: refused[place].1.clone() };
        }
        match (item.tokens(), item.group()) {
            (0.., Some(group)) => {
                let of_group = |index: u32| self.items[index as usize].group() == Some(group);
                let is_refused = refused.iter().any(|(index, _)| of_group(*index));
                let cause = if is_refused { "Refused" } else { "NegativeTokens" }.to_owned();
                ExclusionReason::GroupExcluded { group: group.to_owned(), cause }
            }
            (tokens, _) => ExclusionReason::NegativeTokens { tokens },
        }
    }

    fn tell_unit(
        &self,
        unit: u32,
        verdict: &Verdict,
        pin: &OnceCell<Arc<str>>,
        tell: &mut impl FnMut(u32, ExclusionReason),
    ) {
        if verdict.is_taken() {
            return;
        }
        let units = &self.classified.scoreable;
        let item_tokens = self.unit_tokens(unit);
        let lead = units.lead(unit, &self.scores);
        for &index in units.members(unit) {
            let reason = match verdict {
                Verdict::Left { .. } if self.is_displaced(item_tokens) => {
                    let displaced_by = pin.get_or_init(|| {
                        let first = self.classified.pinned.members(0)[0];
                        self.items[first as usize].content().into()
                    });
                    ExclusionReason::PinnedOverride { displaced_by: Arc::clone(displaced_by) }
                }
                Verdict::Capped { cap, count } => ExclusionReason::CountCapExceeded {
                    kind: self.items[lead as usize].kind().to_string(),
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
                Verdict::Taken | Verdict::Shortened => return,
            };
            tell(index, reason);
        }
    }

    /// Whether a unit is too large for what pinned items leave, and would not be without them.
    fn is_displaced(&self, tokens: i64) -> bool {
        self.classified.pinned_tokens > 0
            && tokens > self.effective.target_tokens
            && tokens <= self.budget.effective(self.fixed_tokens).target_tokens
    }

    fn stage_counts(&self) -> Vec<StageCount> {
        let units = &self.classified.scoreable;
        let items_of = |units_of: &mut dyn Iterator<Item = u32>| -> usize {
            units_of.map(|unit| units.members(unit).len()).sum()
        };
        let pinned = self.classified.pinned.item_count();
        let scored = units.item_count();
        let unique = self.unique_items();
        let sliced = items_of(&mut taken(&self.sorted, &self.verdicts));
        let counts = [
            (self.items.len(), pinned + scored),
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
