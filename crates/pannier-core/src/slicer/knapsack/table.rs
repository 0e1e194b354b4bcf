//! The dynamic programme over the pieces that are still open.
//!
//! `best[room]` is what the pieces so far are worth at most in so much room, and one bit a piece and
//! room remembers whether the piece was needed for it. The bits are walked back from the last piece
//! to find the choice. Two observations keep the rows short: in more room than all pieces so far
//! need, all are taken; and of the smaller rooms, only those matter that the later pieces can leave.

use std::ops::{Add, RangeInclusive};

use super::Piece;
use crate::Error;

/// Rooms that are computed in one go: as many as a word has bits.
const BLOCK: usize = 64;

/// The pieces to take, in ascending order.
pub(super) fn choose(pieces: &[Piece], capacity: u64, limit: u64) -> Result<Vec<u32>, Error> {
    let choices = Choices::plan(pieces, capacity, limit, Rows::for_one)?;
    Ok(choices.at(capacity))
}

/// The choice for every capacity up to the largest.
pub(super) struct Choices {
    /// Sizes that share a factor need only every so many rooms.
    unit: u64,
    rows: Rows,
    bits: Vec<u64>,
}

impl Choices {
    pub(super) fn new(pieces: &[Piece], capacity: u64, limit: u64) -> Result<Self, Error> {
        Self::plan(pieces, capacity, limit, Rows::for_all)
    }

    fn plan(
        pieces: &[Piece],
        capacity: u64,
        limit: u64,
        plan: fn(&[u64], u64) -> Rows,
    ) -> Result<Self, Error> {
        let unit = pieces.iter().fold(0, |unit, piece| greatest_common_divisor(unit, piece.weight));
        let unit = unit.max(1);
        let capacity = capacity / unit;
        let weights: Vec<u64> = pieces.iter().map(|piece| piece.weight / unit).collect();
        let rows = plan(&weights, capacity);
        let value: u128 = pieces.iter().map(|piece| u128::from(piece.value)).sum();
        let narrow = value <= i32::MAX as u128;
        let bytes = rows.bytes(if narrow { size_of::<i32>() } else { size_of::<i64>() });
        if bytes > u128::from(limit) || usize::try_from(bytes).is_err() {
            let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
            return Err(Error::TableTooLarge { items: pieces.len(), capacity, bytes, limit });
        }
        // Four bytes a room, where the numbers allow it: twice as many of them in a register.
        let bits = if narrow {
            rows.fill::<i32>(pieces.iter().map(|piece| piece.value as i32))
        } else {
            rows.fill::<i64>(pieces.iter().map(|piece| piece.value as i64))
        };
        Ok(Self { unit, rows, bits })
    }

