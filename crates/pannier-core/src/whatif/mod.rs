//! What if: other budgets, other policies.
//!
//! An answer is always what a run would do. Questions about a range of budgets prepare a run once. A slicer that knows
//! the answer for the whole range states it. Otherwise every slice comes with a certificate, the next budget at which
//! it may decide otherwise, and the search jumps there. Tests compare both with a run at every budget.

mod search;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

pub use search::Search;
pub(crate) use walk::BudgetWalk;

use crate::pipeline::{Contest, PreparedRun};
use crate::{ContextBudget, ContextItem, Error, Pipeline, SelectionReport, TargetRanges};

impl Pipeline {
    /// Every item with its score and its reason, as [`run`](Self::run) would decide.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub fn dry_run<'a>(
        &self,
        items: impl IntoIterator<Item = &'a ContextItem>,
        budget: &ContextBudget,
    ) -> Result<SelectionReport<&'a ContextItem>, Error> {
        Ok(self.run(items, budget)?.report())
    }

    /// The indices of the items that are selected within `budget`, and no longer if it had `slack_tokens`
    /// less; in the order they are placed.
    ///
    /// # Errors
    ///
    /// [`Error::NotMonotonic`] if the slicer gives kinds shares of the budget: with less, other items
    /// would come in, and the question has no answer of this form. [`Error::NegativeTokens`] if the slack
    /// is negative or leaves less than nothing. Otherwise as [`run`](Self::run).
    pub fn get_marginal_items<'a>(
        &self,
        items: impl IntoIterator<Item = &'a ContextItem>,
        budget: &ContextBudget,
        slack_tokens: i64,
    ) -> Result<Vec<usize>, Error> {
        if self.slicer().properties().splits_budget_by_kind {
            return Err(Error::NotMonotonic { question: MARGINAL });
        }
        let reduced = budget.shrunk_by(slack_tokens)?;
        let prepared = self.prepare(items)?;
        let with_less: BTreeSet<usize> = prepared.select(&reduced)?.indices().collect();
        let selection = prepared.select(budget)?;
        Ok(selection.indices().filter(|index| !with_less.contains(index)).collect())
    }

    /// The smallest budget, from the item's own tokens up to a ceiling, at which it is selected; `None` if
    /// there is none.
    ///
    /// A budget of `b` means a window and a target of `b`, with the reserve, the slots and the margin of
    /// `base`. Selections are not monotonic: an item that is in at 40 may be out at 50 and in again at 100.
    /// The answer is the true minimum, and does not follow from halving.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchItem`] or [`Error::CeilingTooLow`] if the question makes no sense;
    /// [`Error::NotMonotonic`] if the slicer gives kinds shares of the budget or guarantees counts: use
    /// [`find_min_budget_for_exhaustively`](Self::find_min_budget_for_exhaustively).
    pub fn find_min_budget_for<'a>(
        &self,
        items: impl IntoIterator<Item = &'a ContextItem>,
        base: &ContextBudget,
        index: usize,
        ceiling: i64,
    ) -> Result<Option<i64>, Error> {
        let prepared = self.prepare(items)?;
        let budgets = search_range(&prepared.data.items, index, ceiling)?;
        let properties = self.slicer().properties();
        if properties.splits_budget_by_kind || properties.guarantees_counts {
            return Err(Error::NotMonotonic { question: MINIMUM });
        }
        let mut ranges = self.sweep(&prepared.data, base, budgets, &[index], SweepMode::First)?;
        Ok(ranges.pop().and_then(|ranges| ranges.first().map(|range| *range.start())))
    }

    /// As [`find_min_budget_for`](Self::find_min_budget_for), for any slicer, by one run for each budget
    /// until the item is in. A budget at which the run fails counts as one without it.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchItem`] or [`Error::CeilingTooLow`] if the question makes no sense.
    pub fn find_min_budget_for_exhaustively<'a>(
        &self,
        items: impl IntoIterator<Item = &'a ContextItem>,
        base: &ContextBudget,
        index: usize,
        ceiling: i64,
    ) -> Result<Option<i64>, Error> {
        let prepared = self.prepare(items)?;
        let is_in = |tokens: &i64| {
            let selection = base.with_window(*tokens).and_then(|budget| prepared.select(&budget));
            let is_whole = |sent: (usize, bool)| sent == (index, false);
            selection
                .is_ok_and(|selection| selection.indices().zip(selection.shortened()).any(is_whole))
        };
        Ok(search_range(&prepared.data.items, index, ceiling)?.find(is_in))
    }

    /// For every item of the pool, the budgets within a range at which it is selected, as ascending ranges. Its short
    /// form is not the item.
    ///
    /// Budgets are as in [`find_min_budget_for`](Self::find_min_budget_for). For greedy and knapsack slicers
    /// one pass serves the whole range; others take a slice for each budget.
    ///
    /// # Errors
    ///
    /// [`Error::NotMonotonic`] if the slicer guarantees counts: what happens then depends on overflow
    /// handling, too. [`Error::SweepTooLarge`] if there are more than [`MAX_SWEEP_RANGES`] ranges.
    pub fn budget_sweep<'a>(
        &self,
        items: impl IntoIterator<Item = &'a ContextItem>,
        base: &ContextBudget,
        budgets: RangeInclusive<i64>,
    ) -> Result<Vec<Vec<RangeInclusive<i64>>>, Error> {
        if self.slicer().properties().guarantees_counts {
            return Err(Error::NotMonotonic { question: MINIMUM });
        }
        let prepared = self.prepare(items)?;
        let indices: Vec<usize> = (0..prepared.data.items.len()).collect();
        let ranges = self.sweep(&prepared.data, base, budgets, &indices, SweepMode::All)?;
        let count: usize = ranges.iter().map(Vec::len).sum();
        if count > MAX_SWEEP_RANGES {
            return Err(Error::SweepTooLarge { ranges: count });
        }
        Ok(ranges)
    }

    /// For each of these indices, the budgets within a range at which the item is selected whole.
    fn sweep(
        &self,
        prepared: &PreparedRun<'_>,
        base: &ContextBudget,
        budgets: RangeInclusive<i64>,
        indices: &[usize],
        mode: SweepMode,
    ) -> Result<Vec<Vec<RangeInclusive<i64>>>, Error> {
        let pinned_tokens = prepared.classified.pinned_tokens;
        // Below this, the budget is not valid or the pinned items do not fit.
        let smallest = pinned_tokens.saturating_add(base.output_reserve()).max(*budgets.start());
        if smallest > *budgets.end() || base.with_window(*budgets.end()).is_err() {
            return Ok(vec![Vec::new(); indices.len()]);
        }
        let budgets = smallest..=*budgets.end();
        let mut search = Search::new(MAX_SWEEP_STEPS);
        if self.layout().is_none()
            && let Some(ranges) = self.sweep_slicer(prepared, base, &budgets, indices, &mut search)
        {
            return ranges;
        }
        let contest = Contest::of(prepared);
        let walk = BudgetWalk {
            pipeline: self,
            contest: &contest,
            budget_at: &|tokens| base.with_window(tokens).ok(),
        };
        let units = &prepared.classified.scoreable;
        let pinned = prepared.classified.pinned.in_pool_order();
        let mut ranges = vec![TargetRanges::default(); prepared.items.len()];
        let mut found = indices.len();
        let mut is_done = vec![true; prepared.items.len()];
        indices.iter().for_each(|index| is_done[*index] = false);
        let is_complete = walk.stretches(budgets, &mut search, |stretch, selected| {
            if let Ok(selected) = selected {
                let members = selected.iter().flat_map(|unit| units.members(*unit));
                for index in members.chain(&*pinned) {
                    ranges[*index as usize].push(stretch.clone());
                    if !std::mem::replace(&mut is_done[*index as usize], true) {
                        found -= 1;
                    }
                }
            }
            mode == SweepMode::All || found > 0
        })?;
        if !is_complete {
            return Err(Error::SearchTooLong);
        }
        let ranges = indices.iter().map(|index| ranges[*index].ranges().to_vec());
        Ok(ranges.collect())
    }

    /// The same, if the slicer knows the answer for all targets at once.
    fn sweep_slicer(
        &self,
        prepared: &PreparedRun<'_>,
        base: &ContextBudget,
        budgets: &RangeInclusive<i64>,
        indices: &[usize],
        search: &mut Search<'_>,
    ) -> Option<Result<Vec<Vec<RangeInclusive<i64>>>, Error>> {
        let committed_tokens = prepared.committed_tokens();
        let target = |tokens| base.effective_for(tokens, tokens, committed_tokens).target_tokens;
        // Each item's unit among the candidates, if it got that far.
        let mut position_of = vec![None; prepared.items.len()];
        for (position, unit) in prepared.sorted.iter().enumerate() {
            for member in prepared.classified.scoreable.members(*unit) {
                position_of[*member as usize] = Some(position);
            }
        }
        let mut requested: Vec<usize> =
            indices.iter().filter_map(|index| position_of[*index]).collect();
        requested.sort_unstable();
        requested.dedup();
        let targets = target(*budgets.start())..=target(*budgets.end());
        let swept = match self.slicer().sweep(&prepared.offers, targets, &requested, search)? {
            Ok(swept) => swept,
            Err(error) => return Some(Err(error)),
        };
        let pinned = prepared.classified.pinned.in_pool_order();
        let ranges = indices.iter().map(|index| match position_of[*index] {
            Some(position) => {
                let slot = requested.partition_point(|other| *other < position);
                let targets = swept[slot].ranges().iter();
                targets.filter_map(|targets| budgets_for(budgets, targets, target)).collect()
            }
            None if pinned.binary_search(&(*index as u32)).is_ok() => vec![budgets.clone()],
            None => Vec::new(),
        });
        Some(Ok(ranges.collect()))
    }
}

