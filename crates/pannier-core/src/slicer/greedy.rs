//! Fills the budget in an order, each candidate if it still fits.

use std::ops::RangeInclusive;

use super::{Offers, Slicer, SlicerProperties, Tally, TargetRanges};
use crate::{Error, Level, MAX_SWEEP_RANGES, Search, order};

/// Takes candidates by value per token, each one if it still fits.
///
/// Fast, and close to optimal when items are small against the budget. Candidates
/// of zero tokens come first and are always taken; equal densities go by position.
#[derive(Clone, Copy, Debug, Default)]
pub struct GreedySlice;

/// How many candidates are sorted at first; then four times as many, and so on.
const MIN_SORTED: usize = 1024;

impl Slicer for GreedySlice {
    fn slice(&self, tally: &mut Tally<'_, '_>) -> Result<(), Error> {
        if tally.budget().target_tokens <= 0 {
            return Ok(());
        }
        let mut keys: Vec<u128> = density_keys(tally.offers()).collect();
        // Once the remaining budget is below every cost, the order does not matter: usually only a part must be sorted.
        let costs = tally.candidates().iter().map(|candidate| candidate.tokens);
        let min_tokens = costs.min().unwrap_or_default();
        let mut is_decided = vec![false; keys.len()];
        let (mut rest, mut count) = (&mut keys[..], MIN_SORTED);
        while !rest.is_empty() && tally.remaining() >= min_tokens {
            count = count.min(rest.len());
            if count < rest.len() {
                rest.select_nth_unstable(count);
            }
            let (next, others) = rest.split_at_mut(count);
            next.sort_unstable();
            for position in next.iter().map(|key| order::second(*key) as usize) {
                tally.take(position, Level::WHOLE);
                is_decided[position] = true;
            }
            (rest, count) = (others, count * 4);
        }
        if !rest.is_empty() {
            for (position, _) in is_decided.iter().enumerate().filter(|(_, decided)| !**decided) {
                tally.take(position, Level::WHOLE);
            }
        }
        Ok(())
    }

    fn properties(&self) -> SlicerProperties {
        SlicerProperties::SCORE_ORDERED
    }

    fn sweep(
        &self,
        offers: &Offers<'_>,
        targets: RangeInclusive<i64>,
        positions: &[usize],
        search: &mut Search<'_>,
    ) -> Option<Result<Vec<TargetRanges>, Error>> {
        offers.is_plain().then(|| sweep(offers, by_density(offers), targets, positions, search))
    }
}

/// Returns the positions by value per token, ties by position. Candidates that cost nothing come first.
fn by_density(offers: &Offers<'_>) -> Vec<u32> {
    let mut keys = density_keys(offers).collect();
    order::sort(&mut keys);
    keys.into_iter().map(order::second).collect()
}

fn density_keys(offers: &Offers<'_>) -> impl Iterator<Item = u128> {
    offers.candidates().iter().zip(0..).map(|(candidate, position)| {
        let density = match candidate.tokens {
            0 => f64::MAX,
            tokens => candidate.value / tokens as f64,
        };
        order::key(density, 0, position)
    })
}

/// At which targets a fill in this order takes each of the candidates at `positions`.
///
/// Carries ranges of targets that have led to the same decisions so far. A candidate splits a range
/// where it begins to fit what is left.
pub(super) fn sweep(
    offers: &Offers<'_>,
    order: impl IntoIterator<Item = u32>,
    targets: RangeInclusive<i64>,
    positions: &[usize],
    search: &mut Search<'_>,
) -> Result<Vec<TargetRanges>, Error> {
    let mut taken = vec![TargetRanges::default(); positions.len()];
    let (first, last) = ((*targets.start()).max(1), *targets.end());
    if first > last {
        return Ok(taken);
    }
    let mut requested: Vec<(usize, usize)> =
        positions.iter().enumerate().map(|(slot, position)| (*position, slot)).collect();
    requested.sort_unstable();
    let (mut intervals, mut next) = (vec![TargetInterval { first, last, used: 0 }], Vec::new());
    let (mut ranges, mut open) = (0, positions.len());
    for position in order {
        let position = position as usize;
        let tokens = offers.candidates()[position].tokens;
        if tokens < 0 {
            continue;
        }
        if !search.spend(intervals.len() as u64)? {
            return Err(Error::SearchTooLong);
        }
        let from = requested.partition_point(|(other, _)| *other < position);
        let slots = requested[from..].iter().take_while(|(other, _)| *other == position);
        for interval in intervals.drain(..) {
            let fits_from = interval.used.saturating_add(tokens).max(interval.first);
            if fits_from > interval.first {
                let last = interval.last.min(fits_from - 1);
                push(&mut next, TargetInterval { last, ..interval });
            }
            if fits_from <= interval.last {
                let used = interval.used.saturating_add(tokens);
                push(&mut next, TargetInterval { first: fits_from, last: interval.last, used });
                for (_, slot) in slots.clone() {
                    taken[*slot].push(fits_from..=interval.last);
                }
            }
        }
        std::mem::swap(&mut intervals, &mut next);
        let answered = slots.count();
        open -= answered;
        if open == 0 {
            break;
        }
        ranges += answered * intervals.len();
        if intervals.len().max(ranges) > MAX_SWEEP_RANGES {
            return Err(Error::SweepTooLarge { ranges: intervals.len().max(ranges) });
        }
    }
    Ok(taken)
}

/// Targets that have led to the same decisions, and what those spent.
#[derive(Clone, Copy)]
struct TargetInterval {
    first: i64,
    last: i64,
    used: i64,
}

/// Neighbors that have spent the same will decide the same from here on.
fn push(intervals: &mut Vec<TargetInterval>, interval: TargetInterval) {
    match intervals.last_mut() {
        Some(previous) if previous.used == interval.used => previous.last = interval.last,
        _ => intervals.push(interval),
    }
}
