//! Finds the combination of candidates with the highest total value.
//!
//! The result is that of the textbook dynamic program over all items and all capacities, ties included, but most of
//! that table is never computed. `reduce` proves for most items that they are in, or out of, every optimal selection;
//! `dp_table` runs the dynamic program over the others, with one bit for each cell.

mod dp_table;
mod reduce;

use super::{Slicer, SlicerProperties, SweepRequest, SweepResult, Tally, TargetRanges, Verdict};
use crate::{Error, Level, Note, Search, SliceBudget};

/// Selects the candidates with the highest sum of values within the budget.
///
/// [`default`](Self::default) counts single tokens. If its table would exceed the memory limit, it counts in the
/// smallest buckets whose table fits, and [`Selection::notes`](crate::Selection::notes) says so.
/// [`exact`](Self::exact) and [`new`](Self::new) fail instead. Buckets round every item up: in buckets of 100 tokens, the
/// specification's default, ten items of ten tokens cost a thousand. Values are scores to four decimal places; candidates
/// with a value below 0.0001 are not taken unless they have no tokens.
///
/// ```
/// use pannier_core::{ContextBudget, ContextItem, Pipeline};
/// use pannier_core::score::ReflexiveScorer;
/// use pannier_core::slice::KnapsackSlice;
///
/// let item = |content: &str, tokens, hint| {
///     ContextItem::builder(content, tokens).future_relevance_hint(hint).build()
/// };
/// // The first has the highest score per token, but the others have more together.
/// let items = [item("one", 60, 0.7)?, item("two", 50, 0.5)?, item("three", 50, 0.5)?];
/// let pipeline = Pipeline::builder(ReflexiveScorer).slicer(KnapsackSlice::default()).build();
/// let selection = pipeline.run(&items, &ContextBudget::new(100, 100)?)?;
/// assert_eq!(selection.indices().collect::<Vec<_>>(), [1, 2]);
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KnapsackSlice {
    bucket_size: i64,
    memory_limit: u64,
    /// Whether buckets may be larger, so that the table fits.
    falls_back: bool,
}

/// A candidate: its cost in buckets, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KnapsackItem {
    weight: u64,
    value: u64,
}

impl KnapsackSlice {
    /// The default memory limit of the table: 1 GiB.
    pub const DEFAULT_MEMORY_LIMIT: u64 = 1 << 30;

    /// Counts in buckets of `bucket_size` tokens.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSlicer`] if the size is not above 0.
    pub fn new(bucket_size: i64) -> Result<Self, Error> {
        if bucket_size <= 0 {
            let problem = format!("bucketSize is {bucket_size}; it must be above 0");
            return Err(Error::InvalidSlicer { slicer: "KnapsackSlice", problem });
        }
        Ok(Self { bucket_size, ..Self::exact() })
    }

    /// Counts single tokens, and fails if the table would exceed the memory limit.
    pub fn exact() -> Self {
        Self { bucket_size: 1, memory_limit: Self::DEFAULT_MEMORY_LIMIT, falls_back: false }
    }

    /// Sets the maximum size of the table, in bytes. A larger one fails with [`Error::TableTooLarge`], or leads to
    /// larger buckets.
    #[must_use]
    pub fn with_memory_limit(mut self, bytes: u64) -> Self {
        self.memory_limit = bytes;
        self
    }

    /// Returns the size of a bucket, in tokens.
    pub fn bucket_size(&self) -> i64 {
        self.bucket_size
    }

    /// Plans the problem in the buckets of this slicer, or in the smallest larger ones whose table fits, found by
    /// doubling and bisection.
    fn plan(&self, tally: &Tally<'_, '_>) -> Result<Problem, Error> {
        let remaining = tally.remaining().max(0);
        let plan = |bucket_size: i64| {
            let capacity = remaining as u64 / bucket_size as u64;
            let (positions, items) = knapsack_items(tally, bucket_size, capacity);
            Problem::new(bucket_size, positions, &items, capacity, self.memory_limit)
        };
        let planned = plan(self.bucket_size);
        if !self.falls_back || !matches!(planned, Err(Error::TableTooLarge { .. })) {
            return planned;
        }
        let (mut too_small, mut fitting) = (self.bucket_size, planned);
        while fitting.is_err() && too_small <= remaining {
            let size = too_small.saturating_mul(2);
            fitting = plan(size);
            too_small = if fitting.is_err() { size } else { too_small };
        }
        let mut fitting = fitting?;
        while fitting.bucket_size - too_small > 1 {
            let middle = too_small + (fitting.bucket_size - too_small) / 2;
            match plan(middle) {
                Ok(smaller) => fitting = smaller,
                Err(_) => too_small = middle,
            }
        }
        Ok(fitting)
    }
}

