//! What if: other budgets.
//!
//! An answer is always what a run would do. Questions about a range of budgets prepare a run once, and are bounded by a
//! [`Search`]. Out of steps, or stopped, they answer with what is known so far. Tests compare all answers with a run at
//! every budget.

mod budgets;
mod search;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

pub use crate::pipeline::{BudgetThreshold, Decision, Rank, Rival, SentForm};
pub(crate) use budgets::{Budgets, VariedLimit};
pub use search::{Found, Search};

use crate::pipeline::{Counts, Prepared};
use crate::{ContextBudget, ContextItem, Error, Pipeline, SelectionReport, TargetRanges};

/// The budgets at which each item of a pool is selected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BudgetSweep {
    /// The budgets that were swept: those that were asked for, from the smallest, as far as the search came.
    pub budgets: RangeInclusive<i64>,
    /// For every item of the pool, those of the budgets at which it is selected, as ascending ranges.
    pub selected: Vec<Vec<RangeInclusive<i64>>>,
}

impl<'a> Prepared<'_, 'a> {
    /// Finds the smallest budget within a range at which an item is selected whole.
    ///
    /// A budget of `b` means a window and a target of `b`, with the reserve, the slots and the margin of `base`.
    /// Selections are not monotonic: an item that is in at 40 may be out at 50 and in again at 100. A budget at which a
    /// run fails counts as one without the item.
    ///
    /// ```
    /// use pannier_core::{ContextBudget, ContextItem, Pipeline};
    /// use pannier_core::score::RecencyScorer;
    /// use pannier_core::whatif::{Found, Search};
    ///
    /// let items = [ContextItem::new("one", 10)?, ContextItem::new("two", 20)?];
    /// let pipeline = Pipeline::builder(RecencyScorer).build();
    /// let base = ContextBudget::builder(0, 0).build()?;
    /// let mut search = Search::new(1_000_000);
    /// let found = pipeline.prepare(&items)?.smallest_budget(&base, 1, 0..=100, &mut search)?;
    /// assert_eq!(found, Found::At { tokens: 30, is_proven: true });
    /// # Ok::<(), pannier_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchItem`] if there is no item at this index.
    pub fn smallest_budget(
        &self,
        base: &ContextBudget,
        index: usize,
        within: RangeInclusive<i64>,
        search: &mut Search<'_>,
    ) -> Result<Found, Error> {
        let run = &*self.data;
        if index >= run.items.len() {
            return Err(Error::NoSuchItem);
        }
        let position = run.position_of(index as u32);
        if position.is_none() && !run.is_pinned(index as u32) {
            return Ok(Found::Never);
        }
        let counts = Counts::whole(run.items[index]);
        let budgets = Budgets::new(self.pipeline, run, base, VariedLimit::Both, counts);
        let (found, end) = budgets.first(position, within.clone(), *within.end(), search);
        Ok(match found {
            Some((tokens, is_proven)) => Found::At { tokens, is_proven },
            None => Found::NotWithin { tried: known(&within, end) },
        })
    }

    /// Finds, for every item of the pool, the budgets within a range at which it is selected whole.
    ///
    /// Budgets are as in [`smallest_budget`](Self::smallest_budget). If the steps run out, or the search is stopped,
    /// the answer covers the smaller ones.
    pub fn sweep(
        &self,
        base: &ContextBudget,
        budgets: RangeInclusive<i64>,
        search: &mut Search<'_>,
    ) -> BudgetSweep {
        let run = &*self.data;
        let positions: Vec<usize> = (0..run.sorted.len()).collect();
        let mut selected = vec![Vec::new(); run.items.len()];
        let mut end = i128::MAX;
        // Members of a group may be whole where others are not.
        let is_mixed = run.classified.scoreable.has_groups() && run.offers.has_forms();
        let questions: &[Counts] = match is_mixed {
            true => &[Counts::Whole, Counts::AnyForm],
            false => &[Counts::Whole],
        };
        for (&counts, unanswered) in questions.iter().zip((1..=questions.len()).rev()) {
            let all = Budgets::new(self.pipeline, run, base, VariedLimit::Both, counts);
            let swept = all.sweep(budgets.clone(), &positions, false, &mut search.part(unanswered));
            let mut set = |members: &[u32], ranges: &TargetRanges| {
                for index in members {
                    let is_asked = !is_mixed || Counts::whole(run.items[*index as usize]) == counts;
                    if is_asked {
                        selected[*index as usize] = ranges.ranges().to_vec();
                    }
                }
            };
            set(&run.classified.pinned.in_pool_order(), &swept.succeeds);
            for (unit, ranges) in run.sorted.iter().zip(&swept.selected) {
                set(run.classified.scoreable.members(*unit), ranges);
            }
            end = end.min(swept.end);
        }
        if is_mixed {
            cut_off(&mut selected, end);
        }
        BudgetSweep { budgets: known(&budgets, end), selected }
    }
}

