//! Why entries are in a packet or out of it, and with which budgets that would change.
//!
//! A budget decides which tasks are in, and these which decisions matter, so what holds with one budget says little about the
//! next. The smallest budgets are therefore found by making packets, all of them where that is no work.

use pannier_core::{ContextItem, Exactness, Explanation, BudgetThreshold};

use super::{Packer, whole};
use crate::MemoryError;

impl Packer<'_> {
    /// Why entries of the [pool](Self::pool) are in or out, and what would change that.
    ///
    /// The smallest budgets are those of whole packets: with another budget, other tasks may be in, and with them other
    /// decisions matter.
    ///
    /// # Errors
    ///
    /// As [`packet`](Self::packet), and if there is no entry at an index.
    pub fn explain(
        &self,
        indices: &[usize],
    ) -> Result<Vec<Explanation<&ContextItem>>, MemoryError> {
        let made = self.make(self.budget()?)?;
        let mut answers = made.pipeline.explain_all(&self.pool, &made.budget, indices)?;
        for answer in &mut answers {
            (answer.smallest_budget, answer.smaller_budget) = self.budgets_for(answer.index)?;
        }
        Ok(answers)
    }

    /// Whether an entry is in the packet, all of it.
    fn is_whole(&self, index: usize) -> Result<bool, MemoryError> {
        Ok(whole(&self.make(self.budget()?)?.selection).any(|other| other == index))
    }

    /// The smallest budget with which an entry is in, all of it. Of one that is not, the smallest above the present one,
    /// and the smallest below, if there is one.
    fn budgets_for(
        &self,
        index: usize,
    ) -> Result<(Option<BudgetThreshold>, Option<BudgetThreshold>), MemoryError> {
        let is_in = |budget: usize| self.asked(budget).is_whole(index);
        let present = self.options.budget;
        // The number of the budget is in the packet, and may be shorter.
        let lowest = self.least_tokens().saturating_sub(8);
        if is_in(present)? {
            return Ok((self.first(lowest, present, is_in)?, None));
        }
        // With room for everything, everything is in; unless it has too many characters.
        let highest = self.whole_tokens().max(present).saturating_add(32);
        let above = match is_in(highest)? {
            true => self.first(present.saturating_add(1), highest, is_in)?,
            false => None,
        };
        let below = match self.can_try_all(present.saturating_sub(lowest)) && present > lowest {
            true => self.first(lowest, present - 1, is_in)?,
            false => None,
        };
        Ok((above, below))
    }

    /// The first of these budgets with which something holds, if it holds with the last; or if all of them can be tried.
    fn first(
        &self,
        mut low: usize,
        mut high: usize,
        holds: impl Fn(usize) -> Result<bool, MemoryError>,
    ) -> Result<Option<BudgetThreshold>, MemoryError> {
        let is_proven = self.can_try_all(high.saturating_sub(low));
        let found = |tokens: usize| {
            let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
            Some(BudgetThreshold::new(tokens, tokens, is_proven))
        };
        if is_proven {
            for budget in low..=high {
                if holds(budget)? {
                    return Ok(found(budget));
                }
            }
            return Ok(None);
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if holds(middle)? { high = middle } else { low = middle + 1 }
        }
        Ok(found(high))
    }

    /// Whether so many packets can be made for one answer.
    fn can_try_all(&self, packets: usize) -> bool {
        let bytes: usize = self.pool.iter().map(|item| item.content().len()).sum();
        // Where characters are limited, a packet is found by halves; and what is no estimate takes longer.
        let tries = if self.options.max_characters.is_some() { 16 } else { 1 };
        let tries = tries * if self.counter.exactness() == Exactness::Estimate { 1 } else { 32 };
        bytes.saturating_mul(tries).saturating_mul(packets) <= 1 << 28
    }
}