/// The integer value of a score of 1.
const SCALE: f64 = 10_000.0;

/// Returns the candidates that are not taken yet, fit a capacity and have a value, with their positions.
fn knapsack_items(
    tally: &Tally<'_, '_>,
    bucket_size: i64,
    capacity: u64,
) -> (Vec<u32>, Vec<KnapsackItem>) {
    let (candidates, is_plain) = (tally.candidates(), tally.offers().is_plain());
    // The sum of all values must not overflow.
    let max_value = i64::MAX as u64 / candidates.len().max(1) as u64;
    let mut positions = Vec::with_capacity(candidates.len());
    let mut items = Vec::with_capacity(candidates.len());
    for (position, candidate) in candidates.iter().enumerate() {
        let taken = tally.level(position);
        if taken == Some(Level::WHOLE) {
            continue;
        }
        let tokens = match is_plain {
            true => candidate.tokens,
            // Every item is charged its heading, also if another pays for it: an over-estimate.
            false => tally.cost(position, Level::WHOLE).unwrap_or(candidate.tokens),
        };
        let weight = (tokens as u64).div_ceil(bucket_size as u64);
        // A cast from a float saturates, and turns negative numbers and NaN into 0.
        let taken = taken.and_then(|level| tally.offers().offer(position, level));
        let value = taken.map_or(candidate.value, |taken| candidate.value - taken.value);
        let value = ((value * SCALE).floor() as u64).min(max_value);
        if tokens > 0 && weight <= capacity && value > 0 {
            positions.push(position as u32);
            items.push(KnapsackItem { weight, value });
        }
    }
    (positions, items)
}

impl Default for KnapsackSlice {
    /// Single tokens, or larger buckets where the table would exceed the memory limit.
    fn default() -> Self {
        Self { falls_back: true, ..Self::exact() }
    }
}

/// A knapsack whose table fits the memory limit.
struct Problem {
    bucket_size: i64,
    /// The positions of the items.
    positions: Vec<u32>,
    reduced: reduce::Reduced,
    undecided: Vec<KnapsackItem>,
    table: dp_table::PlannedTable,
}

impl Problem {
    fn new(
        bucket_size: i64,
        positions: Vec<u32>,
        items: &[KnapsackItem],
        capacity: u64,
        memory_limit: u64,
    ) -> Result<Self, Error> {
        let reduced = reduce::reduce(items, capacity);
        let undecided: Vec<KnapsackItem> =
            reduced.undecided.iter().map(|item| items[*item as usize]).collect();
        let table = dp_table::PlannedTable::for_one(&undecided, reduced.capacity, memory_limit)?;
        Ok(Self { bucket_size, positions, reduced, undecided, table })
    }

    /// Returns the positions of the best solution, in ascending order. Of several best solutions it is the one that
    /// omits the last item if any of them does, of those the one that omits the item before, and so on.
    fn solve(self) -> Result<Vec<u32>, Error> {
        let solutions = self.table.fill(&self.undecided, &mut Search::new(0))?;
        let chosen = solutions.at(self.reduced.capacity).into_iter();
        let mut items = self.reduced.taken;
        items.extend(chosen.map(|item| self.reduced.undecided[item as usize]));
        items.sort_unstable();
        Ok(items.into_iter().map(|item| self.positions[item as usize]).collect())
    }
}