/// How far a sweep goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SweepMode {
    /// To the end.
    All,
    /// Until every item was selected once.
    First,
}

/// How many steps a sweep may take.
const MAX_SWEEP_STEPS: u64 = 1 << 34;

/// The budgets whose target lies within a range; the target grows with the budget.
fn budgets_for(
    budgets: &RangeInclusive<i64>,
    targets: &RangeInclusive<i64>,
    target: impl Fn(i64) -> i64,
) -> Option<RangeInclusive<i64>> {
    let first_above = |limit: i64| {
        let (mut low, mut high) = (*budgets.start(), budgets.end().saturating_add(1));
        while low < high {
            let middle = low + (high - low) / 2;
            if target(middle) >= limit { high = middle } else { low = middle + 1 }
        }
        low
    };
    let first = first_above(*targets.start());
    let last = match target(*budgets.end()) <= *targets.end() {
        true => *budgets.end(),
        false => first_above(targets.end().saturating_add(1)) - 1,
    };
    (first <= last).then_some(first..=last)
}

/// The budgets that are searched for an item.
fn search_range(
    items: &[&ContextItem],
    index: usize,
    ceiling: i64,
) -> Result<RangeInclusive<i64>, Error> {
    let tokens = items.get(index).ok_or(Error::NoSuchItem)?.tokens();
    if ceiling < tokens {
        return Err(Error::CeilingTooLow);
    }
    Ok(tokens.max(0)..=ceiling)
}

