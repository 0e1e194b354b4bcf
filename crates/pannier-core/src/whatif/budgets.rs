//! Decisions at many budgets.
//!
//! There are three ways to a range of budgets, and the first that works is taken:
//!
//! 1. The slicer knows the decisions at all targets of a range ([`Slicer::sweep`](crate::Slicer::sweep)). Ranges double
//!    in length, so a near answer is found at once and a partial answer covers all budgets up to some size.
//! 2. Each slice comes with a certificate, the next budget at which it may decide otherwise; the search jumps there.
//! 3. Out of steps, budgets are doubled until the item is selected, then halved.

use std::ops::RangeInclusive;

use super::Search;
use crate::pipeline::{Certificate, Contest, Counts, PreparedRun};
use crate::{
    ContextBudget, Error, OverflowStrategy, Pipeline, SliceBudget, SweepRequest, TargetRanges,
};

/// The budgets of a search, each given by one number.
pub(crate) struct Budgets<'w, 'a> {
    pipeline: &'w Pipeline,
    prepared: &'w PreparedRun<'a>,
    base: &'w ContextBudget,
    varied: VariedLimit,
    counts: Counts,
    /// What is spent before anything is selected.
    committed: i64,
}

/// What the number is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum VariedLimit {
    /// Both the window and the target.
    Both,
    /// The window; the target keeps its distance from it.
    Window,
    /// The target; the window grows only where it must.
    Target,
}

/// At which budgets candidates are selected, as far as it is known.
pub(crate) struct Swept {
    /// For each of the requested positions.
    pub(crate) selected: Vec<TargetRanges>,
    /// The budgets at which a run succeeds.
    pub(crate) succeeds: TargetRanges,
    /// The first budget that is not known.
    pub(crate) end: i128,
}

impl Swept {
    fn first(&self) -> Option<i64> {
        let ranges = self.selected.first().unwrap_or(&self.succeeds);
        ranges.ranges().first().map(|range| *range.start())
    }
}

impl<'w, 'a> Budgets<'w, 'a> {
    /// How many budgets are swept first.
    const FIRST_WINDOW: i64 = 256;

    pub(crate) fn new(
        pipeline: &'w Pipeline,
        prepared: &'w PreparedRun<'a>,
        base: &'w ContextBudget,
        varied: VariedLimit,
        counts: Counts,
    ) -> Self {
        Self { pipeline, prepared, base, varied, counts, committed: prepared.committed_tokens() }
    }

    /// The window and the target for a number. Both never fall as the number grows.
    pub(crate) fn sizes(&self, tokens: i64) -> (i64, i64) {
        let (window, target) = (self.base.max_tokens(), self.base.target_tokens());
        match self.varied {
            VariedLimit::Both => (tokens, tokens),
            VariedLimit::Window => (tokens, tokens.saturating_sub(window - target).max(0)),
            VariedLimit::Target => {
                (tokens.saturating_add(self.base.output_reserve()).max(window), tokens)
            }
        }
    }

    /// The smallest number at which a run can succeed.
    pub(crate) fn smallest(&self) -> i64 {
        let pinned_tokens = self.prepared.classified.pinned_tokens;
        match (self.varied, self.pipeline.overflow_strategy()) {
            (VariedLimit::Target, OverflowStrategy::Throw) => pinned_tokens,
            (VariedLimit::Target, _) => 0,
            _ => pinned_tokens.saturating_add(self.base.output_reserve()),
        }
    }

    /// What the slicer may spend. Never falls as the number grows.
    pub(crate) fn target(&self, tokens: i64) -> i64 {
        self.effective(tokens).target_tokens
    }

    fn effective(&self, tokens: i64) -> SliceBudget {
        let (window, target) = self.sizes(tokens);
        self.base.effective_for(window, target, self.committed)
    }

    /// The first of these numbers that leaves the slicer as much as this, if there is one.
    pub(crate) fn first_with(&self, target: i64, numbers: RangeInclusive<i64>) -> Option<i64> {
        let (mut low, mut high) = numbers.into_inner();
        if self.target(high) < target {
            return None;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if self.target(middle) >= target { high = middle } else { low = middle + 1 }
        }
        Some(low)
    }

