//! Stage 6: merges pinned and sliced items, handles overflow, and orders what stays.

use super::close::Contest;
use crate::model::Levels;
use crate::{ContextBudget, Error, OverflowStrategy, Placer, Placing, sum_tokens};

/// Pinned units and selected units.
pub(crate) struct MergedUnits<'m, 'a> {
    pub(crate) contest: &'m Contest<'m, 'a>,
    /// Selected units, highest score first.
    pub(crate) sliced: Vec<u32>,
    /// The same units and those that were dropped since, in the order in which the slicer took them.
    pub(crate) taken: Vec<u32>,
    /// The forms in which items are sent.
    pub(crate) levels: Levels,
}

/// A unit that was selected and then did not fit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TruncatedUnit {
    pub(crate) unit: u32,
    pub(crate) available_tokens: i64,
}

/// The result of overflow handling.
#[derive(Debug, Default)]
pub(crate) struct Overflow {
    /// Units that were dropped, highest score first.
    pub(crate) truncated: Vec<TruncatedUnit>,
    /// How far over the target the selection is allowed to be.
    pub(crate) tokens_over_budget: Option<i64>,
    /// Everything that overflowed, before it was placed.
    pub(crate) merged: Vec<u32>,
}

impl MergedUnits<'_, '_> {
    fn tokens(&self) -> i64 {
        let sliced = self.sliced.iter().map(|unit| self.unit_tokens(*unit));
        sum_tokens(sliced.chain([self.contest.prepared.classified.pinned_tokens]))
    }

    /// Counts the tokens of a unit in its form.
    fn unit_tokens(&self, unit: u32) -> i64 {
        let (items, scoreable) = (&self.contest.prepared.items, self.contest.scoreable());
        if self.levels.all_whole() {
            return scoreable.tokens(unit);
        }
        let members = scoreable.members(unit).iter();
        sum_tokens(members.map(|index| self.levels.sent(items, *index).item().tokens()))
    }

    /// Applies the strategy if the units exceed the target.
    ///
    /// # Errors
    ///
    /// If the strategy is to throw, or the rest exceeds the window.
    pub(super) fn handle_overflow(
        &mut self,
        budget: &ContextBudget,
        strategy: OverflowStrategy,
    ) -> Result<Overflow, Error> {
        let mut overflow = Overflow::default();
        let (selected_tokens, target_tokens) = (self.tokens(), budget.target_tokens());
        if selected_tokens > target_tokens {
            match strategy {
                OverflowStrategy::Throw => {
                    return Err(Error::OverTarget { selected_tokens, target_tokens });
                }
                OverflowStrategy::Truncate => overflow.truncated = self.truncate(target_tokens),
                OverflowStrategy::Proceed => {
                    overflow.tokens_over_budget = Some(selected_tokens - target_tokens);
                    overflow.merged = self.indices();
                }
            }
        }
        let is_truncated = !overflow.truncated.is_empty();
        let selected_tokens = if is_truncated { self.tokens() } else { selected_tokens };
        let input_tokens = budget.input_tokens();
        if selected_tokens > input_tokens {
            return Err(Error::OverWindow { selected_tokens, input_tokens });
        }
        Ok(overflow)
    }

    /// Keeps pinned and kept units, and of the others those that fit the target, highest score first.
    fn truncate(&mut self, target_tokens: i64) -> Vec<TruncatedUnit> {
        let is_kept = self.contest.kept_units();
        let mut kept_tokens = self.contest.prepared.classified.pinned_tokens;
        for unit in self.sliced.iter().filter(|unit| is_kept[**unit as usize]) {
            kept_tokens = kept_tokens.saturating_add(self.unit_tokens(*unit));
        }
        let mut truncated = Vec::new();
        let mut sliced = std::mem::take(&mut self.sliced);
        sliced.retain(|&unit| {
            if is_kept[unit as usize] {
                return true;
            }
            let tokens = self.unit_tokens(unit);
            let available_tokens = (target_tokens - kept_tokens).max(0);
            // In terms of the whole target: with pins above it, not even a free unit fits.
            let fits = kept_tokens.saturating_add(tokens) <= target_tokens;
            if fits {
                kept_tokens += tokens;
            } else {
                truncated.push(TruncatedUnit { unit, available_tokens });
            }
            fits
        });
        self.sliced = sliced;
        truncated
    }

    /// The pool indices of all members: pinned items in pool order, then unit after unit.
    fn indices(&self) -> Vec<u32> {
        let mut indices = self.contest.prepared.classified.pinned.in_pool_order().into_owned();
        let members = |unit: &u32| self.contest.scoreable().members(*unit);
        indices.extend(self.sliced.iter().flat_map(members));
        indices
    }

    /// Orders all members. Members of a group may be kept together, in pool order; the group is then placed by its
    /// best member.
    pub(super) fn place(
        &self,
        placer: &dyn Placer,
        keep_groups_together: bool,
    ) -> Result<Vec<u32>, Error> {
        let (pinned, scoreable) =
            (&self.contest.prepared.classified.pinned, self.contest.scoreable());
        let mut taken_at = vec![0; scoreable.len()];
        for (unit, position) in self.taken.iter().zip(0..) {
            taken_at[*unit as usize] = position;
        }
        let pinned_items = pinned.in_pool_order();
        let mut units: Vec<&[u32]> = Vec::with_capacity(pinned_items.len() + self.sliced.len());
        let mut placings = Vec::with_capacity(pinned_items.len() + self.sliced.len());
        let mut add = |members, best, taken| {
            units.push(members);
            placings.push(self.placing(best, taken));
        };
        if keep_groups_together {
            let members = (0..pinned.len() as u32).map(|unit| pinned.members(unit));
            members.for_each(|members| add(members, members[0], None));
        } else {
            pinned_items.chunks(1).for_each(|item| add(item, item[0], None));
        }
        for &unit in &self.sliced {
            let (members, taken) = (scoreable.members(unit), Some(taken_at[unit as usize]));
            if keep_groups_together {
                add(members, scoreable.best_member(unit, self.contest.scores), taken);
            } else {
                members.chunks(1).for_each(|item| add(item, item[0], taken));
            }
        }
        let order = call_placer(placer, &placings)?;
        let members = order.into_iter().map(|position| units[position as usize]);
        Ok(match keep_groups_together {
            true => members.flatten().copied().collect(),
            false => members.map(|item| item[0]).collect(),
        })
    }

    fn placing(&self, index: u32, taken: Option<u32>) -> Placing<'_> {
        let (run, level) = (self.contest.prepared, self.levels.get(index));
        let index = index as usize;
        let (score, section) = (self.contest.scores[index], run.costs.section(index, level));
        Placing { item: run.items[index], score, level, section, taken }
    }
}

/// The positions of these items in the placer's order, each exactly once.
fn call_placer(placer: &dyn Placer, items: &[Placing<'_>]) -> Result<Vec<u32>, Error> {
    let order = placer.place(items)?;
    let mut missing = vec![true; items.len()];
    for position in &order {
        match missing.get_mut(*position as usize) {
            Some(open @ true) => *open = false,
            _ => {
                let problem = format!("it placed position {position} twice, or there is none");
                return Err(Error::custom("the placer", problem));
            }
        }
    }
    if order.len() != items.len() {
        let problem = format!("it got {} items and placed {}", items.len(), order.len());
        return Err(Error::custom("the placer", problem));
    }
    Ok(order)
}