impl Slicer for KnapsackSlice {
    fn slice(&self, tally: &mut Tally<'_, '_>) -> Result<(), Error> {
        let (candidates, target) = (tally.candidates(), tally.budget().target_tokens);
        if target <= 0 {
            return Ok(());
        }
        for (position, candidate) in candidates.iter().enumerate() {
            if candidate.tokens == 0 {
                tally.take(position, Level::WHOLE);
            }
        }
        let remaining = tally.remaining().max(0);
        let problem = self.plan(tally)?;
        let bucket_size = problem.bucket_size;
        let capacity = remaining as u64 / bucket_size as u64;
        tally.spend((problem.positions.len() as u64).saturating_mul(capacity) / 64);
        for position in problem.solve()?.into_iter().rev() {
            tally.take(position as usize, Level::WHOLE);
        }
        let available_tokens = tally.remaining();
        for (position, candidate) in candidates.iter().enumerate() {
            let verdict = match candidate.tokens <= available_tokens {
                true => Verdict::Outcompeted { available_tokens },
                false => Verdict::Left { available_tokens },
            };
            tally.exclude(position, verdict);
        }
        if bucket_size == self.bucket_size {
            // The next bucket may change the choice.
            tally.changes_at(target.saturating_add(bucket_size - remaining % bucket_size));
        } else {
            // The next target may need other buckets.
            tally.changes_at(target.saturating_add(1));
            let memory_limit = self.memory_limit;
            tally.note(Note::LargerBuckets { bucket_size, memory_limit });
        }
        Ok(())
    }

    fn properties(&self) -> SlicerProperties {
        SlicerProperties::UNORDERED
    }

    /// One table holds the choice for every capacity.
    fn sweep(&self, asked: &SweepRequest<'_, '_>, search: &mut Search<'_>) -> Option<SweepResult> {
        asked.offers.is_plain().then(|| self.sweep_plain(asked, search))
    }
}

