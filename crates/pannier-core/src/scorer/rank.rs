//! Scores by rank: the share of comparable peers that an item beats.
//!
//! The score of an item is how many others are strictly below it, over how many others there are.
//! One sort gives every rank; items without the field score 0 and do not take part, and a field
//! that only one item has scores 1.

use super::{Pool, Scorer};
use crate::{Error, Timestamp, order};

/// Newer is better: an item's rank among the timestamps of the pool, from 0 for the oldest to 1 for the
/// newest. Items without a timestamp score 0.
///
/// ```
/// use pannier_core::ContextItem;
/// use pannier_core::score::{Pool, RecencyScorer};
///
/// let at = |time: &str| ContextItem::builder(time, 1).timestamp(time.parse()?).build();
/// let items = [at("2026-03-01T12:00:00Z")?, at("2026-03-01T12:05:00Z")?, at("2026-03-02T09:00:00Z")?];
/// assert_eq!(Pool::new(&items).scores(&RecencyScorer)?, [0.0, 0.5, 1.0]);
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct RecencyScorer;

impl Scorer for RecencyScorer {
    fn name(&self) -> &str {
        "recency"
    }

    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
        score_ranks(pool.items().iter().map(|item| item.timestamp().map(Timestamp::parts)), scores);
        Ok(())
    }
}

/// More important is better: an item's rank among the priorities of the pool, from 0 for the lowest to
/// 1 for the highest. Items without a priority score 0.
///
/// ```
/// use pannier_core::ContextItem;
/// use pannier_core::score::{Pool, PriorityScorer};
///
/// let item = |priority| ContextItem::builder("text", 1).priority(priority).build();
/// let items = [item(1)?, item(10)?, ContextItem::new("text", 1)?];
/// assert_eq!(Pool::new(&items).scores(&PriorityScorer)?, [0.0, 1.0, 0.0]);
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct PriorityScorer;

impl Scorer for PriorityScorer {
    fn name(&self) -> &str {
        "priority"
    }

    fn score(&self, pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
        score_ranks(pool.items().iter().map(|item| Some((item.priority()?, 0))), scores);
        Ok(())
    }
}

/// Scores numbers by rank: first their whole parts count, then their fractions.
fn score_ranks(numbers: impl Iterator<Item = Option<(i64, u32)>> + Clone, scores: &mut [f64]) {
    scores.fill(0.0);
    if let Some(mut keys) = narrow_keys(numbers.clone(), scores.len()) {
        order::sort_by_prefix(&mut keys, |key| key >> 32);
        return score_sorted(keys.iter().map(|key| (key >> 32, *key as u32)), scores);
    }
    let mut keys: Vec<u128> = Vec::with_capacity(scores.len());
    for (number, position) in numbers.zip(0_u32..) {
        let Some((whole, fraction)) = number else { continue };
        // The flipped sign bit puts negative numbers below the others.
        let whole = whole as u64 ^ 1 << 63;
        keys.push(u128::from(whole) << 64 | u128::from(fraction) << 32 | u128::from(position));
    }
    order::sort_by_prefix(&mut keys, |key| (key >> 64) as u64);
    score_sorted(keys.iter().map(|key| (key >> 32, *key as u32)), scores);
}

/// Packs whole numbers near each other into words with their positions, so that the sort moves half as much.
fn narrow_keys(
    numbers: impl Iterator<Item = Option<(i64, u32)>>,
    capacity: usize,
) -> Option<Vec<u64>> {
    let (mut keys, mut base) = (Vec::with_capacity(capacity), None);
    for (number, position) in numbers.zip(0_u64..) {
        let Some((whole, fraction)) = number else { continue };
        let offset = i32::try_from(whole.checked_sub(*base.get_or_insert(whole))?).ok()?;
        if fraction != 0 {
            return None;
        }
        keys.push(u64::from(offset as u32 ^ 1 << 31) << 32 | position);
    }
    Some(keys)
}

/// Scores positions by their numbers, which come in ascending order.
fn score_sorted<N: PartialEq>(sorted: impl ExactSizeIterator<Item = (N, u32)>, scores: &mut [f64]) {
    let others = sorted.len().saturating_sub(1) as f64;
    let (mut last, mut score) = (None, 1.0);
    for (below, (number, position)) in sorted.enumerate() {
        if others > 0.0 && last.as_ref() != Some(&number) {
            (last, score) = (Some(number), below as f64 / others);
        }
        scores[position as usize] = score;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ContextItem;

    #[test]
    fn timestamps_of_any_year_are_ranked() {
        let times = [
            "9999-12-30T00:00:00Z",
            "-009999-01-03T00:00:00Z",
            "1969-12-31T23:59:59.25Z",
            "1969-12-31T23:59:59.75Z",
            "1970-01-01T00:00:00Z",
        ];
        let item = |time: &str| {
            ContextItem::builder("x", 1).timestamp(time.parse().unwrap()).build().unwrap()
        };
        let items = times.map(item);
        let scores = Pool::new(&items).scores(&RecencyScorer).unwrap();
        assert_eq!(scores, [1.0, 0.0, 0.25, 0.5, 0.75]);
    }
}