/// How many ranges of budgets a sweep may hold at once: four million.
pub const MAX_SWEEP_RANGES: usize = 1 << 22;

const MINIMUM: &str = "FindMinBudgetFor requires monotonic item inclusion. QuotaSlice and \
                       CountQuotaSlice produce non-monotonic inclusion as budget changes shift \
                       allocations. Use a GreedySlice or KnapsackSlice inner slicer for budget \
                       simulation.";

const MARGINAL: &str = "GetMarginalItems requires monotonic item inclusion. QuotaSlice produces \
                        non-monotonic inclusion as budget changes shift percentage allocations.";

/// Whether a variant selects a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ItemStatus {
    /// It does.
    Included,
    /// It does not.
    Excluded,
}

/// A content on which variants differ.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PolicySensitivityDiffEntry {
    /// The content.
    pub content: String,
    /// What each variant does with it, in the order of the variants.
    pub statuses: Vec<(String, ItemStatus)>,
}

/// How variants differ.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PolicySensitivityReport<I = ContextItem> {
    /// The report of each variant, in the order they were given.
    pub variants: Vec<(String, SelectionReport<I>)>,
    /// The contents on which at least two of them differ, in order of first appearance in the pool.
    pub diffs: Vec<PolicySensitivityDiffEntry>,
}

/// Runs several pipelines over the same items and budget, and reports where they differ.
///
/// Items are told apart by content: equal contents count as one, which is included if any copy is.
///
/// # Errors
///
/// [`Error::TooFewVariants`] for fewer than two, and any error that keeps a variant from running.
pub fn policy_sensitivity<'a>(
    items: &'a [ContextItem],
    budget: &ContextBudget,
    variants: &[(impl AsRef<str>, &Pipeline)],
) -> Result<PolicySensitivityReport<&'a ContextItem>, Error> {
    if variants.len() < 2 {
        return Err(Error::TooFewVariants);
    }
    let mut reports = Vec::with_capacity(variants.len());
    for (label, pipeline) in variants {
        reports.push((label.as_ref().to_owned(), pipeline.dry_run(items, budget)?));
    }
    Ok(PolicySensitivityReport { diffs: differences(items, &reports), variants: reports })
}

fn differences(
    items: &[ContextItem],
    variants: &[(String, SelectionReport<&ContextItem>)],
) -> Vec<PolicySensitivityDiffEntry> {
    // For each content, which variants include it.
    let mut included: BTreeMap<(&str, bool), BTreeSet<usize>> = BTreeMap::new();
    for (variant, (_, report)) in variants.iter().enumerate() {
        for entry in &report.included {
            included.entry(entry.item.identity()).or_default().insert(variant);
        }
    }
    let mut seen = BTreeSet::new();
    let contents = items.iter().map(ContextItem::identity).filter(|content| seen.insert(*content));
    contents
        .filter_map(|content| {
            let by = included.get(&content).filter(|by| by.len() < variants.len())?;
            let status = |variant| match by.contains(&variant) {
                true => ItemStatus::Included,
                false => ItemStatus::Excluded,
            };
            let labels = variants.iter().enumerate();
            let statuses = labels.map(|(i, (label, _))| (label.clone(), status(i))).collect();
            Some(PolicySensitivityDiffEntry { content: content.0.to_owned(), statuses })
        })
        .collect()
}
