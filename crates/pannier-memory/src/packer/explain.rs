//! Explains why entries are in or out of a packet, and at which budgets that changes.
//!
//! The budget determines the tasks, and their keywords score the decisions, so inclusion is not monotonic in the budget.
//! Pannier therefore builds a packet at every budget where that is cheap, and bisects otherwise.

use pannier_core::item::Exactness;
use pannier_core::whatif::{BudgetThreshold, Search};
use pannier_core::{ContextItem, Error, Explanation};

use super::{PacketBuilder, whole_entries};
use crate::MemoryError;

impl PacketBuilder<'_> {
    /// Explains entries of the [pool](Self::pool), given by their positions.
    ///
    /// The reported budgets are budgets of the packet, keywords of the then selected tasks included. If the search is stopped; the
    /// search, explanations are not complete, and their budgets are unknown.
    ///
    /// # Errors
    ///
    /// As [`packet`](Self::packet), and if a position is out of range.
    pub fn explain(
        &self,
        indices: &[usize],
        search: &mut Search<'_>,
    ) -> Result<Vec<Explanation<&ContextItem>>, MemoryError> {
        let packet = self.select(self.effective_budget())?;
        let prepared = packet.pipeline.prepare(&*self.pool)?;
        let mut explanations = prepared.explain(&packet.budget, indices, search)?;
        for explanation in &mut explanations {
            let budgets = match self.budgets_for(explanation.index, search) {
                Err(MemoryError::Engine(Error::Stopped)) => {
                    explanation.is_complete = false;
                    (None, None)
                }
                budgets => budgets?,
            };
            (explanation.smallest_budget, explanation.smaller_budget) = budgets;
        }
        Ok(explanations)
    }

    /// Returns whether the packet contains the whole entry.
    fn is_whole(&self, index: usize) -> Result<bool, MemoryError> {
        let packet = self.select(self.effective_budget())?;
        Ok(whole_entries(&packet.selection).any(|other| other == index))
    }

    /// Returns the smallest budget whose packet contains the whole entry. For an entry that is not whole now: the smallest
    /// larger budget, and the smallest budget of all if that is below the current one.
    fn budgets_for(
        &self,
        index: usize,
        search: &mut Search<'_>,
    ) -> Result<(Option<BudgetThreshold>, Option<BudgetThreshold>), MemoryError> {
        let mut is_in = |budget: usize| {
            search.spend(0)?;
            self.with_budget(budget).is_whole(index)
        };
        let current = self.options.budget;
        // A smaller budget has fewer digits, and the packet prints it.
        let lowest = self.min_tokens().saturating_sub(8);
        if is_in(current)? {
            return Ok((self.first_budget(lowest, current, &mut is_in)?, None));
        }
        // A budget for all entries includes each of them, unless they exceed the character limit.
        let highest = self.whole_tokens().max(current).saturating_add(32);
        let above = match is_in(highest)? {
            true => self.first_budget(current.saturating_add(1), highest, &mut is_in)?,
            false => None,
        };
        let below = match self.can_try_all(current.saturating_sub(lowest)) && current > lowest {
            true => self.first_budget(lowest, current - 1, is_in)?,
            false => None,
        };
        Ok((above, below))
    }

    /// Returns the first budget in `low..=high` for which `holds`: by trying each if that is cheap, or else by bisection,
    /// which requires that it holds for `high`.
    fn first_budget(
        &self,
        mut low: usize,
        mut high: usize,
        mut holds: impl FnMut(usize) -> Result<bool, MemoryError>,
    ) -> Result<Option<BudgetThreshold>, MemoryError> {
        let is_proven = self.can_try_all(high.saturating_sub(low));
        let threshold = |tokens: usize| {
            let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
            Some(BudgetThreshold::new(tokens, tokens, is_proven))
        };
        if is_proven {
            for budget in low..=high {
                if holds(budget)? {
                    return Ok(threshold(budget));
                }
            }
            return Ok(None);
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if holds(middle)? { high = middle } else { low = middle + 1 }
        }
        Ok(threshold(high))
    }

    /// Returns whether building this many packets is cheap enough for one explanation.
    fn can_try_all(&self, packets: usize) -> bool {
        let bytes: usize = self.pool.iter().map(|item| item.content().len()).sum();
        // A character limit means a bisection for each packet, and exact counters are slower than estimates.
        let cost = if self.options.max_characters.is_some() { 16 } else { 1 };
        let cost = cost * if self.counter.exactness() == Exactness::Estimate { 1 } else { 32 };
        bytes.saturating_mul(cost).saturating_mul(packets) <= 1 << 28
    }
}
