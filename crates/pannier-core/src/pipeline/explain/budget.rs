//! The same run with other budgets.
//!
//! Only slicing and what follows it depend on the budget, so that is what is done again.

use std::ops::RangeInclusive;

use super::super::{Contest, Pipeline, RunState};
use super::BudgetThreshold;
use crate::slicer::TargetRanges;
use crate::whatif::BudgetWalk;
use crate::{ContextBudget, Error, OverflowStrategy, Search, sum_tokens};

/// The same run with other budgets.
///
/// A budget has two sizes, and a search has one number. If the target is what limits the run, the target is
/// varied, and the window grows only where it must. Otherwise the window is varied, and the target keeps its
/// distance from it.
pub(super) struct BudgetCounterfactual<'r, 'a> {
    pipeline: &'r Pipeline,
    run: &'r RunState<'a>,
    index: u32,
    /// The item's unit; `None` if it is pinned.
    unit: Option<u32>,
    /// The position of the unit among the candidates. A copy that was dropped is none of them.
    position: usize,
    varied: VariedLimit,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum VariedLimit {
    Window,
    Target,
}

impl<'r, 'a> BudgetCounterfactual<'r, 'a> {
    /// How many steps a search may take that proves its answer, and one that bisects.
    const MAX_EXHAUSTIVE_STEPS: u64 = 1 << 28;
    const MAX_GALLOP_STEPS: u64 = 1 << 31;

    /// The largest budget that is tried; above it, sums might not fit.
    const MAX_TOKENS: i64 = i64::MAX / 4;

    fn with(pipeline: &'r Pipeline, run: &'r RunState<'a>, index: u32) -> Self {
        let is_target = run.budget.target_tokens() < run.budget.input_tokens();
        let varied = if is_target { VariedLimit::Target } else { VariedLimit::Window };
        Self { pipeline, run, index, unit: None, position: 0, varied }
    }

    /// `None` if the item does not compete: then no budget helps.
    pub(super) fn new(pipeline: &'r Pipeline, run: &'r RunState<'a>, index: u32) -> Option<Self> {
        let unit = run.prepared.classified.scoreable.unit_of(index)?;
        let position = run.prepared.sorted.iter().position(|other| *other == unit)?;
        Some(Self { unit: Some(unit), position, ..Self::with(pipeline, run, index) })
    }

    /// The smallest budget with which pinned items are in: as soon as all of them fit, unless the run fails for what
    /// a slicer guarantees besides.
    pub(super) fn smallest_for_pinned(
        pipeline: &'r Pipeline,
        run: &'r RunState<'a>,
    ) -> BudgetThreshold {
        let counterfactual = Self::with(pipeline, run, 0);
        counterfactual.search_down(counterfactual.current())
    }

    /// The window and the target for a number.
    fn sizes(&self, tokens: i64) -> (i64, i64) {
        let (window, target) = (self.run.budget.max_tokens(), self.run.budget.target_tokens());
        match self.varied {
            VariedLimit::Window => (tokens, tokens.saturating_sub(window - target).max(0)),
            VariedLimit::Target => {
                (tokens.saturating_add(self.run.budget.output_reserve()).max(window), tokens)
            }
        }
    }

    fn budget(&self, tokens: i64) -> Option<ContextBudget> {
        let (window, target) = self.sizes(tokens);
        self.run.budget.with_sizes(window, target).ok()
    }

    /// The number of the budget of the run.
    pub(super) fn current(&self) -> i64 {
        match self.varied {
            VariedLimit::Window => self.run.budget.max_tokens(),
            VariedLimit::Target => self.run.budget.target_tokens(),
        }
    }

    /// What the slicer may spend. Never falls as the number grows.
    fn effective_target(&self, tokens: i64) -> i64 {
        let (window, target) = self.sizes(tokens);
        let committed_tokens = self.run.prepared.committed_tokens();
        self.run.budget.effective_for(window, target, committed_tokens).target_tokens
    }

    /// The smallest number that leaves the slicer as much as this.
    fn lowest_with(&self, target: i64) -> Option<i64> {
        let (mut low, mut high) = (self.bottom(), Self::MAX_TOKENS);
        if self.effective_target(high) < target {
            return None;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if self.effective_target(middle) >= target { high = middle } else { low = middle + 1 }
        }
        Some(low)
    }

    fn contains(&self, units: &[u32]) -> bool {
        self.unit.is_none_or(|unit| units.contains(&unit))
    }

    /// Whether the item is in with a budget, and what it took to know.
    fn decide(&self, tokens: i64) -> (bool, u64) {
        let Some(budget) = self.budget(tokens) else {
            return (false, 1);
        };
        let contest = Contest::of(&self.run.prepared);
        let (selected, steps) = self.pipeline.select_units(&contest, &budget);
        (selected.is_ok_and(|(units, _)| self.contains(&units)), steps)
    }

    pub(super) fn is_in(&self, tokens: i64) -> bool {
        self.decide(tokens).0
    }

