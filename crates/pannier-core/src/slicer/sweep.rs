//! Decides at all targets of a range at once.
//!
//! A fill takes candidates in a fixed order, each if it fits what is left. The smallest target at which it takes one
//! more is the target that it spends completely. So targets fall into *gaps*: from one such target to the next, the
//! decisions are the same and the remaining tokens grow from 0, by 1. A candidate of `t` tokens splits exactly the gaps
//! that are longer than `t`, and is taken in the second part of each.
//!
//! With the gaps in a heap by length, `n` candidates and `r` gaps take `O((n + r) log r)`, for all candidates together.

use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::RangeInclusive;

use super::Offers;
use crate::{Error, Search};

/// A question about many targets: which of them take these candidates whole.
#[derive(Clone, Debug)]
pub struct SweepRequest<'s, 'a> {
    /// The candidates.
    pub offers: &'s Offers<'a>,
    /// The targets.
    pub targets: RangeInclusive<i64>,
    /// The positions of the candidates that are asked about.
    pub positions: &'s [usize],
}

impl SweepRequest<'_, '_> {
    /// The first and the last target. Nothing is taken for a target of 0.
    pub(super) fn positive_targets(&self) -> (i64, i64) {
        ((*self.targets.start()).max(1), *self.targets.end())
    }
}

/// The targets of each candidate that was asked about, in the same order.
pub type SweepResult = Result<Vec<TargetRanges>, Error>;

/// Targets at which a candidate is taken, as ascending ranges that do not touch each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetRanges(Vec<RangeInclusive<i64>>);

impl TargetRanges {
    /// Returns the ranges.
    pub fn ranges(&self) -> &[RangeInclusive<i64>] {
        &self.0
    }

    /// Adds targets above all that are already there.
    pub fn push(&mut self, targets: RangeInclusive<i64>) {
        match self.0.last_mut() {
            Some(last) if last.end().checked_add(1) == Some(*targets.start()) => {
                *last = *last.start()..=*targets.end();
            }
            _ => self.0.push(targets),
        }
    }
}

/// What a split costs in steps: two moves in the heap and a range.
const STEPS_PER_SPLIT: u64 = 64;

/// At which targets a fill in this order takes each of the candidates at `positions`.
pub(super) fn sweep_fill(
    asked: &SweepRequest<'_, '_>,
    order: impl IntoIterator<Item = u32>,
    search: &mut Search<'_>,
) -> SweepResult {
    let SweepRequest { offers, positions, .. } = *asked;
    let mut taken = vec![TargetRanges::default(); positions.len()];
    let (first, last) = asked.positive_targets();
    if first > last {
        return Ok(taken);
    }
    let mut slot_of = vec![None; offers.candidates().len()];
    positions.iter().enumerate().for_each(|(slot, position)| slot_of[*position] = Some(slot));
    // The gap that the first target is in may have begun below it. It takes a candidate as a whole if that fits there.
    let (mut used, mut end) = (0, last);
    // All others, by their length and their first target.
    let mut gaps: BinaryHeap<(i64, i64)> = BinaryHeap::new();
    let (mut parts, mut ranges) = (Vec::new(), Vec::new());
    let mut unanswered = positions.len();
    for position in order {
        if unanswered == 0 {
            break;
        }
        let tokens = offers.candidates()[position as usize].tokens;
        match tokens {
            0 => ranges.push(first..=last),
            1.. => {
                if tokens <= first - used {
                    used += tokens;
                    ranges.push(first..=end);
                } else if tokens <= end - used {
                    let start = used + tokens;
                    ranges.push(start..=end);
                    parts.push((end - start + 1, start));
                    end = start - 1;
                }
                while let Some(gap) = gaps.peek_mut().filter(|gap| gap.0 > tokens) {
                    let (length, start) = PeekMut::pop(gap);
                    if !search.spend(STEPS_PER_SPLIT)? {
                        return Err(Error::SearchTooLong);
                    }
                    ranges.push(start + tokens..=start + length - 1);
                    parts.extend([(tokens, start), (length - tokens, start + tokens)]);
                }
                gaps.extend(parts.drain(..));
            }
            _ => {}
        }
        if !search.spend(1)? {
            return Err(Error::SearchTooLong);
        }
        if let Some(slot) = slot_of[position as usize] {
            unanswered -= 1;
            ranges.sort_unstable_by_key(|range| *range.start());
            ranges.drain(..).for_each(|range| taken[slot].push(range));
        }
        ranges.clear();
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Candidate, ContextItem, FillSlice, GreedySlice, KnapsackSlice, ScoredItem, SliceBudget,
        Slicer, Tally,
    };

    /// Slicers that sweep in one pass decide about a single target as they slice.
    #[test]
    fn a_range_of_one_target_is_answered() {
        let items = [7, 0, 4, 3, 9].map(|tokens| ContextItem::new("text", tokens).unwrap());
        let scored = items.iter().map(|item| ScoredItem { item, score: 0.5 });
        let offers = Offers::new(scored.map(Candidate::from));
        let slicers: [Box<dyn Slicer>; 3] =
            [Box::new(GreedySlice), Box::new(KnapsackSlice::exact()), Box::<FillSlice>::default()];
        for slicer in slicers {
            for target in 1..=24 {
                let mut tally = Tally::new(&offers, SliceBudget::new(target));
                slicer.slice(&mut tally).unwrap();
                let positions = [0, 1, 2, 3, 4];
                let request = SweepRequest {
                    offers: &offers,
                    targets: target..=target,
                    positions: &positions,
                };
                let swept = slicer.sweep(&request, &mut Search::new(1 << 20)).unwrap().unwrap();
                for (position, ranges) in swept.iter().enumerate() {
                    let is_in = ranges.ranges() == [target..=target];
                    assert_eq!(is_in, tally.level(position).is_some(), "{position} at {target}");
                }
            }
        }
    }
}
