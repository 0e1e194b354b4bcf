//! Finds the combination of candidates that is worth most.
//!
//! The result is that of the textbook dynamic programme over all items and all capacities, ties
//! included, but most of that table is never computed. `reduce` proves for most items that they are
//! in, or out of, every optimal selection; `table` runs the dynamic programme over the few that are
//! left, one bit a cell.

mod reduce;
mod table;

use std::ops::RangeInclusive;

use super::sweep::count_targets;
use super::{Candidate, SliceOutcome, Slicer, SlicerProperties, TargetRanges, Verdict};
use crate::{Error, SliceBudget};

/// Selects the candidates whose values add up to the most within the budget.
///
/// [`exact`](Self::exact) counts single tokens, and is usually what you want. Larger buckets round
/// every item up to whole buckets; the default of the specification is 100 tokens, in which ten items of
/// ten tokens cost a thousand. Values are scores to four decimal places; candidates worth less than
/// 0.0001 are not taken unless they cost nothing.
#[derive(Clone, Copy, Debug)]
pub struct KnapsackSlice {
    bucket_size: i64,
    memory_limit: u64,
}

/// One thing to pack: its cost in buckets, and its worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    weight: u64,
    value: u64,
}

impl KnapsackSlice {
    /// Memory that the table may take unless set otherwise: 1 GiB.
    pub const DEFAULT_MEMORY_LIMIT: u64 = 1 << 30;

    /// How many integer steps a score of 1 is worth.
    const SCALE: f64 = 10_000.0;

    /// Counts in buckets of so many tokens.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSlicer`] if the size is not above 0.
    pub fn new(bucket_size: i64) -> Result<Self, Error> {
        if bucket_size <= 0 {
            let problem = format!("bucketSize is {bucket_size}; it must be above 0");
            return Err(Error::InvalidSlicer { slicer: "KnapsackSlice", problem });
        }
        Ok(Self { bucket_size, memory_limit: Self::DEFAULT_MEMORY_LIMIT })
    }

    /// Counts single tokens.
    pub fn exact() -> Self {
        Self { bucket_size: 1, memory_limit: Self::DEFAULT_MEMORY_LIMIT }
    }

    /// Sets how many bytes the table may take before the slicer gives up with
    /// [`Error::TableTooLarge`].
    #[must_use]
    pub fn with_memory_limit(mut self, bytes: u64) -> Self {
        self.memory_limit = bytes;
        self
    }

    /// The size of a bucket, in tokens.
    pub fn bucket_size(&self) -> i64 {
        self.bucket_size
    }