    /// The first of these numbers with which the item is in. `Err` if there were not enough steps.
    ///
    /// Where the slicer knows the answer for a whole range, windows grow, so that a near answer is found at once.
    fn try_all(&self, numbers: RangeInclusive<i64>) -> Result<Option<i64>, Error> {
        let mut search = Search::new(Self::MAX_EXHAUSTIVE_STEPS);
        let (mut from, last) = numbers.clone().into_inner();
        let mut window = (from / 16).max(256);
        while from <= last && self.unit.is_some() && self.pipeline.layout().is_none() {
            let to = last.min(from.saturating_add(window - 1));
            let targets = self.effective_target(from)..=self.effective_target(to);
            let (offers, positions) = (&self.run.prepared.offers, [self.position]);
            let Some(swept) = self.pipeline.slicer.sweep(offers, targets, &positions, &mut search)
            else {
                return self.walk(numbers, &mut search);
            };
            let swept = swept?;
            let ranges = swept.first().map_or(&[][..], TargetRanges::ranges);
            let lowest = ranges.first().and_then(|range| self.lowest_with(*range.start()));
            if let Some(lowest) = lowest {
                return Ok(Some(lowest.max(from)));
            }
            let Some(next) = to.checked_add(1) else {
                break;
            };
            from = next;
            window = window.saturating_mul(2);
        }
        if from > last {
            return Ok(None);
        }
        self.walk(numbers, &mut search)
    }

    fn walk(
        &self,
        numbers: RangeInclusive<i64>,
        search: &mut Search<'_>,
    ) -> Result<Option<i64>, Error> {
        let contest = Contest::of(&self.run.prepared);
        let budget_at = |tokens| self.budget(tokens);
        let walk = BudgetWalk { pipeline: self.pipeline, contest: &contest, budget_at: &budget_at };
        let mut first = None;
        let is_complete = walk.stretches(numbers, search, |stretch, selected| {
            if selected.is_ok_and(|units| self.contains(units)) {
                first = Some(*stretch.start());
            }
            first.is_none()
        })?;
        match is_complete {
            true => Ok(first),
            false => Err(Error::SearchTooLong),
        }
    }

    /// The smallest number that makes a valid budget. A window must hold the item; a target need not, if
    /// overflow is accepted.
    fn bottom(&self) -> i64 {
        let prepared = &self.run.prepared;
        match self.varied {
            VariedLimit::Window => {
                let tokens = match self.unit {
                    Some(_) => prepared.items[self.index as usize].tokens(),
                    None => 0,
                };
                let pinned_tokens = prepared.classified.pinned_tokens;
                tokens.max(pinned_tokens.saturating_add(self.run.budget.output_reserve()))
            }
            VariedLimit::Target => match (self.unit, self.pipeline.overflow_strategy) {
                (None, OverflowStrategy::Throw) => prepared.classified.pinned_tokens,
                _ => 0,
            },
        }
    }

    /// For an item that is in: the smallest budget from its own tokens on.
    pub(super) fn search_down(&self, current: i64) -> BudgetThreshold {
        match self.try_all(self.bottom()..=current) {
            Ok(found) => self.threshold(found.unwrap_or(current), true),
            Err(_) => {
                let mut search = Search::new(Self::MAX_GALLOP_STEPS);
                self.bisect(self.bottom(), current, &mut search)
            }
        }
    }

    /// For an item that is out: the smallest budget above the current one.
    ///
    /// With room for everything, most slicers take everything. Those that round up or deal in shares need
    /// more, some of them without end, so the search goes on for a while and then gallops.
    pub(super) fn search_up(&self, current: i64) -> Option<BudgetThreshold> {
        if self.effective_target(Self::MAX_TOKENS) <= self.effective_target(current) {
            return None;
        }
        let candidates = self.run.prepared.offers.candidates();
        let all = sum_tokens(candidates.iter().map(|candidate| candidate.tokens));
        let everything = self.lowest_with(all).unwrap_or(Self::MAX_TOKENS).max(current);
        let near = everything.saturating_mul(4).saturating_add(1_024).min(Self::MAX_TOKENS);
        if let Ok(Some(tokens)) = self.try_all(current.saturating_add(1)..=near) {
            return Some(self.threshold(tokens, true));
        }
        let far = everything.saturating_mul(1 << 20).clamp(near, Self::MAX_TOKENS);
        let (mut out, mut step) = (current, 1_i64);
        let mut search = Search::new(Self::MAX_GALLOP_STEPS);
        while out < far {
            let tokens = far.min(out.saturating_add(step));
            let (is_in, steps) = self.decide(tokens);
            if is_in {
                return Some(self.bisect(out + 1, tokens, &mut search));
            }
            out = tokens;
            step = step.saturating_mul(2);
            if !search.spend(steps).unwrap_or(false) {
                break;
            }
        }
        // Out of steps, there is still the largest question, whose answer is the simplest; and from there
        // down, a while longer.
        let plenty =
            [everything, near, far].into_iter().find(|tokens| *tokens > out && self.is_in(*tokens));
        let mut search = Search::new(Self::MAX_GALLOP_STEPS);
        plenty.map(|tokens| self.bisect(out + 1, tokens, &mut search))
    }

    /// For an item that is out: the smallest budget below the current one, if there is one and it can be
    /// found in time.
    pub(super) fn search_smaller_budgets(&self, current: i64) -> Option<BudgetThreshold> {
        let found = self.try_all(self.bottom()..=current.saturating_sub(1)).ok().flatten();
        found.map(|tokens| self.threshold(tokens, true))
    }

    /// A budget between these with which the item is in, if it is in with the last; and with one less it is
    /// not, unless the steps end before that is known.
    fn bisect(&self, mut low: i64, mut high: i64, search: &mut Search<'_>) -> BudgetThreshold {
        while low < high {
            let middle = low + (high - low) / 2;
            let (is_in, steps) = self.decide(middle);
            if is_in {
                high = middle;
            } else {
                low = middle + 1;
            }
            if !search.spend(steps).unwrap_or(false) {
                break;
            }
        }
        self.threshold(high, false)
    }

    fn threshold(&self, tokens: i64, is_proven: bool) -> BudgetThreshold {
        let (max_tokens, target_tokens) = self.sizes(tokens);
        BudgetThreshold { max_tokens, target_tokens, is_proven }
    }
}
