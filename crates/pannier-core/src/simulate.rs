//! What if: other budgets, other policies.
//!
//! An answer is always what a run would do. Most questions are answered by running pipelines and
//! comparing what they select. Questions about a range of budgets prepare a run once and let the slicer
//! answer for the whole range; tests compare that with a run at every budget.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use crate::pipeline::{Fitting, Forms, Prepared, Run, Trace, fewest};
use crate::slicer::{Candidate, decide};
use crate::{
    ContextBudget, ContextItem, Error, NullTraceCollector, Pipeline, Rendering, SelectionReport,
    TargetRanges, sum_tokens,
};

impl Pipeline {
    /// Every item with its score and its reason, as [`run`](Self::run) would decide.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub fn dry_run<'a>(
        &self,
        items: &'a [ContextItem],
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
    pub fn get_marginal_items(
        &self,
        items: &[ContextItem],
        budget: &ContextBudget,
        slack_tokens: i64,
    ) -> Result<Vec<usize>, Error> {
        if self.slicer().properties().shares_budget {
            return Err(Error::NotMonotonic { question: MARGINAL });
        }
        let reduced = budget.reduced(slack_tokens)?;
        let with_less: BTreeSet<usize> = self.run(items, &reduced)?.indices().collect();
        let selection = self.run(items, budget)?;
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
    pub fn find_min_budget_for(
        &self,
        items: &[ContextItem],
        base: &ContextBudget,
        index: usize,
        ceiling: i64,
    ) -> Result<Option<i64>, Error> {
        let budgets = searched(items, index, ceiling)?;
        let properties = self.slicer().properties();
        if properties.shares_budget || properties.commits_counts {
            return Err(Error::NotMonotonic { question: MINIMUM });
        }
        let mut ranges = self.sweep(items, base, budgets, &[index], Extent::First)?;
        Ok(ranges.pop().and_then(|ranges| ranges.first().map(|range| *range.start())))
    }

    /// As [`find_min_budget_for`](Self::find_min_budget_for), for any slicer, by one run for each budget
    /// until the item is in. A budget at which the run fails counts as one without it.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchItem`] or [`Error::CeilingTooLow`] if the question makes no sense.
    pub fn find_min_budget_for_exhaustively(
        &self,
        items: &[ContextItem],
        base: &ContextBudget,
        index: usize,
        ceiling: i64,
    ) -> Result<Option<i64>, Error> {
        let is_in = |tokens: &i64| {
            let selection = base.resized(*tokens).and_then(|budget| self.run(items, &budget));
            let is_whole = |sent: (usize, bool)| sent == (index, false);
            selection
                .is_ok_and(|selection| selection.indices().zip(selection.shortened()).any(is_whole))
        };
        Ok(searched(items, index, ceiling)?.find(is_in))
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
    pub fn budget_sweep(
        &self,
        items: &[ContextItem],
        base: &ContextBudget,
        budgets: RangeInclusive<i64>,
    ) -> Result<Vec<Vec<RangeInclusive<i64>>>, Error> {
        if self.slicer().properties().commits_counts {
            return Err(Error::NotMonotonic { question: MINIMUM });
        }
        let indices: Vec<usize> = (0..items.len()).collect();
        let ranges = self.sweep(items, base, budgets, &indices, Extent::All)?;
        let count: usize = ranges.iter().map(Vec::len).sum();
        if count > MAX_SWEEP_RANGES {
            return Err(Error::SweepTooLarge { ranges: count });
        }
        Ok(ranges)
    }

    fn sweep(
        &self,
        items: &[ContextItem],
        base: &ContextBudget,
        budgets: RangeInclusive<i64>,
        indices: &[usize],
        extent: Extent,
    ) -> Result<Vec<Vec<RangeInclusive<i64>>>, Error> {
        let nothing = || Ok(vec![Vec::new(); indices.len()]);
        let Ok(largest) = base.resized(*budgets.end()) else {
            return nothing();
        };
        let mut nobody = NullTraceCollector;
        let prepared = match self.prepare(items, &largest, &mut Trace::none(&mut nobody)) {
            Ok(prepared) => prepared,
            Err(Error::PinnedOverBudget { .. }) => return nothing(),
            Err(error) => return Err(error),
        };
        let Prepared { run, candidates } = &prepared;
        let (pinned_tokens, committed_tokens) =
            (run.classified.pinned_tokens, run.committed_tokens());
        // Below this, the budget is not valid or the pinned items do not fit.
        let smallest = pinned_tokens.saturating_add(base.output_reserve()).max(*budgets.start());
        if smallest > *budgets.end() {
            return nothing();
        }
        let budgets = smallest..=*budgets.end();
        let target = |tokens| base.effective_at(tokens, tokens, committed_tokens).target_tokens;

        // Each item's unit among the candidates, if it got that far.
        let mut position_of = vec![None; items.len()];
        for (position, unit) in run.sorted.iter().enumerate() {
            for member in run.classified.scoreable.members(*unit) {
                position_of[*member as usize] = Some(position);
            }
        }
        let mut asked: Vec<usize> =
            indices.iter().filter_map(|index| position_of[*index]).collect();
        asked.sort_unstable();
        asked.dedup();
        let targets = target(*budgets.start())..=target(*budgets.end());
        if self.slicer().properties().takes_tiers {
            return self.sweep_tiers(&prepared, base, budgets, indices, extent);
        }
        if let Some(rendering) = self.rendering() {
            if let (Extent::First, [index]) = (extent, indices) {
                let first = self.first_rendered(run, candidates, base, budgets.clone(), *index)?;
                return Ok(vec![first.map(|tokens| tokens..=tokens).into_iter().collect()]);
            }
            // What stays depends on everything that is taken.
            let all: Vec<usize> = (0..candidates.len()).collect();
            let swept = self.slicer().sweep(candidates, targets, &all)?;
            let budgets_of = |ranges: &TargetRanges| {
                let targets = ranges.ranges().iter();
                targets.filter_map(|targets| budgets_for(&budgets, targets, target)).collect()
            };
            let taken: Vec<_> = swept.iter().map(budgets_of).collect();
            let ranges = self.sweep_rendered(rendering, &prepared, base, &budgets, &taken)?;
            return Ok(indices.iter().map(|index| ranges[*index].clone()).collect());
        }
        let swept = self.slicer().sweep(candidates, targets, &asked)?;

        let pinned = run.classified.pinned.in_pool_order();
        let ranges = indices.iter().map(|index| match position_of[*index] {
            Some(position) => {
                let slot = asked.partition_point(|other| *other < position);
                let targets = swept[slot].ranges().iter();
                targets.filter_map(|targets| budgets_for(&budgets, targets, target)).collect()
            }
            None if pinned.binary_search(&(*index as u32)).is_ok() => vec![budgets.clone()],
            None => Vec::new(),
        });
        Ok(ranges.collect())
    }
}

/// How far a sweep goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// To the end.
    All,
    /// To the first budget, for one item.
    First,
}

impl Pipeline {
    /// The first budget at which an item is still there when the selection is rendered: tried where the slicer takes
    /// it, as elsewhere it cannot be.
    fn first_rendered(
        &self,
        run: &Run<'_>,
        candidates: &[Candidate<'_>],
        base: &ContextBudget,
        budgets: RangeInclusive<i64>,
        index: usize,
    ) -> Result<Option<i64>, Error> {
        let unit = run.classified.scoreable.unit_of(index as u32);
        let position = unit.and_then(|unit| run.sorted.iter().position(|other| *other == unit));
        let target =
            |tokens| base.effective_at(tokens, tokens, run.committed_tokens()).target_tokens;
        let ranges = match position {
            Some(position) => {
                let targets = target(*budgets.start())..=target(*budgets.end());
                let swept = self.slicer().sweep(candidates, targets, &[position])?;
                let ranges = swept.iter().flat_map(TargetRanges::ranges);
                ranges.filter_map(|targets| budgets_for(&budgets, targets, target)).collect()
            }
            None if run.classified.pinned.unit_of(index as u32).is_some() => vec![budgets],
            None => Vec::new(),
        };
        let mut effort = Effort::default();
        for tokens in ranges.into_iter().flatten() {
            effort.spend(self.effort(run, target(tokens)))?;
            let Ok(budget) = base.resized(tokens) else { continue };
            let left = self.select(run, &run.sorted, candidates, &run.scores, &budget);
            if left.is_ok_and(|units| unit.is_none_or(|unit| units.contains(&unit))) {
                return Ok(Some(tokens));
            }
        }
        Ok(None)
    }

    /// The same, where the slicer needs to know the whole budget: each is tried by itself.
    fn sweep_tiers(
        &self,
        Prepared { run, candidates }: &Prepared<'_>,
        base: &ContextBudget,
        budgets: RangeInclusive<i64>,
        indices: &[usize],
        extent: Extent,
    ) -> Result<Vec<Vec<RangeInclusive<i64>>>, Error> {
        let mut ranges = vec![Vec::new(); run.items.len()];
        let mut effort = Effort::default();
        for tokens in budgets {
            effort.spend(self.effort(run, tokens))?;
            let Ok(budget) = base.resized(tokens) else { continue };
            let selected = self.select(run, &run.sorted, candidates, &run.scores, &budget);
            let Ok(units) = selected else { continue };
            let scored = units.iter().flat_map(|unit| run.classified.scoreable.members(*unit));
            for index in scored.chain(&*run.classified.pinned.in_pool_order()) {
                extend(&mut ranges[*index as usize], &(tokens..=tokens));
            }
            let is_found = |index: &usize| !ranges[*index].is_empty();
            if extent == Extent::First && indices.iter().all(is_found) {
                break;
            }
        }
        Ok(indices.iter().map(|index| ranges[*index].clone()).collect())
    }

    /// About how many steps it takes to select and to render once.
    fn effort(&self, run: &Run<'_>, target: i64) -> u64 {
        // However large the target, there is no more to render than there is.
        let all = sum_tokens(run.sorted.iter().map(|unit| run.unit_tokens(*unit)));
        let rendering = self.rendering().map_or(0, |rendering| rendering.effort(target.min(all)));
        self.slicer().effort(run.sorted.len(), target).saturating_add(rendering)
    }

    /// For every item of the pool, the budgets at which it is still there when the selection is rendered, if each
    /// of the sorted units is taken at certain budgets.
    fn sweep_rendered(
        &self,
        rendering: &dyn Rendering,
        Prepared { run, candidates }: &Prepared<'_>,
        base: &ContextBudget,
        budgets: &RangeInclusive<i64>,
        taken: &[Vec<RangeInclusive<i64>>],
    ) -> Result<Vec<Vec<RangeInclusive<i64>>>, Error> {
        let mut found = vec![Vec::new(); run.items.len()];
        let mut effort = Effort::default();
        // Where the order in which units are taken matters, it is asked for at every budget: which units they are does
        // not tell.
        let stretches: Box<dyn Iterator<Item = RangeInclusive<i64>>> = match self.places_as_taken()
        {
            true => Box::new(budgets.clone().map(|tokens| tokens..=tokens)),
            false => Box::new(stretches(budgets, taken).into_iter()),
        };
        for stretch in stretches {
            effort.spend(self.effort(run, *stretch.start()))?;
            let is_taken = |ranges: &Vec<RangeInclusive<i64>>| {
                let place = ranges.partition_point(|range| range.end() < stretch.start());
                ranges.get(place).is_some_and(|range| range.start() <= stretch.start())
            };
            let units = run.sorted.iter().zip(taken).filter(|(_, ranges)| is_taken(ranges));
            let units = units.map(|(unit, _)| *unit).collect();
            let order = match self.places_as_taken() {
                true => {
                    let (tokens, committed_tokens) = (*stretch.start(), run.committed_tokens());
                    let budget = base.effective_at(tokens, tokens, committed_tokens);
                    decide(self.slicer(), candidates, budget)?.into_parts().1
                }
                false => Vec::new(),
            };
            let merge = run.merge(&run.scores, &run.sorted, (units, order), Forms::default());
            let placed = self.place(&merge)?;
            let fitting = Fitting::new(&merge, &placed, rendering);
            self.sweep_stretch(&fitting, base.output_reserve(), stretch, |left, budgets| {
                left.iter().for_each(|index| extend(&mut found[*index as usize], &budgets));
            });
        }
        Ok(found)
    }

    /// Tells what is left at the budgets of a stretch at which the same units are taken.
    fn sweep_stretch(
        &self,
        fitting: &Fitting<'_>,
        reserve: i64,
        stretch: RangeInclusive<i64>,
        mut tell: impl FnMut(&[u32], RangeInclusive<i64>),
    ) {
        let (mut tokens, end) = stretch.into_inner();
        let mut totals = BTreeMap::new();
        while tokens <= end {
            let limit = tokens - reserve;
            let dropped = fewest(fitting.units(), |dropped| {
                *totals.entry(dropped).or_insert_with(|| fitting.total(dropped)) <= limit
            });
            // Every larger budget gives the same answer, up to the first that one of the totals fits as well.
            let above = totals.values().filter(|total| **total > limit).min();
            let same = above.filter(|_| dropped != Some(0));
            let last =
                same.map_or(end, |total| total.saturating_add(reserve).saturating_sub(1).min(end));
            if let Some(dropped) = dropped {
                tell(&fitting.without(dropped).placed, tokens..=last);
            }
            let Some(next) = last.checked_add(1) else { break };
            tokens = next;
        }
    }
}

/// How many steps a question has taken, of those that it may.
#[derive(Default)]
struct Effort(u64);

impl Effort {
    const MOST: u64 = 1 << 34;

