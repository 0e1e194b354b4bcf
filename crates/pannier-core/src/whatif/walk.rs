use std::ops::RangeInclusive;

use super::Search;
use crate::pipeline::{Certificate, Contest};
use crate::{ContextBudget, Error, Pipeline};

/// One contest at many budgets, each given by a number that grows with it.
pub(crate) struct BudgetWalk<'w, 'a> {
    pub(crate) pipeline: &'w Pipeline,
    pub(crate) contest: &'w Contest<'w, 'a>,
    /// The budget for a number, if it is valid.
    pub(crate) budget_at: &'w dyn Fn(i64) -> Option<ContextBudget>,
}

impl BudgetWalk<'_, '_> {
    /// Decides at these numbers in ascending order, and reports stretches of numbers with equal decisions until
    /// `report` returns false. Returns whether there were enough steps.
    pub(crate) fn stretches(
        &self,
        numbers: RangeInclusive<i64>,
        search: &mut Search<'_>,
        mut report: impl FnMut(RangeInclusive<i64>, Result<&[u32], Error>) -> bool,
    ) -> Result<bool, Error> {
        let (mut number, last) = numbers.into_inner();
        while number <= last {
            let Some(budget) = (self.budget_at)(number) else {
                number += 1;
                continue;
            };
            let (selected, steps) = self.pipeline.select_units(self.contest, &budget);
            if !search.spend(steps)? {
                return Ok(false);
            }
            let end = match &selected {
                Ok((_, certificate)) => self.last_alike(number, last, *certificate),
                Err(Error::RequiredTextOverBudget { fixed_tokens, .. }) => {
                    let certificate = Certificate::fits_from(*fixed_tokens);
                    self.last_alike(number, last, certificate)
                }
                // At which budget a run stops failing, other errors do not tell.
                Err(_) => number,
            };
            let selected = selected.as_ref().map(|(units, _)| units.as_slice());
            if !report(number..=end, selected.map_err(Error::clone)) {
                return Ok(true);
            }
            let Some(next) = end.checked_add(1) else {
                break;
            };
            number = next;
        }
        Ok(true)
    }

    /// The largest number up to `last` at which a decision still holds.
    fn last_alike(&self, number: i64, last: i64, certificate: Certificate) -> i64 {
        let committed = self.contest.prepared.committed_tokens();
        let holds = |number: i64| {
            (self.budget_at)(number).is_some_and(|budget| {
                let fill = committed.saturating_add(budget.effective(committed).target_tokens);
                fill < certificate.fill_tokens
                    && self.pipeline.limit(&budget) < certificate.limit_tokens
            })
        };
        if self.pipeline.slicer().properties().guarantees_counts {
            // Overflow has a say, too.
            return number;
        }
        let (mut low, mut high) = (number, last);
        while low < high {
            let middle = high - (high - low) / 2;
            if holds(middle) { low = middle } else { high = middle - 1 }
        }
        low
    }
}
