//! Stage 6: merges pinned and sliced items, handles overflow, and orders what stays.

use std::borrow::Cow;

use super::forms::Forms;
use super::units::Units;
use crate::{
    ContextBudget, ContextItem, Error, InputOrder, OverflowStrategy, Placer, ScoredItem, sum_tokens,
};

/// The units that may go into the window.
pub(crate) struct Merge<'m> {
    pub(crate) items: &'m [ContextItem],
    pub(crate) scores: &'m [f64],
    pub(crate) pinned: &'m Units,
    pub(crate) pinned_tokens: i64,
    pub(crate) scoreable: &'m Units,
    /// Selected units of `scoreable`, highest score first, or as they were taken by a slicer that takes tiers.
    pub(crate) sliced: Vec<u32>,
    /// All units that competed, in order of score.
    pub(crate) sorted: &'m [u32],
    /// Positions among those, in the order in which the slicer took them. What was dropped since is still there.
    pub(crate) taken: Vec<u32>,
    /// Which items are sent in their short form.
    pub(crate) forms: Forms,
}

/// A unit that was selected and then did not fit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    pub(crate) unit: u32,
    pub(crate) available_tokens: i64,
}

/// What overflow handling did.
#[derive(Debug, Default)]
pub(crate) struct Overflow {
    /// Units that were dropped, highest score first.
    pub(crate) cut: Vec<Cut>,
    /// How far over the target the selection is allowed to be.
    pub(crate) tokens_over_budget: Option<i64>,
}

impl Merge<'_> {
    fn tokens(&self) -> i64 {
        let sliced = self.sliced.iter().map(|unit| self.unit_tokens(*unit));
        sum_tokens(sliced.chain([self.pinned_tokens]))
    }

    /// What a unit costs, as it is sent.
    fn unit_tokens(&self, unit: u32) -> i64 {
        if self.forms.is_whole() {
            return self.scoreable.tokens(unit, self.items);
        }
        let members = self.scoreable.members(unit).iter();
        sum_tokens(members.map(|index| self.forms.of(self.items, *index).tokens()))
    }

    /// Applies the strategy if the units are over the target, and refuses what the window cannot
    /// hold whatever the strategy.
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
                OverflowStrategy::Truncate => overflow.cut = self.truncate(target_tokens),
                OverflowStrategy::Proceed => {
                    overflow.tokens_over_budget = Some(selected_tokens - target_tokens);
                }
            }
        }
        let selected_tokens = if overflow.cut.is_empty() { selected_tokens } else { self.tokens() };
        let input_tokens = budget.input_tokens();
        if selected_tokens > input_tokens {
            return Err(Error::OverWindow { selected_tokens, input_tokens });
        }
        Ok(overflow)
    }

    /// Keeps pinned units, and of the others what fits the target, highest score first.
    fn truncate(&mut self, target_tokens: i64) -> Vec<Cut> {
        let mut kept_tokens = self.pinned_tokens;
        let mut cut = Vec::new();
        let mut sliced = std::mem::take(&mut self.sliced);
        sliced.retain(|&unit| {
            let tokens = self.unit_tokens(unit);
            let available_tokens = (target_tokens - kept_tokens).max(0);
            // In terms of the whole target: with pins above it, not even a free unit fits.
            let fits = kept_tokens.saturating_add(tokens) <= target_tokens;
            if fits {
                kept_tokens += tokens;
            } else {
                cut.push(Cut { unit, available_tokens });
            }
            fits
        });
        self.sliced = sliced;
        cut
    }

    /// The pool indices of what is left: pinned items in pool order, then unit after unit.
    pub(super) fn indices(&self) -> Vec<u32> {
        self.indices_of(&self.sliced)
    }

    fn indices_of(&self, sliced: &[u32]) -> Vec<u32> {
        let mut indices = self.pinned.in_pool_order().into_owned();
        indices.reserve(sliced.len());
        for unit in sliced {
            indices.extend(self.scoreable.members(*unit));
        }
        indices
    }

    /// The selected units in the order in which a placer wants to see them.
    fn given(&self, placer: &dyn Placer) -> Cow<'_, [u32]> {
        match placer.input_order() {
            InputOrder::Rank => self.sliced.as_slice().into(),
            InputOrder::Taken => {
                let mut stays = vec![false; self.scoreable.len()];
                self.sliced.iter().for_each(|unit| stays[*unit as usize] = true);
                let taken = self.taken.iter().map(|position| self.sorted[*position as usize]);
                taken.filter(|unit| stays[*unit as usize]).collect()
            }
        }
    }

    /// The order of single items.
    pub(super) fn place_items(&self, placer: &dyn Placer) -> Result<Vec<u32>, Error> {
        let indices = self.indices_of(&self.given(placer));
        let order = self.ask(placer, &indices)?;
        Ok(order.into_iter().map(|position| indices[position as usize]).collect())
    }

    /// The order of units, each by its best member, with its members together in pool order.
    pub(super) fn place_units(&self, placer: &dyn Placer) -> Result<Vec<u32>, Error> {
        let pinned = (0..self.pinned.len() as u32).map(|unit| self.pinned.members(unit));
        let given = self.given(placer);
        let sliced = given.iter().map(|unit| self.scoreable.members(*unit));
        let units: Vec<&[u32]> = pinned.chain(sliced).collect();
        let first_sliced = self.pinned.len();
        let leads: Vec<u32> = units
            .iter()
            .enumerate()
            .map(|(i, members)| match i.checked_sub(first_sliced) {
                None => members[0],
                Some(i) => self.scoreable.lead(given[i], self.scores),
            })
            .collect();
        let order = self.ask(placer, &leads)?;
        Ok(order.into_iter().flat_map(|position| units[position as usize]).copied().collect())
    }

    /// The positions of these items in the placer's order, each exactly once.
    fn ask(&self, placer: &dyn Placer, indices: &[u32]) -> Result<Vec<u32>, Error> {
        let scored: Vec<ScoredItem<'_>> = indices
            .iter()
            .map(|index| *index as usize)
            .map(|index| ScoredItem { item: &self.items[index], score: self.scores[index] })
            .collect();
        let order = placer.place(&scored);
        let mut missing = vec![true; scored.len()];
        for position in &order {
            match missing.get_mut(*position as usize) {
                Some(open @ true) => *open = false,
                _ => {
                    return Err(broken(format!(
                        "it placed position {position} more than once, or there is none"
                    )));
                }
            }
        }
        if order.len() != scored.len() {
            let (given, placed) = (scored.len(), order.len());
            return Err(broken(format!("it got {given} items and placed {placed}")));
        }
        Ok(order)
    }
}

fn broken(problem: String) -> Error {
    Error::CustomPart { part: "the placer".to_owned(), problem }
}