    fn spend(&mut self, steps: u64) -> Result<(), Error> {
        self.0 = self.0.saturating_add(steps);
        if self.0 > Self::MOST { Err(Error::SearchTooLong) } else { Ok(()) }
    }
}

/// Budgets in stretches within which nothing changes about what is taken.
fn stretches(
    budgets: &RangeInclusive<i64>,
    taken: &[Vec<RangeInclusive<i64>>],
) -> Vec<RangeInclusive<i64>> {
    let changes =
        taken.iter().flatten().flat_map(|range| [*range.start(), range.end().saturating_add(1)]);
    let mut starts: Vec<i64> = changes.filter(|start| budgets.contains(start)).collect();
    starts.push(*budgets.start());
    starts.sort_unstable();
    starts.dedup();
    let ends = starts.iter().skip(1).map(|next| next - 1).chain([*budgets.end()]);
    starts.iter().zip(ends).map(|(start, end)| *start..=end).collect()
}

/// Adds budgets above all that are already there.
fn extend(ranges: &mut Vec<RangeInclusive<i64>>, budgets: &RangeInclusive<i64>) {
    match ranges.last_mut() {
        Some(last) if last.end().checked_add(1) == Some(*budgets.start()) => {
            *last = *last.start()..=*budgets.end();
        }
        _ => ranges.push(budgets.clone()),
    }
}

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
fn searched(
    items: &[ContextItem],
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

/// Runs several policies over the same items and budget, and tells where they differ.
///
/// Items are told apart by content: equal contents count as one, which is included if any copy is.
///
/// # Errors
///
/// [`Error::TooFewVariants`] for fewer than two, and whatever keeps a variant from running.
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
    let mut included: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for (variant, (_, report)) in variants.iter().enumerate() {
        for entry in &report.included {
            included.entry(entry.item.content()).or_default().insert(variant);
        }
    }
    let mut seen = BTreeSet::new();
    let contents = items.iter().map(ContextItem::content).filter(|content| seen.insert(*content));
    contents
        .filter_map(|content| {
            let by = included.get(content).filter(|by| by.len() < variants.len())?;
            let status = |variant| match by.contains(&variant) {
                true => ItemStatus::Included,
                false => ItemStatus::Excluded,
            };
            let labels = variants.iter().enumerate();
            let statuses = labels.map(|(i, (label, _))| (label.clone(), status(i))).collect();
            Some(PolicySensitivityDiffEntry { content: content.to_owned(), statuses })
        })
        .collect()
}
