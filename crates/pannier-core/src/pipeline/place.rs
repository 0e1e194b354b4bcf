//! Stage 6: merges pinned and sliced items, handles overflow, and orders what stays.

use super::units::Units;
use crate::layout::PlannedCosts;
use crate::model::Levels;
use crate::{
    ContextBudget, ContextItem, Error, Level, OverflowStrategy, Placer, Placing, sum_tokens,
};

/// The units that may go into the window.
pub(crate) struct MergedUnits<'m> {
    pub(crate) items: &'m [&'m ContextItem],
    pub(crate) scores: &'m [f64],
    pub(crate) costs: &'m PlannedCosts,
    pub(crate) pinned: &'m Units,
    pub(crate) pinned_tokens: i64,
    pub(crate) scoreable: &'m Units,
    /// Selected units of `scoreable`, highest score first.
    pub(crate) sliced: Vec<u32>,
    /// Units in the order of the slicer's moves: some twice, some dropped since.
    pub(crate) taken: Vec<u32>,
    /// In which form items are sent.
    pub(crate) levels: Levels,
}

/// A unit that was selected and then did not fit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TruncatedUnit {
    pub(crate) unit: u32,
    pub(crate) available_tokens: i64,
}

/// What overflow handling did.
#[derive(Debug, Default)]
pub(crate) struct Overflow {
    /// Units that were dropped, highest score first.
    pub(crate) truncated: Vec<TruncatedUnit>,
    /// How far over the target the selection is allowed to be.
    pub(crate) tokens_over_budget: Option<i64>,
    /// Everything that overflowed, before it was placed.
    pub(crate) merged: Vec<u32>,
}

impl MergedUnits<'_> {
    fn tokens(&self) -> i64 {
        let sliced = self.sliced.iter().map(|unit| self.unit_tokens(*unit));
        sum_tokens(sliced.chain([self.pinned_tokens]))
    }

    /// What a unit costs, as it is sent.
    fn unit_tokens(&self, unit: u32) -> i64 {
        if self.levels.all_whole() {
            return self.scoreable.tokens(unit, self.items);
        }
        let members = self.scoreable.members(unit).iter();
        sum_tokens(members.map(|index| self.levels.sent(self.items, *index).tokens()))
    }

    /// Applies the strategy if the units are over the target, and refuses what the window cannot
    /// hold under any strategy.
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

    /// Keeps pinned units, and of the others what fits the target, highest score first.
    fn truncate(&mut self, target_tokens: i64) -> Vec<TruncatedUnit> {
        let mut kept_tokens = self.pinned_tokens;
        let mut truncated = Vec::new();
        let mut sliced = std::mem::take(&mut self.sliced);
        sliced.retain(|&unit| {
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

    /// The pool indices of what is left: pinned items in pool order, then unit after unit.
    pub(super) fn indices(&self) -> Vec<u32> {
        let mut indices = self.pinned.in_pool_order().into_owned();
        indices.reserve(self.sliced.len());
        for unit in &self.sliced {
            indices.extend(self.scoreable.members(*unit));
        }
        indices
    }

    /// The position of each unit in the order in which the slicer took it.
    fn taken_positions(&self) -> Vec<u32> {
        let mut positions = vec![u32::MAX; self.scoreable.len()];
        for (unit, position) in self.taken.iter().zip(0..) {
            let first = &mut positions[*unit as usize];
            *first = (*first).min(position);
        }
        positions
    }

    /// The order of single items.
    pub(super) fn place_items(&self, placer: &dyn Placer) -> Result<Vec<u32>, Error> {
        let taken = self.taken_positions();
        let pinned = self.pinned.in_pool_order();
        let mut placings = Vec::with_capacity(pinned.len() + self.sliced.len());
        let mut indices = Vec::with_capacity(pinned.len() + self.sliced.len());
        for &index in &*pinned {
            indices.push(index);
            placings.push(self.placing(index, None));
        }
        for &unit in &self.sliced {
            for &index in self.scoreable.members(unit) {
                indices.push(index);
                placings.push(self.placing(index, Some(taken[unit as usize])));
            }
        }
        let order = call_placer(placer, &placings)?;
        Ok(order.into_iter().map(|position| indices[position as usize]).collect())
    }

    /// The order of units, each by its best member, with its members together in pool order.
    pub(super) fn place_units(&self, placer: &dyn Placer) -> Result<Vec<u32>, Error> {
        let taken = self.taken_positions();
        let mut units: Vec<&[u32]> = Vec::with_capacity(self.pinned.len() + self.sliced.len());
        let mut placings = Vec::with_capacity(self.pinned.len() + self.sliced.len());
        for unit in 0..self.pinned.len() as u32 {
            let members = self.pinned.members(unit);
            units.push(members);
            placings.push(self.placing(members[0], None));
        }
        for &unit in &self.sliced {
            units.push(self.scoreable.members(unit));
            let best = self.scoreable.best_member(unit, self.scores);
            placings.push(self.placing(best, Some(taken[unit as usize])));
        }
        let order = call_placer(placer, &placings)?;
        Ok(order.into_iter().flat_map(|position| units[position as usize]).copied().collect())
    }

    fn placing(&self, index: u32, taken: Option<u32>) -> Placing<'_> {
        let level = if self.levels.is_whole(index) { Level::WHOLE } else { Level::SHORT };
        let section = self.costs.section(index as usize, level);
        let index = index as usize;
        Placing { item: self.items[index], score: self.scores[index], level, section, taken }
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