impl KnapsackSlice {
    fn sweep_plain(&self, asked: &SweepRequest<'_, '_>, search: &mut Search<'_>) -> SweepResult {
        let SweepRequest { offers, positions, .. } = *asked;
        let mut taken = vec![TargetRanges::default(); positions.len()];
        let (first, last) = asked.positive_targets();
        if first > last {
            return Ok(taken);
        }
        let capacity = |target: i64| target as u64 / self.bucket_size as u64;
        let nothing_taken = Tally::new(offers, SliceBudget::new(last));
        let (item_positions, items) =
            knapsack_items(&nothing_taken, self.bucket_size, capacity(last));
        // From here on the choice stays the same, however large the capacity.
        let everything = items.iter().fold(0_u64, |sum, item| sum.saturating_add(item.weight));
        // A table, several cells a step, and a look at every candidate for every bucket.
        let buckets = capacity(last).min(everything).saturating_add(1);
        let cells = (items.len() as u64 + 16).saturating_mul(buckets) / 4;
        let looks = (offers.candidates().len() as u64 + 16).saturating_mul(buckets);
        if !search.spend(cells.saturating_add(looks))? {
            return Err(Error::SearchTooLong);
        }
        // A slice never needs a larger table, so no bucket is larger either.
        let table = dp_table::PlannedTable::for_all(&items, capacity(last), self.memory_limit)?;
        let solutions = table.fill(&items, search)?;
        let mut is_chosen = vec![false; offers.candidates().len()];
        let mut target = first;
        while target <= last {
            // The steps are paid; but the search may be stopped.
            search.spend(0)?;
            let end = if capacity(target) >= everything {
                last
            } else {
                (target - target % self.bucket_size).saturating_add(self.bucket_size - 1)
            };
            let chosen = solutions.at(capacity(target));
            let chosen_positions =
                || chosen.iter().map(|item| item_positions[*item as usize] as usize);
            chosen_positions().for_each(|position| is_chosen[position] = true);
            for (ranges, position) in taken.iter_mut().zip(positions) {
                if is_chosen[*position] || offers.candidates()[*position].tokens == 0 {
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
    use crate::{Candidate, ContextItem, Offers, ScoredItem};

    fn solve_exact(items: &[KnapsackItem], capacity: u64) -> Vec<u32> {
        let positions = (0..items.len() as u32).collect();
        Problem::new(1, positions, items, capacity, u64::MAX).unwrap().solve().unwrap()
    }

    /// The dynamic programme as everybody writes it, with a whole table.
    pub(super) fn textbook(items: &[KnapsackItem], capacity: u64) -> Vec<u32> {
        let capacity = capacity as usize;
        let mut best = vec![0_u128; capacity + 1];
        let mut keep = vec![vec![false; capacity + 1]; items.len()];
        for (i, item) in items.iter().enumerate() {
            for room in (item.weight as usize..=capacity).rev() {
                let with = best[room - item.weight as usize] + u128::from(item.value);
                if with > best[room] {
                    best[room] = with;
                    keep[i][room] = true;
                }
            }
        }
        let mut room = capacity;
        let mut chosen = Vec::new();
        for i in (0..items.len()).rev() {
            if keep[i][room] {
                chosen.push(i as u32);
                room -= items[i].weight as usize;
            }
        }
        chosen.reverse();
        chosen
    }

    fn items(weight: Range<u64>, value: Range<u64>) -> impl Strategy<Value = Vec<KnapsackItem>> {
        let item = (weight, value).prop_map(|(weight, value)| KnapsackItem { weight, value });
        prop::collection::vec(item, 0..40)
    }

    #[test]
    fn buckets_are_as_small_as_the_memory_allows() {
        let item = ContextItem::new("text", 1).unwrap();
        let candidates = (0..60).map(|i| Candidate {
            tokens: 101 + i * 7,
            value: (101 + i * 7) as f64,
            ..Candidate::from(ScoredItem { item: &item, score: 1.0 })
        });
        let offers = Offers::new(candidates);
        let target = 9_999;
        for memory_limit in (6_000..60_000).step_by(2_000) {
            let slice = |slicer: KnapsackSlice| {
                let mut tally = Tally::new(&offers, SliceBudget::new(target));
                slicer.with_memory_limit(memory_limit).slice(&mut tally)?;
                Ok::<_, Error>((
                    tally.moves().to_vec(),
                    tally.holds_below(),
                    tally.notes().to_vec(),
                ))
            };
            let (moves, holds_below, notes) = slice(KnapsackSlice::default()).unwrap();
            let [Note::LargerBuckets { bucket_size, .. }] = notes[..] else { panic!("{notes:?}") };
            assert_eq!(holds_below, target + 1);
            let stated = KnapsackSlice::new(bucket_size).unwrap();
            assert_eq!(stated.bucket_size(), bucket_size);
            let next_bucket = target - target % bucket_size + bucket_size;
            assert_eq!(slice(stated).unwrap(), (moves, next_bucket, vec![]));
            assert!(slice(KnapsackSlice::new(bucket_size - 1).unwrap()).is_err());
        }
    }

    proptest! {
        #[test]
        fn the_choice_is_the_textbooks(items in items(1..60, 1..90), capacity in 0_u64..600) {
            let fits: Vec<KnapsackItem> = items.into_iter().filter(|p| p.weight <= capacity).collect();
            let chosen = solve_exact(&fits, capacity);
            prop_assert_eq!(chosen, textbook(&fits, capacity));
        }

        #[test]
        fn also_where_everything_ties(items in items(1..5, 1..4), capacity in 0_u64..60) {
            let fits: Vec<KnapsackItem> = items.into_iter().filter(|p| p.weight <= capacity).collect();
            let chosen = solve_exact(&fits, capacity);
            prop_assert_eq!(chosen, textbook(&fits, capacity));
        }

        #[test]
        fn also_where_worth_follows_weight(weights in prop::collection::vec(1_u64..40, 0..40), capacity in 0_u64..400) {
            // Equal densities leave nothing to prove, so the table does all the work.
            let items = weights.into_iter().filter(|weight| *weight <= capacity);
            let items: Vec<KnapsackItem> = items.map(|w| KnapsackItem { weight: w, value: w * 7 }).collect();
            let chosen = solve_exact(&items, capacity);
            prop_assert_eq!(chosen, textbook(&items, capacity));
        }

        #[test]
        fn also_for_values_beyond_32_bits(items in items(1..20, (1 << 33)..(1 << 34)), capacity in 0_u64..100) {
            let fits: Vec<KnapsackItem> = items.into_iter().filter(|p| p.weight <= capacity).collect();
            let chosen = solve_exact(&fits, capacity);
            prop_assert_eq!(chosen, textbook(&fits, capacity));
        }
    }
}