    /// The units that are selected with a budget, up to where larger ones select the same, and the steps it took.
    fn decide(&self, tokens: i64) -> (Result<(Vec<u32>, Certificate), Error>, u64) {
        let (window, target) = self.sizes(tokens);
        match self.base.with_sizes(window, target) {
            Ok(budget) => {
                self.pipeline.select_units(&Contest::of(self.prepared, self.counts), &budget)
            }
            Err(error) => (Err(error), 1),
        }
    }

    /// Whether a run succeeds and selects the candidate at a position, if one is given.
    pub(crate) fn is_in(
        &self,
        position: Option<usize>,
        tokens: i64,
        search: &mut Search<'_>,
    ) -> Result<bool, Error> {
        search.spend(0)?;
        let (selected, steps) = self.decide(tokens);
        search.spend(steps)?;
        let contains = |units: Vec<u32>, position| units.contains(&self.prepared.sorted[position]);
        Ok(selected
            .is_ok_and(|(units, _)| position.is_none_or(|position| contains(units, position))))
    }

    /// At which of these numbers the candidates at `positions` are selected; as far as the first number that selects the
    /// first of them, if `is_first_enough`. Without positions, that is the first number at which a run succeeds.
    pub(crate) fn sweep(
        &self,
        numbers: RangeInclusive<i64>,
        positions: &[usize],
        is_first_enough: bool,
        search: &mut Search<'_>,
    ) -> Swept {
        let last = *numbers.end();
        let mut slot_of = vec![None; self.prepared.classified.scoreable.len()];
        for (slot, position) in positions.iter().enumerate() {
            slot_of[self.prepared.sorted[*position] as usize] = Some(slot);
        }
        let mut swept = Swept {
            selected: vec![TargetRanges::default(); positions.len()],
            succeeds: TargetRanges::default(),
            end: (*numbers.start()).max(self.smallest()).into(),
        };
        let mut window = Self::FIRST_WINDOW.max(i64::try_from(swept.end).unwrap_or(last) / 16);
        let mut slicer_sweeps = self.pipeline.layout().is_none() && !positions.is_empty();
        while let Ok(number) = i64::try_from(swept.end)
            && number <= last
            && !(is_first_enough && swept.first().is_some())
        {
            if slicer_sweeps {
                let numbers = number..=last.min(number.saturating_add(window - 1));
                match self.sweep_slicer(&numbers, positions, search) {
                    Some(Ok(ranges)) => {
                        for (selected, ranges) in swept.selected.iter_mut().zip(ranges) {
                            ranges.into_iter().for_each(|range| selected.push(range));
                        }
                        swept.end = i128::from(*numbers.end()) + 1;
                        swept.succeeds.push(numbers);
                        window = window.saturating_mul(2);
                    }
                    Some(Err(Error::Stopped | Error::SearchTooLong)) => break,
                    _ => slicer_sweeps = false,
                }
                continue;
            }
            let (selected, steps) = self.decide(number);
            if !search.spend(steps).unwrap_or(false) {
                break;
            }
            let stretch = number..=self.last_alike(number, last, &selected);
            swept.end = i128::from(*stretch.end()) + 1;
            if let Ok((units, _)) = selected {
                for slot in units.iter().filter_map(|unit| slot_of[*unit as usize]) {
                    swept.selected[slot].push(stretch.clone());
                }
                swept.succeeds.push(stretch);
            }
        }
        swept
    }

    /// At which of the numbers the slicer takes each candidate, if it knows without slicing.
    fn sweep_slicer(
        &self,
        numbers: &RangeInclusive<i64>,
        positions: &[usize],
        search: &mut Search<'_>,
    ) -> Option<Result<Vec<Vec<RangeInclusive<i64>>>, Error>> {
        let (first, last) = (*numbers.start(), *numbers.end());
        let targets = self.target(first)..=self.target(last);
        // Without a margin, a token more is a token more to spend, unless pinned items and slots need it.
        let is_shifted = self.base.estimation_safety_margin_percent() == 0.0
            && targets.end() - targets.start() == last - first;
        let shift = first - targets.start();
        let numbers_for = |range: &RangeInclusive<i64>| {
            if is_shifted {
                return Some(range.start() + shift..=range.end() + shift);
            }
            let first = self.first_with(*range.start(), first..=last)?;
            let above = range.end().checked_add(1);
            let above = above.and_then(|above| self.first_with(above, first..=last));
            let last = above.map_or(last, |above| above - 1);
            (first <= last).then_some(first..=last)
        };
        let asked = SweepRequest { offers: &self.prepared.offers, targets, positions };
        let swept = self.pipeline.slicer().sweep(&asked, search);
        let map = |ranges: &TargetRanges| ranges.ranges().iter().filter_map(numbers_for).collect();
        swept.map(|swept| swept.map(|swept| swept.iter().map(map).collect()))
    }

