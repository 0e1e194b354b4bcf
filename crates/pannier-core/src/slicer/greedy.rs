//! Fills the budget with what is best, as long as it fits: best per token, or best by score.

use std::ops::RangeInclusive;

use super::sweep::count_targets;
use super::{Candidate, SliceOutcome, Slicer, SlicerProperties, TargetRanges, Verdict};
use crate::{Error, MAX_SWEEP_RANGES, SliceBudget, order};

/// Takes candidates by value per token, each one if it still fits.
///
/// Fast, and close to the best that can be done when items are small against the budget. Candidates
/// of zero tokens come first and are always taken; equal densities go by position.
#[derive(Clone, Copy, Debug, Default)]
pub struct GreedySlice;

/// Takes candidates by score, each one if it still fits.
///
/// The best comes first, whatever it costs: in a conversation, the last tool output is worth its tokens, although ten
/// old greetings would be worth more per token. What does not fit is skipped.
#[derive(Clone, Copy, Debug, Default)]
pub struct RankSlice;

macro_rules! fills_in_order {
    ($slicer:ty, $order:ident) => {
        impl Slicer for $slicer {
            fn slice(
                &self,
                candidates: &[Candidate<'_>],
                budget: SliceBudget,
            ) -> Result<SliceOutcome, Error> {
                Ok(fill(candidates, $order(candidates), budget))
            }

            fn properties(&self) -> SlicerProperties {
                SlicerProperties::BEST_FIRST
            }

            fn sweep_effort(&self, candidates: usize, targets: &RangeInclusive<i64>) -> u64 {
                sweep_effort(candidates, targets).saturating_add(self.effort(candidates, 0))
            }

            fn sweep(
                &self,
                candidates: &[Candidate<'_>],
                targets: RangeInclusive<i64>,
                positions: &[usize],
            ) -> Result<Vec<TargetRanges>, Error> {
                sweep(candidates, $order(candidates), targets, positions)
            }
        }
    };
}

fills_in_order!(GreedySlice, by_density);
fills_in_order!(RankSlice, by_score);

/// Takes what fits, in this order.
fn fill(candidates: &[Candidate<'_>], order: Vec<u32>, budget: SliceBudget) -> SliceOutcome {
    let mut outcome = SliceOutcome::new(candidates.len());
    let mut remaining = budget.target_tokens;
    if remaining <= 0 {
        return outcome;
    }
    for position in order {
        let position = position as usize;
        let tokens = candidates[position].tokens;
        if (0..=remaining).contains(&tokens) {
            outcome.take(position);
            remaining -= tokens;
        } else {
            outcome.leave(position, Verdict::Left { available_tokens: remaining });
        }
    }
    outcome
}

/// Each target is at most one range of its own.
fn sweep_effort(candidates: usize, targets: &RangeInclusive<i64>) -> u64 {
    (candidates as u64).saturating_mul(count_targets(targets))
}

/// Carries ranges of targets that have led to the same decisions so far. A candidate splits a range
/// where it begins to fit what is left.
fn sweep(
    candidates: &[Candidate<'_>],
    order: Vec<u32>,
    targets: RangeInclusive<i64>,
    positions: &[usize],
) -> Result<Vec<TargetRanges>, Error> {
    let mut taken = vec![TargetRanges::default(); positions.len()];
    let (first, last) = ((*targets.start()).max(1), *targets.end());
    if first > last {
        return Ok(taken);
    }
    let mut asked: Vec<(usize, usize)> =
        positions.iter().enumerate().map(|(slot, position)| (*position, slot)).collect();
    asked.sort_unstable();
    let (mut alike, mut next) = (vec![Alike { first, last, used: 0 }], Vec::new());
    let (mut ranges, mut open) = (0, positions.len());
    for position in order {
        let position = position as usize;
        let tokens = candidates[position].tokens;
        if tokens < 0 {
            continue;
        }
        let from = asked.partition_point(|(other, _)| *other < position);
        let slots = asked[from..].iter().take_while(|(other, _)| *other == position);
        for range in alike.drain(..) {
            let fits_from = range.used.saturating_add(tokens).max(range.first);
            if fits_from > range.first {
                push(&mut next, Alike { last: range.last.min(fits_from - 1), ..range });
            }
            if fits_from <= range.last {
                let used = range.used.saturating_add(tokens);
                push(&mut next, Alike { first: fits_from, last: range.last, used });
                for (_, slot) in slots.clone() {
                    taken[*slot].push(fits_from..=range.last);
                }
            }
        }
        std::mem::swap(&mut alike, &mut next);
        let answered = slots.count();
        open -= answered;
        if open == 0 {
            break;
        }
        ranges += answered * alike.len();
        if alike.len().max(ranges) > MAX_SWEEP_RANGES {
            return Err(Error::SweepTooLarge { ranges: alike.len().max(ranges) });
        }
    }
    Ok(taken)
}

/// Positions by value per token, ties by position. What costs nothing comes first.
fn by_density(candidates: &[Candidate<'_>]) -> Vec<u32> {
    order::rank(candidates.iter().map(|candidate| match candidate.tokens {
        0 => f64::MAX,
        tokens => candidate.value / tokens as f64,
    }))
}

/// Positions by score, ties by position. In a pipeline, that is the order they come in.
fn by_score(candidates: &[Candidate<'_>]) -> Vec<u32> {
    order::rank(candidates.iter().map(|candidate| candidate.score))
}

/// Targets that have led to the same decisions, and what those spent.
#[derive(Clone, Copy)]
struct Alike {
    first: i64,
    last: i64,
    used: i64,
}

/// Neighbours that have spent the same will decide the same from here on.
fn push(ranges: &mut Vec<Alike>, range: Alike) {
    match ranges.last_mut() {
        Some(previous) if previous.used == range.used => previous.last = range.last,
        _ => ranges.push(range),
    }
}
