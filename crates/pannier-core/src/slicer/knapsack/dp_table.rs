//! The dynamic program over the undecided items.
//!
//! `best[capacity]` is the highest value of the items so far within a capacity. One bit for each item and capacity
//! records whether the item was needed for it. Backtracking from the last item reads the choice from the bits. Two
//! observations keep the rows short: a capacity above the weight of all items so far holds them all, and only those
//! smaller capacities matter that the later items can leave.

use std::ops::{Add, RangeInclusive};

use super::KnapsackItem;
use crate::{Error, Search};

/// Capacities that are computed in one go: as many as a word has bits.
const BLOCK: usize = 64;

/// A table that fits the memory limit, and is not filled yet.
pub(super) struct PlannedTable {
    /// The common factor of all weights: only its multiples are capacities.
    unit: u64,
    rows: Rows,
    /// Whether all values together fit four bytes.
    is_narrow: bool,
}

impl PlannedTable {
    /// Plans a table for one capacity.
    pub(super) fn for_one(
        items: &[KnapsackItem],
        capacity: u64,
        limit: u64,
    ) -> Result<Self, Error> {
        Self::new(items, capacity, limit, Rows::for_one)
    }

    /// Plans a table for every capacity up to the largest.
    pub(super) fn for_all(
        items: &[KnapsackItem],
        capacity: u64,
        limit: u64,
    ) -> Result<Self, Error> {
        Self::new(items, capacity, limit, Rows::for_all)
    }

    fn new(
        items: &[KnapsackItem],
        capacity: u64,
        limit: u64,
        plan: fn(&[u64], u64) -> Rows,
    ) -> Result<Self, Error> {
        let unit = items.iter().fold(0, |unit, item| greatest_common_divisor(unit, item.weight));
        let unit = unit.max(1);
        let capacity = capacity / unit;
        let weights: Vec<u64> = items.iter().map(|item| item.weight / unit).collect();
        let rows = plan(&weights, capacity);
        let value: u128 = items.iter().map(|item| u128::from(item.value)).sum();
        // Four bytes for each capacity, where the values allow it: a register then holds twice as many.
        let is_narrow = value <= i32::MAX as u128;
        let bytes = rows.bytes(if is_narrow { size_of::<i32>() } else { size_of::<i64>() });
        if bytes > u128::from(limit) || usize::try_from(bytes).is_err() {
            let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
            return Err(Error::TableTooLarge { items: items.len(), capacity, bytes, limit });
        }
        Ok(Self { unit, rows, is_narrow })
    }

    /// Fills the table for the items that it was planned for. Fails if the search is stopped; its steps are the
    /// caller's to spend.
    pub(super) fn fill(
        self,
        items: &[KnapsackItem],
        search: &mut Search<'_>,
    ) -> Result<Solutions, Error> {
        let Self { unit, rows, is_narrow } = self;
        let bits = match is_narrow {
            true => rows.fill::<i32>(items.iter().map(|item| item.value as i32), search)?,
            false => rows.fill::<i64>(items.iter().map(|item| item.value as i64), search)?,
        };
        Ok(Solutions { unit, rows, bits })
    }
}

/// The choice for every capacity that was planned for.
pub(super) struct Solutions {
    unit: u64,
    rows: Rows,
    bits: Vec<u64>,
}

