//! Scores by rank: the share of comparable peers that an item beats.
//!
//! The score of an item is how many others are strictly below it, over how many others there are.
//! One sort gives every rank; items without the field score 0 and do not take part, and a field
//! that only one item has scores 1.

use super::{Pool, Scorer};
use crate::{Error, Timestamp, order};

/// Newer is better: an item's rank among the timestamps of the pool, from 0 for the oldest to 1 for the
/// newest. Items without a timestamp score 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecencyScorer;

impl Scorer for RecencyScorer {
    fn name(&self) -> &str {
        "recency"
    }

    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
        let times = pool.items().iter().map(|item| item.timestamp());
        if !score_ranks(times.clone().map(|time| time.map(|time| time.unix_nanoseconds())), scores)
        {
            score_far_ranks(times, scores);
        }
        Ok(())
    }
}

/// More important is better: an item's rank among the priorities of the pool, from 0 for the lowest to
/// 1 for the highest. Items without a priority score 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct PriorityScorer;

impl Scorer for PriorityScorer {
    fn name(&self) -> &str {
        "priority"
    }

    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
        score_ranks(pool.items().iter().map(|item| item.priority()), scores);
        Ok(())
    }
}

/// Scores numbers by rank, with one radix sort. Returns whether all of them fit 64 bits; nothing is scored otherwise.
fn score_ranks<N: TryInto<i64>>(
    numbers: impl Iterator<Item = Option<N>>,
    scores: &mut [f64],
) -> bool {
    scores.fill(0.0);
    let mut keys: Vec<u128> = Vec::with_capacity(scores.len());
    for (number, position) in numbers.zip(0_u32..) {
        let Some(number) = number else { continue };
        let Ok(number) = number.try_into() else { return false };
        // The flipped sign bit puts negative numbers below the others.
        keys.push(u128::from(number as u64 ^ 1 << 63) << 64 | u128::from(position));
    }
    order::sort(&mut keys);
    score_sorted(&keys, |key| (key >> 64) as u64, |key| key as u32, scores);
    true
}

/// Scores timestamps of any year by rank. Nanoseconds before 1677 and after 2262 do not fit 64 bits.
fn score_far_ranks(times: impl Iterator<Item = Option<Timestamp>>, scores: &mut [f64]) {
    let mut keys: Vec<(Timestamp, u32)> =
        times.zip(0..).filter_map(|(time, position)| Some((time?, position))).collect();
    keys.sort_unstable();
    score_sorted(&keys, |key| key.0, |key| key.1, scores);
}

/// Gives each position of sorted keys the share of the others that are below it.
fn score_sorted<K: Copy, N: PartialEq>(
    keys: &[K],
    number: impl Fn(K) -> N,
    position: impl Fn(K) -> u32,
    scores: &mut [f64],
) {
    if let [only] = *keys {
        scores[position(only) as usize] = 1.0;
        return;
    }
    let others = keys.len().saturating_sub(1) as f64;
    let mut below = 0;
    for equals in keys.chunk_by(|a, b| number(*a) == number(*b)) {
        let score = below as f64 / others;
        for key in equals {
            scores[position(*key) as usize] = score;
        }
        below += equals.len();
    }
}
