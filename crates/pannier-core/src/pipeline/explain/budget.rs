//! The same run with other budgets.
//!
//! Only slicing and what follows it depend on the budget, so that is what is done again.

use super::super::{Counts, Pipeline, RunState};
use super::BudgetThreshold;
use crate::whatif::{Budgets, VariedLimit};
use crate::{Error, Level, Search, sum_tokens};

/// The same run with other budgets.
///
/// A budget has two sizes, and a search has one number. If the target is what limits the run, the target is
/// varied, and the window grows only where it must. Otherwise the window is varied, and the target keeps its
/// distance from it.
pub(super) struct BudgetCounterfactual<'r, 'a> {
    budgets: Budgets<'r, 'a>,
    run: &'r RunState<'a>,
    /// The position of the item's unit among the candidates; `None` if it is pinned.
    position: Option<usize>,
    /// The number of the budget of the run.
    current: i64,
    /// The smallest number that is tried. A window must hold the item; a target need not, if overflow is accepted.
    smallest: i64,
}

impl<'r, 'a> BudgetCounterfactual<'r, 'a> {
    /// The largest budget that is tried; above it, sums might not fit.
    const MAX_TOKENS: i64 = i64::MAX / 4;

    /// `None` if the item does not compete: then no budget helps.
    pub(super) fn new(
        pipeline: &'r Pipeline,
        run: &'r RunState<'a>,
        index: u32,
        counts: Counts,
    ) -> Option<Self> {
        let position = run.prepared.position_of(index);
        if position.is_none() && !run.prepared.is_pinned(index) {
            return None;
        }
        let (window, target) = (run.budget.max_tokens(), run.budget.target_tokens());
        let (varied, current) = match target < run.budget.input_tokens() {
            true => (VariedLimit::Target, target),
            false => (VariedLimit::Window, window),
        };
        let budgets = Budgets::new(pipeline, &run.prepared, &run.budget, varied, counts);
        let mut smallest = budgets.smallest();
        if position.is_some() && varied == VariedLimit::Window {
            let item = run.prepared.items[index as usize];
            let form = if counts == Counts::Whole { Level::WHOLE } else { item.last_level() };
            smallest = smallest.max(item.at(form).tokens());
        }
        Some(Self { budgets, run, position, current, smallest })
    }

    /// The smallest budget with which the item is selected, if it is selected now. Otherwise the smallest above the
    /// current one, and the smallest below it, if there is one.
    pub(super) fn thresholds(
        &self,
        search: &mut Search<'_>,
    ) -> Result<(Option<BudgetThreshold>, Option<BudgetThreshold>), Error> {
        let (current, smallest) = (self.current, self.smallest);
        if self.position.is_none() || self.budgets.is_in(self.position, current, search)? {
            let (found, _) = self.budgets.first(self.position, smallest..=current, current, search);
            search.spend(0)?;
            return Ok((Some(self.threshold(found.unwrap_or((current, true)))), None));
        }
        let above = self.above(&mut search.part(2));
        search.spend(0)?;
        let range = smallest..=current.saturating_sub(1);
        let (below, _) = self.budgets.first(self.position, range, i64::MIN, search);
        search.spend(0)?;
        Ok((above, below.map(|found| self.threshold(found))))
    }

    /// Returns the smallest budget above the current one that selects the item.
    ///
    /// With a budget for everything, most slicers take everything. Those that round up or use shares may need more, or
    /// never take all. So the search tries every budget up to a bound, and doubles from there.
    fn above(&self, search: &mut Search<'_>) -> Option<BudgetThreshold> {
        let current = self.current;
        if self.budgets.target(Self::MAX_TOKENS) <= self.budgets.target(current) {
            return None;
        }
        let candidates = self.run.prepared.offers.candidates();
        let all = sum_tokens(candidates.iter().map(|candidate| candidate.tokens));
        let everything = self.budgets.first_with(all, current..=Self::MAX_TOKENS.max(current));
        let everything = everything.unwrap_or(Self::MAX_TOKENS).max(current);
        let near = everything.saturating_mul(4).saturating_add(1_024).min(Self::MAX_TOKENS);
        let far = everything.saturating_mul(1 << 20).clamp(near, Self::MAX_TOKENS);
        let (found, _) =
            self.budgets.first(self.position, current.saturating_add(1)..=near, far, search);
        found.map(|found| self.threshold(found))
    }

    fn threshold(&self, (tokens, is_proven): (i64, bool)) -> BudgetThreshold {
        let (max_tokens, target_tokens) = self.budgets.sizes(tokens);
        BudgetThreshold { max_tokens, target_tokens, is_proven }
    }
}
