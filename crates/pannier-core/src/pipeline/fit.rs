//! The end of stage 6: what is placed is rendered, and what makes it too much, or cannot be sent, goes.

use super::place::Merge;
use crate::render::Placed;
use crate::{ContextBudget, Error, OverflowStrategy, Rendering};

/// What left a selection when it was rendered.
#[derive(Debug, Default)]
pub(crate) struct RenderedOut {
    /// Units that left because the whole was over its target, highest rank first.
    pub(crate) over: Vec<u32>,
    /// What the whole cost with them.
    pub(crate) rendered_tokens: i64,
    /// What it may cost.
    pub(crate) target_tokens: i64,
    /// Units that cannot be sent before all others, and would be, with the rule.
    pub(crate) refused: Vec<(u32, String)>,
}

/// A placed selection, and how it is sent.
pub(crate) struct Fitting<'f> {
    merge: &'f Merge<'f>,
    placed: &'f [u32],
    rendering: &'f dyn Rendering,
    /// The rank of each pool item's unit among the units that may go. Pinned items have none.
    ranks: Vec<Option<u32>>,
}

/// What is left of a selection.
pub(crate) struct Left {
    /// Pool indices, in placed order.
    pub(crate) placed: Vec<u32>,
    /// The units that cannot be first, with the rule.
    refused: Vec<(u32, String)>,
}

impl<'f> Fitting<'f> {
    pub(crate) fn new(
        merge: &'f Merge<'f>,
        placed: &'f [u32],
        rendering: &'f dyn Rendering,
    ) -> Self {
        let mut ranks = vec![None; merge.items.len()];
        for (unit, rank) in merge.sliced.iter().zip(0..) {
            for member in merge.scoreable.members(*unit) {
                ranks[*member as usize] = Some(rank);
            }
        }
        Self { merge, placed, rendering, ranks }
    }

    /// What the whole may cost: the target, or the window where overflow is accepted.
    pub(crate) fn limit(budget: &ContextBudget, strategy: OverflowStrategy) -> i64 {
        match strategy {
            OverflowStrategy::Proceed => budget.input_tokens(),
            _ => budget.target_tokens().min(budget.input_tokens()),
        }
    }

    /// How many units may go.
    pub(crate) fn units(&self) -> usize {
        self.merge.sliced.len()
    }

    /// What is left when so many of the lowest rank are gone, and with them what cannot be first then.
    pub(crate) fn without(&self, dropped: usize) -> Left {
        let kept = self.units() - dropped;
        let mut gone = vec![false; kept];
        let mut refused = Vec::new();
        for index in self.placed {
            let index = *index as usize;
            let rank = self.ranks[index].map(|rank| rank as usize);
            if rank.is_some_and(|rank| rank >= kept || gone[rank]) {
                continue;
            }
            let Some(rule) = self.rendering.refuses_first(index, &self.merge.items[index]) else {
                break;
            };
            // A pinned item is sent, whatever the rules.
            if let Some(rank) = rank {
                gone[rank] = true;
                refused.push((self.merge.sliced[rank], rule.to_owned()));
            }
        }
        let stays = |index: &u32| {
            let rank = self.ranks[*index as usize];
            rank.is_none_or(|rank| gone.get(rank as usize) == Some(&false))
        };
        Left { placed: self.placed.iter().copied().filter(stays).collect(), refused }
    }

    fn of<'l>(&'l self, left: &'l Left) -> Placed<'l> {
        Placed::new(self.merge.items, &left.placed, &self.merge.forms)
    }

    /// What the whole costs without so many of the lowest rank.
    pub(crate) fn total(&self, dropped: usize) -> i64 {
        self.rendering.cost(&self.of(&self.without(dropped))).total()
    }

    /// Leaves out as few of the lowest rank as possible, so that the whole costs no more than the budget has for it.
    pub(crate) fn fit(
        &self,
        budget: &ContextBudget,
        strategy: OverflowStrategy,
    ) -> Result<(Left, RenderedOut), Error> {
        let (units, target_tokens) = (self.units(), Self::limit(budget, strategy));
        let dropped = fewest(units, |dropped| {
            self.rendering.fits(&self.of(&self.without(dropped)), target_tokens)
        });
        let dropped = dropped.ok_or_else(|| Error::FixedOverBudget {
            fixed_tokens: self.total(units),
            target_tokens,
        })?;
        let mut left = self.without(dropped);
        let out = RenderedOut {
            over: self.merge.sliced[units - dropped..].to_vec(),
            rendered_tokens: if dropped > 0 { self.total(0) } else { 0 },
            target_tokens,
            refused: std::mem::take(&mut left.refused),
        };
        Ok((left, out))
    }
}

/// How few must go until the rest fits, if it ever does: found by leaps and then by halves, so that few are
/// tried. What is returned was tried.
pub(crate) fn fewest(most: usize, mut fits: impl FnMut(usize) -> bool) -> Option<usize> {
    if fits(0) {
        return Some(0);
    }
    let (mut over, mut step) = (0, 1);
    let mut enough = loop {
        if over == most {
            return None;
        }
        let dropped = (over + step).min(most);
        if fits(dropped) {
            break dropped;
        }
        over = dropped;
        step *= 2;
    };
    while enough - over > 1 {
        let middle = over + (enough - over) / 2;
        if fits(middle) { enough = middle } else { over = middle }
    }
    Some(enough)
}