    /// The positions of the candidates to take, apart from those that cost nothing.
    fn solve(&self, candidates: &[Candidate<'_>], target: i64) -> Result<Vec<u32>, Error> {
        let capacity = target as u64 / self.bucket_size as u64;
        let (positions, pieces) = self.pieces(candidates, capacity);
        let chosen = choose(&pieces, capacity, self.memory_limit)?;
        Ok(chosen.into_iter().map(|piece| positions[piece as usize]).collect())
    }

    /// What can be packed into a capacity and is worth it, and the positions it comes from.
    fn pieces(&self, candidates: &[Candidate<'_>], capacity: u64) -> (Vec<u32>, Vec<Piece>) {
        // So that the values of all candidates together are a number.
        let most = i64::MAX as u64 / candidates.len().max(1) as u64;
        let mut positions = Vec::with_capacity(candidates.len());
        let mut pieces = Vec::with_capacity(candidates.len());
        for (position, candidate) in candidates.iter().enumerate() {
            let weight = (candidate.tokens as u64).div_ceil(self.bucket_size as u64);
            // A cast from a float saturates, and makes 0 of what is negative or not a number.
            let value = ((candidate.value * Self::SCALE).floor() as u64).min(most);
            if candidate.tokens > 0 && weight <= capacity && value > 0 {
                positions.push(position as u32);
                pieces.push(Piece { weight, value });
            }
        }
        (positions, pieces)
    }
}

impl Default for KnapsackSlice {
    /// Buckets of 100 tokens.
    fn default() -> Self {
        Self { bucket_size: 100, memory_limit: Self::DEFAULT_MEMORY_LIMIT }
    }
}

/// The pieces that are worth most together, in ascending order. Of several best choices it is the
/// one that leaves out the last piece if any of them does, of those the one that leaves out the
/// piece before, and so on.
fn choose(pieces: &[Piece], capacity: u64, memory_limit: u64) -> Result<Vec<u32>, Error> {
    let reduced = reduce::reduce(pieces, capacity);
    let open: Vec<Piece> = reduced.open.iter().map(|piece| pieces[*piece as usize]).collect();
    let chosen = table::choose(&open, reduced.capacity, memory_limit)?;
    let mut all = reduced.taken;
    all.extend(chosen.into_iter().map(|piece| reduced.open[piece as usize]));
    all.sort_unstable();
    Ok(all)
}

impl Slicer for KnapsackSlice {
    fn slice(
        &self,
        candidates: &[Candidate<'_>],
        budget: SliceBudget,
    ) -> Result<SliceOutcome, Error> {
        let mut outcome = SliceOutcome::new(candidates.len());
        if budget.target_tokens <= 0 {
            return Ok(outcome);
        }
        for (position, candidate) in candidates.iter().enumerate() {
            if candidate.tokens == 0 {
                outcome.take(position);
            }
        }
        let mut available_tokens = budget.target_tokens;
        for position in self.solve(candidates, budget.target_tokens)?.into_iter().rev() {
            outcome.take(position as usize);
            available_tokens -= candidates[position as usize].tokens;
        }
        for (position, candidate) in candidates.iter().enumerate() {
            let verdict = if candidate.tokens <= available_tokens {
                Verdict::Outcompeted { available_tokens }
            } else {
                Verdict::Left { available_tokens }
            };
            outcome.leave(position, verdict);
        }
        Ok(outcome)
    }

    fn properties(&self) -> SlicerProperties {
        SlicerProperties::UNORDERED
    }

    /// A table of candidates and buckets, several cells a step.
    fn effort(&self, candidates: usize, target: i64) -> u64 {
        let buckets = (target.max(0) / self.bucket_size) as u64;
        let candidates = candidates as u64;
        (candidates.saturating_mul(buckets) / 4).saturating_add(16 * (candidates + 16))
    }

    /// One table, and a look at every candidate for every bucket.
    fn sweep_effort(&self, candidates: usize, targets: &RangeInclusive<i64>) -> u64 {
        let buckets = count_targets(targets) / self.bucket_size.unsigned_abs() + 1;
        let looks = (candidates as u64 + 16).saturating_mul(buckets);
        self.effort(candidates, *targets.end()).saturating_add(looks)
    }

    /// One table holds the choice for every capacity.
    fn sweep(
        &self,
        candidates: &[Candidate<'_>],
        targets: RangeInclusive<i64>,
        positions: &[usize],
    ) -> Result<Vec<TargetRanges>, Error> {
        let mut taken = vec![TargetRanges::default(); positions.len()];
        let (first, last) = ((*targets.start()).max(1), *targets.end());
        if first > last {
            return Ok(taken);
        }
        let capacity = |target: i64| target as u64 / self.bucket_size as u64;
        let (piece_positions, pieces) = self.pieces(candidates, capacity(last));
        let choices = table::Choices::new(&pieces, capacity(last), self.memory_limit)?;
        // From here on the choice stays the same, however large the capacity.
        let everything = pieces.iter().fold(0_u64, |sum, piece| sum.saturating_add(piece.weight));
        let mut is_chosen = vec![false; candidates.len()];
        let mut target = first;
        while target <= last {
            let end = if capacity(target) >= everything {
                last
            } else {
                (target - target % self.bucket_size).saturating_add(self.bucket_size - 1)
            };
            let chosen = choices.at(capacity(target));
            let chosen_positions =
                || chosen.iter().map(|piece| piece_positions[*piece as usize] as usize);
            chosen_positions().for_each(|position| is_chosen[position] = true);
            for (ranges, position) in taken.iter_mut().zip(positions) {
                if is_chosen[*position] || candidates[*position].tokens == 0 {
                    ranges.push(target..=end.min(last));
                }
            }
            chosen_positions().for_each(|position| is_chosen[position] = false);
            match end.min(last).checked_add(1) {
                Some(next) => target = next,
                None => break,
            }
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use proptest::prelude::*;

    use super::*;

    /// The dynamic programme as everybody writes it, with a whole table.
    pub(super) fn textbook(pieces: &[Piece], capacity: u64) -> Vec<u32> {
        let capacity = capacity as usize;
        let mut best = vec![0_u128; capacity + 1];
        let mut keep = vec![vec![false; capacity + 1]; pieces.len()];
        for (i, piece) in pieces.iter().enumerate() {
            for room in (piece.weight as usize..=capacity).rev() {
                let with = best[room - piece.weight as usize] + u128::from(piece.value);
                if with > best[room] {
                    best[room] = with;
                    keep[i][room] = true;
                }
            }
        }
        let mut room = capacity;
        let mut chosen = Vec::new();
        for i in (0..pieces.len()).rev() {
            if keep[i][room] {
                chosen.push(i as u32);
                room -= pieces[i].weight as usize;
            }
        }
        chosen.reverse();
        chosen
    }

    fn pieces(weight: Range<u64>, value: Range<u64>) -> impl Strategy<Value = Vec<Piece>> {
        let piece = (weight, value).prop_map(|(weight, value)| Piece { weight, value });
        prop::collection::vec(piece, 0..40)
    }

    proptest! {
        #[test]
        fn the_choice_is_the_textbooks(pieces in pieces(1..60, 1..90), capacity in 0_u64..600) {
            let fits: Vec<Piece> = pieces.into_iter().filter(|p| p.weight <= capacity).collect();
            let chosen = choose(&fits, capacity, u64::MAX).unwrap();
            prop_assert_eq!(chosen, textbook(&fits, capacity));
        }

        #[test]
        fn also_where_everything_ties(pieces in pieces(1..5, 1..4), capacity in 0_u64..60) {
            let fits: Vec<Piece> = pieces.into_iter().filter(|p| p.weight <= capacity).collect();
            let chosen = choose(&fits, capacity, u64::MAX).unwrap();
            prop_assert_eq!(chosen, textbook(&fits, capacity));
        }

        #[test]
        fn also_where_worth_follows_weight(weights in prop::collection::vec(1_u64..40, 0..40), capacity in 0_u64..400) {
            // Equal densities leave nothing to prove, so the table does all the work.
            let pieces = weights.into_iter().filter(|weight| *weight <= capacity);
            let pieces: Vec<Piece> = pieces.map(|w| Piece { weight: w, value: w * 7 }).collect();
            let chosen = choose(&pieces, capacity, u64::MAX).unwrap();
            prop_assert_eq!(chosen, textbook(&pieces, capacity));
        }

        #[test]
        fn also_for_values_beyond_32_bits(pieces in pieces(1..20, (1 << 33)..(1 << 34)), capacity in 0_u64..100) {
            let fits: Vec<Piece> = pieces.into_iter().filter(|p| p.weight <= capacity).collect();
            let chosen = choose(&fits, capacity, u64::MAX).unwrap();
            prop_assert_eq!(chosen, textbook(&fits, capacity));
        }
    }
}