impl Solutions {
    /// The items to take at a capacity that was planned for, in ascending order.
    pub(super) fn at(&self, capacity: u64) -> Vec<u32> {
        let capacity_left = (capacity / self.unit).min(self.rows.capacity as u64) as usize;
        self.rows.backtrack(&self.bits, capacity_left)
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Which capacities each item's row covers.
struct Rows {
    capacity: usize,
    rows: Vec<Row>,
    words: u128,
}

struct Row {
    weight: usize,
    /// The weight of this item and all preceding ones.
    sum: u128,
    /// The capacities for which it has to be decided; empty if there are none.
    capacities: RangeInclusive<usize>,
    /// Where its bits begin.
    first_word: usize,
}

impl Rows {
    /// Rows from which the choice for the whole capacity can be read.
    fn for_one(weights: &[u64], capacity: u64) -> Self {
        let total: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
        // Only those smaller capacities matter that the later items can leave.
        Self::plan(weights, capacity, |capacity, sum| capacity.saturating_sub(total - sum))
    }

    /// Rows from which the choice for every capacity can be read.
    fn for_all(weights: &[u64], capacity: u64) -> Self {
        Self::plan(weights, capacity, |_, _| 0)
    }

    /// `lowest` returns the smallest capacity of a row, from the whole capacity and the weight of the items so far.
    fn plan(weights: &[u64], capacity: u64, lowest: impl Fn(u128, u128) -> u128) -> Self {
        let total: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
        // All capacities above the total weight have the same solution.
        let capacity = u128::from(capacity).min(total);
        let (mut sum, mut words) = (0, 0);
        let rows = weights.iter().map(|&weight| {
            sum += u128::from(weight);
            let low = lowest(capacity, sum).max(u128::from(weight));
            let high = capacity.min(sum);
            let first_word = words as usize;
            words += (high + 1).saturating_sub(low).div_ceil(BLOCK as u128);
            let capacities = low as usize..=high as usize;
            Row { weight: weight as usize, sum, capacities, first_word }
        });
        Self { rows: rows.collect(), words, capacity: capacity as usize }
    }

    fn bytes(&self, value_bytes: usize) -> u128 {
        self.words * 8 + (self.capacity as u128 + 1) * value_bytes as u128
    }

    /// Runs the dynamic program and returns its bits.
    fn fill<V: Value>(
        &self,
        values: impl Iterator<Item = V>,
        search: &mut Search<'_>,
    ) -> Result<Vec<u64>, Error> {
        let mut bits = vec![0; self.words as usize];
        let mut best = vec![V::default(); self.capacity + 1];
        let (mut reached, mut all_so_far) = (0, V::default());
        for (row, value) in self.rows.iter().zip(values) {
            search.spend(0)?;
            // Capacities that no earlier row reached hold all earlier items.
            let high = *row.capacities.end();
            if high > reached {
                best[reached + 1..=high].fill(all_so_far);
                reached = high;
            }
            all_so_far = all_so_far + value;
            fill_row(&mut best, row, value, &mut bits[row.first_word..]);
        }
        Ok(bits)
    }

    fn backtrack(&self, bits: &[u64], mut capacity_left: usize) -> Vec<u32> {
        let mut chosen = Vec::new();
        for (index, row) in self.rows.iter().enumerate().rev() {
            if row.sum <= capacity_left as u128 {
                chosen.extend((0..=index as u32).rev());
                break;
            }
            if row.capacities.contains(&capacity_left) {
                let from_top = row.capacities.end() - capacity_left;
                let word = bits[row.first_word + from_top / BLOCK];
                if word >> (BLOCK - 1 - from_top % BLOCK) & 1 == 1 {
                    chosen.push(index as u32);
                    capacity_left -= row.weight;
                }
            }
        }
        chosen.reverse();
        chosen
    }
}

trait Value: Copy + Default + PartialOrd + Add<Output = Self> {}

impl Value for i32 {}
impl Value for i64 {}

/// Decides one item for all its capacities, from the largest down, so that smaller capacities still hold the
/// values without it. The first word of `bits` belongs to the largest capacities, its top bit to the
/// largest.
fn fill_row<V: Value>(best: &mut [V], row: &Row, value: V, bits: &mut [u64]) {
    if row.capacities.is_empty() {
        return;
    }
    let (low, weight) = (*row.capacities.start(), row.weight);
    let mut end = row.capacities.end() + 1;
    let mut words = bits.iter_mut();
    while let Some(start) = end.checked_sub(BLOCK).filter(|start| *start >= low)
        && let Some(word) = words.next()
    {
        // A fixed size and a copy of the source let the compiler vectorize the block.
        let mut with = [V::default(); BLOCK];
        with.copy_from_slice(&best[start - weight..end - weight]);
        let mut needed = [0_u8; BLOCK];
        let capacities = best[start..end].iter_mut().zip(&with).zip(&mut needed);
        for ((capacity_left, with), needed) in capacities {
            let with = *with + value;
            *needed = u8::from(with > *capacity_left);
            *capacity_left = if with > *capacity_left { with } else { *capacity_left };
        }
        *word = pack_bits(&needed);
        end = start;
    }
    let Some(word) = words.next().filter(|_| end > low) else {
        return;
    };
    for (from_top, capacity_left) in (low..end).rev().enumerate() {
        let with = best[capacity_left - weight] + value;
        if with > best[capacity_left] {
            best[capacity_left] = with;
            *word |= 1 << (BLOCK - 1 - from_top);
        }
    }
}

/// Packs sixty-four flags into bits, the last one at the top.
fn pack_bits(flags: &[u8; BLOCK]) -> u64 {
    let mut word = 0;
    for (byte, flags) in flags.as_chunks::<8>().0.iter().enumerate() {
        // Moves the lowest bit of each byte to its position in the top byte.
        let gathered = u64::from_le_bytes(*flags).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        word |= gathered << (8 * byte);
    }
    word
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::textbook;
    use super::*;

    #[test]
    fn packing_puts_each_flag_at_its_bit() {
        for bit in 0..BLOCK {
            let mut flags = [0; BLOCK];
            flags[bit] = 1;
            assert_eq!(pack_bits(&flags), 1 << bit);
        }
        assert_eq!(pack_bits(&[1; BLOCK]), u64::MAX);
    }

    #[test]
    fn a_table_above_the_limit_is_refused_before_it_is_made() {
        let items = vec![
            KnapsackItem { weight: 3, value: 5 },
            KnapsackItem { weight: u64::MAX / 4, value: 1 },
        ];
        let error = PlannedTable::for_one(&items, u64::MAX / 4, 1 << 20).err().unwrap();
        assert!(
            matches!(error, Error::TableTooLarge { items: 2, limit: 1_048_576, .. }),
            "{error}"
        );
    }

    proptest! {
        /// Capacities of several blocks, without any reduction before.
        #[test]
        fn the_choice_is_the_textbooks(
            items in prop::collection::vec((1_u64..300, 1_u64..50), 0..30),
            capacity in 300_u64..2000,
            factor in 1_u64..4,
        ) {
            let items = items.into_iter().map(|(w, value)| KnapsackItem { weight: w * factor, value });
            let items: Vec<KnapsackItem> = items.filter(|item| item.weight <= capacity).collect();
            let table = PlannedTable::for_one(&items, capacity, u64::MAX).unwrap();
            let chosen = table.fill(&items, &mut Search::new(0)).unwrap().at(capacity);
            prop_assert_eq!(chosen, textbook(&items, capacity));
        }
    }

    #[test]
    fn the_size_of_a_table_is_its_words_and_values() {
        // One word for each row, and a value for each capacity from 0 to 4.
        assert_eq!(Rows::for_all(&[2, 3], 4).bytes(4), 2 * 8 + 5 * 4);
        // For one capacity, the first row has only what the second can leave: 900 to 1,000 instead of 100 to 1,000.
        assert_eq!(Rows::for_all(&[900, 100], 950).bytes(4), (1 + 14) * 8 + 951 * 4);
        assert_eq!(Rows::for_one(&[900, 100], 950).bytes(4), (1 + 1) * 8 + 951 * 4);
        // Capacities are multiples of a common factor.
        let items = [400, 600, 1_000].map(|weight| KnapsackItem { weight, value: 1 });
        let table = PlannedTable::for_one(&items, 1_999, u64::MAX).unwrap();
        assert_eq!((table.unit, table.rows.capacity), (200, 9));
    }
}