/// Removes the budgets from `end` on.
fn cut_off(selected: &mut [Vec<RangeInclusive<i64>>], end: i128) {
    for ranges in selected {
        ranges.retain(|range| i128::from(*range.start()) < end);
        if let Some(range) = ranges.last_mut() {
            *range = *range.start()..=(*range.end()).min((end - 1).min(i64::MAX.into()) as i64);
        }
    }
}

/// The part of a range below `end`.
fn known(budgets: &RangeInclusive<i64>, end: i128) -> RangeInclusive<i64> {
    let last = (end - 1).clamp(i64::MIN.into(), (*budgets.end()).into());
    *budgets.start()..=last as i64
}

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

    /// Returns the smallest budget, from the item's own tokens up to a ceiling, that selects the item, if one does. See
    /// [`Prepared::smallest_budget`], which answers for any slicer.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchItem`] or [`Error::CeilingTooLow`] if the question makes no sense;
    /// [`Error::NotMonotonic`] if the slicer gives kinds shares of the budget or guarantees counts;
    /// [`Error::SearchTooLong`] if [`Search::DEFAULT_STEPS`] do not prove the answer.
    pub fn find_min_budget_for<'a>(
        &self,
        items: impl IntoIterator<Item = &'a ContextItem>,
        base: &ContextBudget,
        index: usize,
        ceiling: i64,
    ) -> Result<Option<i64>, Error> {
        let prepared = self.prepare(items)?;
        let tokens = prepared.data.items.get(index).ok_or(Error::NoSuchItem)?.tokens().max(0);
        if ceiling < tokens {
            return Err(Error::CeilingTooLow);
        }
        let properties = self.slicer().properties();
        if properties.splits_budget_by_kind || properties.guarantees_counts {
            return Err(Error::NotMonotonic { question: MINIMUM });
        }
        let mut search = Search::new(Search::DEFAULT_STEPS);
        match prepared.smallest_budget(base, index, tokens..=ceiling, &mut search)? {
            Found::At { tokens, is_proven: true } => Ok(Some(tokens)),
            Found::Never => Ok(None),
            Found::NotWithin { tried } if *tried.end() == ceiling => Ok(None),
            _ => Err(Error::SearchTooLong),
        }
    }

    /// For every item of the pool, the budgets within a range at which it is selected; see [`Prepared::sweep`].
    ///
    /// # Errors
    ///
    /// [`Error::SearchTooLong`] if [`Search::DEFAULT_STEPS`] are not enough; otherwise as [`prepare`](Self::prepare).
    pub fn budget_sweep<'a>(
        &self,
        items: impl IntoIterator<Item = &'a ContextItem>,
        base: &ContextBudget,
        budgets: RangeInclusive<i64>,
    ) -> Result<Vec<Vec<RangeInclusive<i64>>>, Error> {
        let mut search = Search::new(Search::DEFAULT_STEPS);
        let swept = self.prepare(items)?.sweep(base, budgets.clone(), &mut search);
        match swept.budgets == budgets {
            true => Ok(swept.selected),
            false => Err(Error::SearchTooLong),
        }
    }
}

const MINIMUM: &str = "FindMinBudgetFor requires monotonic item inclusion. QuotaSlice and \
                       CountQuotaSlice produce non-monotonic inclusion as budget changes shift \
                       allocations. Use a GreedySlice or KnapsackSlice inner slicer for budget \
                       simulation.";

const MARGINAL: &str = "GetMarginalItems requires monotonic item inclusion. QuotaSlice produces \
                        non-monotonic inclusion as budget changes shift percentage allocations.";