    /// The pieces to take at a capacity that was planned for, in ascending order.
    pub(super) fn at(&self, capacity: u64) -> Vec<u32> {
        let room = (capacity / self.unit).min(self.rows.capacity as u64) as usize;
        self.rows.walk_back(&self.bits, room)
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Which rooms each piece's row covers.
struct Rows {
    capacity: usize,
    rows: Vec<Row>,
    words: u128,
}

struct Row {
    weight: usize,
    /// The weight of this piece and all before it.
    sum: u128,
    /// The rooms for which it has to be decided; empty if there are none.
    rooms: RangeInclusive<usize>,
    /// Where its bits begin.
    first_word: usize,
}

impl Rows {
    /// Rows from which the choice for the whole capacity can be read.
    fn for_one(weights: &[u64], capacity: u64) -> Self {
        let total: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
        // Of the smaller rooms, only those matter that the later pieces can leave.
        Self::plan(weights, capacity, |capacity, sum| capacity.saturating_sub(total - sum))
    }

    /// Rows from which the choice for every capacity can be read.
    fn for_all(weights: &[u64], capacity: u64) -> Self {
        Self::plan(weights, capacity, |_, _| 0)
    }

    /// `lowest` tells, from the capacity and the weight of the pieces so far, the smallest room of a row.
    fn plan(weights: &[u64], capacity: u64, lowest: impl Fn(u128, u128) -> u128) -> Self {
        let total: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
        // Rooms above the weight of everything are alike.
        let capacity = u128::from(capacity).min(total);
        let (mut sum, mut words) = (0, 0);
        let rows = weights.iter().map(|&weight| {
            sum += u128::from(weight);
            let low = lowest(capacity, sum).max(u128::from(weight));
            let high = capacity.min(sum);
            let first_word = words as usize;
            words += (high + 1).saturating_sub(low).div_ceil(BLOCK as u128);
            let rooms = low as usize..=high as usize;
            Row { weight: weight as usize, sum, rooms, first_word }
        });
        Self { rows: rows.collect(), words, capacity: capacity as usize }
    }

    fn bytes(&self, room: usize) -> u128 {
        self.words * 8 + (self.capacity as u128 + 1) * room as u128
    }

    /// Runs the programme and returns its bits.
    fn fill<V: Value>(&self, values: impl Iterator<Item = V>) -> Vec<u64> {
        let mut bits = vec![0; self.words as usize];
        let mut best = vec![V::default(); self.capacity + 1];
        let (mut reached, mut all_so_far) = (0, V::default());
        for (row, value) in self.rows.iter().zip(values) {
            // Rooms that this row reaches first held, so far, everything.
            let high = *row.rooms.end();
            if high > reached {
                best[reached + 1..=high].fill(all_so_far);
                reached = high;
            }
            all_so_far = all_so_far + value;
            fill_row(&mut best, row, value, &mut bits[row.first_word..]);
        }
        bits
    }

    fn walk_back(&self, bits: &[u64], mut room: usize) -> Vec<u32> {
        let mut chosen = Vec::new();
        for (index, row) in self.rows.iter().enumerate().rev() {
            if row.sum <= room as u128 {
                chosen.extend((0..=index as u32).rev());
                break;
            }
            if row.rooms.contains(&room) {
                let from_top = row.rooms.end() - room;
                let word = bits[row.first_word + from_top / BLOCK];
                if word >> (BLOCK - 1 - from_top % BLOCK) & 1 == 1 {
                    chosen.push(index as u32);
                    room -= row.weight;
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

/// Decides one piece for all its rooms, from the largest down, so that smaller rooms still hold the
/// values without it. The first word of `bits` belongs to the largest rooms, its top bit to the
/// largest.
fn fill_row<V: Value>(best: &mut [V], row: &Row, value: V, bits: &mut [u64]) {
    if row.rooms.is_empty() {
        return;
    }
    let (low, weight) = (*row.rooms.start(), row.weight);
    let mut end = row.rooms.end() + 1;
    let mut words = bits.iter_mut();
    while let Some(start) = end.checked_sub(BLOCK).filter(|start| *start >= low)
        && let Some(word) = words.next()
    {
        // Of fixed size and with its own copy of the source, the block becomes vector code.
        let mut with = [V::default(); BLOCK];
        with.copy_from_slice(&best[start - weight..end - weight]);
        let mut needed = [0_u8; BLOCK];
        let rooms = best[start..end].iter_mut().zip(&with).zip(&mut needed);
        for ((room, with), needed) in rooms {
            let with = *with + value;
            *needed = u8::from(with > *room);
            *room = if with > *room { with } else { *room };
        }
        *word = pack(&needed);
        end = start;
    }
    let Some(word) = words.next().filter(|_| end > low) else {
        return;
    };
    for (from_top, room) in (low..end).rev().enumerate() {
        let with = best[room - weight] + value;
        if with > best[room] {
            best[room] = with;
            *word |= 1 << (BLOCK - 1 - from_top);
        }
    }
}

/// Sixty-four flags as bits, the last one on top.
fn pack(flags: &[u8; BLOCK]) -> u64 {
    let mut word = 0;
    for (byte, flags) in flags.as_chunks::<8>().0.iter().enumerate() {
        // Moves the lowest bit of each byte to its place in the top byte.
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
            assert_eq!(pack(&flags), 1 << bit);
        }
        assert_eq!(pack(&[1; BLOCK]), u64::MAX);
    }

    #[test]
    fn a_table_above_the_limit_is_refused_before_it_is_made() {
        let pieces = vec![Piece { weight: 3, value: 5 }, Piece { weight: u64::MAX / 4, value: 1 }];
        let error = choose(&pieces, u64::MAX / 4, 1 << 20).unwrap_err();
        assert!(
            matches!(error, Error::TableTooLarge { items: 2, limit: 1_048_576, .. }),
            "{error}"
        );
    }

    proptest! {
        /// Capacities of several blocks, without any reduction before.
        #[test]
        fn the_choice_is_the_textbooks(
            pieces in prop::collection::vec((1_u64..300, 1_u64..50), 0..30),
            capacity in 300_u64..2000,
            factor in 1_u64..4,
        ) {
            let pieces = pieces.into_iter().map(|(w, value)| Piece { weight: w * factor, value });
            let pieces: Vec<Piece> = pieces.filter(|piece| piece.weight <= capacity).collect();
            let chosen = choose(&pieces, capacity, u64::MAX).unwrap();
            prop_assert_eq!(chosen, textbook(&pieces, capacity));
        }
    }
}
