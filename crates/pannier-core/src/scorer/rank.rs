//! Scores by rank: the share of comparable peers that an item beats.
//!
//! The score of an item is how many others are strictly below it, over how many others there are.
//! One sort gives every rank; items without the field score 0 and do not take part, and a field
//! that only one item has scores 1.

use super::{Pool, Scorer};
use crate::{Error, order};

/// Newer is better: an item's rank among the timestamps of the pool, from 0 for the oldest to 1 for the
/// newest. Items without a timestamp score 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecencyScorer;

impl Scorer for RecencyScorer {
    fn name(&self) -> &str {
        "recency"
    }

    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
        let items = pool.items().iter();
        let nanoseconds = items.map(|item| item.timestamp().map(|time| time.unix_nanoseconds()));
        // Between 1677 and 2262 nanoseconds fit 64 bits.
        let is_usual = |time: Option<i128>| time.is_none_or(|time| i64::try_from(time).is_ok());
        if nanoseconds.clone().all(is_usual) {
            score_ranks(nanoseconds.map(|time| time.map(|time| time as i64)), scores);
        } else {
            score_far_ranks(nanoseconds, scores);
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

/// Scores numbers by rank, with one radix sort.
fn score_ranks(numbers: impl Iterator<Item = Option<i64>>, scores: &mut [f64]) {
    let mut keys: Vec<u128> = Vec::with_capacity(scores.len());
    for ((number, score), position) in numbers.zip(scores.iter_mut()).zip(0_u32..) {
        *score = 0.0;
        // The flipped sign bit puts negative numbers below the others.
        keys.extend(
            number.map(|number| u128::from(number as u64 ^ 1 << 63) << 64 | u128::from(position)),
        );
    }
    order::sort(&mut keys);
    score_sorted(&keys, |key| (key >> 64) as u64, |key| key as u32, scores);
}

/// Scores timestamps of any year by rank.
fn score_far_ranks(times: impl Iterator<Item = Option<i128>>, scores: &mut [f64]) {
    scores.fill(0.0);
    let mut keys: Vec<(i128, u32)> =
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