    /// The largest number up to `last` at which a decision still holds.
    fn last_alike(
        &self,
        number: i64,
        last: i64,
        decided: &Result<(Vec<u32>, Certificate), Error>,
    ) -> i64 {
        let properties = self.pipeline.slicer().properties();
        let certificate = match decided {
            // Overflow has a say, too.
            _ if properties.guarantees_counts => return number,
            Ok((_, certificate)) => *certificate,
            Err(Error::RequiredTextOverBudget { fixed_tokens, .. }) => {
                Certificate::fits_from(*fixed_tokens)
            }
            // Other errors do not say at which budget a run stops failing.
            Err(_) => return number,
        };
        // Shares may be measured by what there was before slots and a margin were taken off, which can grow faster.
        let taken_off = |number: i64| {
            let budget = self.effective(number);
            budget.whole_tokens - budget.target_tokens
        };
        let holds = |number_above: i64| {
            let (window, target) = self.sizes(number_above);
            let input = window - self.base.output_reserve();
            let limit = match self.pipeline.overflow_strategy() {
                OverflowStrategy::Proceed => input,
                _ => target.min(input),
            };
            self.committed.saturating_add(self.target(number_above)) < certificate.fill_tokens
                && limit < certificate.limit_tokens
                && (!properties.splits_budget_by_kind
                    || taken_off(number_above) == taken_off(number))
        };
        let (mut low, mut high) = (number, last);
        while low < high {
            let middle = high - (high - low) / 2;
            if holds(middle) { low = middle } else { high = middle - 1 }
        }
        low
    }

    /// The first of these numbers that selects the candidate, or makes a run succeed, and whether that is proven. Where
    /// steps run out, or nothing is found, goes on by doubling and halving up to `farthest`. Returns the first number
    /// that was not tried, too.
    pub(crate) fn first(
        &self,
        position: Option<usize>,
        numbers: RangeInclusive<i64>,
        farthest: i64,
        search: &mut Search<'_>,
    ) -> (Option<(i64, bool)>, i128) {
        let positions: Vec<usize> = position.into_iter().collect();
        let swept = self.sweep(numbers, &positions, true, search);
        let found = swept.first().map(|number| (number, true)).or_else(|| {
            let from = i64::try_from(swept.end).ok().filter(|from| *from <= farthest)?;
            let found = self.gallop(position, from, farthest, search);
            found.map(|number| (number, false))
        });
        (found, swept.end)
    }

    /// A number from `low` to `farthest` that selects the candidate, found by doubling and then by halving. With one less
    /// it is not selected, unless the search is stopped.
    fn gallop(
        &self,
        position: Option<usize>,
        mut low: i64,
        farthest: i64,
        search: &mut Search<'_>,
    ) -> Option<i64> {
        let (mut high, mut step) = (low, 1_i64);
        while !self.is_in(position, high, search).ok()? {
            if high == farthest {
                return None;
            }
            low = high + 1;
            high = farthest.min(high.saturating_add(step));
            step = step.saturating_mul(2);
        }
        while low < high {
            let middle = low + (high - low) / 2;
            match self.is_in(position, middle, search) {
                Ok(true) => high = middle,
                Ok(false) => low = middle + 1,
                Err(_) => break,
            }
        }
        Some(high)
    }
}

impl PreparedRun<'_> {
    /// The position of an item's unit among the candidates. Pinned items, invalid ones and duplicates have none.
    pub(crate) fn position_of(&self, index: u32) -> Option<usize> {
        let unit = self.classified.scoreable.unit_of(index)?;
        self.sorted.iter().position(|other| *other == unit)
    }

    pub(crate) fn is_pinned(&self, index: u32) -> bool {
        self.classified.pinned.in_pool_order().binary_search(&index).is_ok()
    }
}
