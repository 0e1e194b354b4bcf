//! Decides most pieces without a table.
//!
//! Filling the knapsack by density and cutting the first piece that does not fit gives an upper
//! bound on what any choice is worth; filling it by density with whole pieces gives a choice, and so
//! a lower bound. If the upper bound *without* a piece is below the lower bound, no optimal choice
//! goes without it; if the upper bound *with* it is below, none has it. The comparison is strict, so
//! pieces on which optimal choices differ stay open, and whoever decides about those decides as if
//! nothing had been taken away. Where scores and sizes vary, a few dozen pieces of thousands remain.

use std::cmp::Reverse;

use super::Piece;

/// What is decided, and what is left to decide.
pub(super) struct Reduced {
    /// Pieces of every optimal choice.
    pub(super) taken: Vec<u32>,
    /// Pieces of some optimal choices, in ascending order.
    pub(super) open: Vec<u32>,
    /// The capacity that the open pieces share.
    pub(super) capacity: u64,
}

/// Expects every piece to fit by itself, and to have a value.
pub(super) fn reduce(pieces: &[Piece], capacity: u64) -> Reduced {
    let total: u128 = pieces.iter().map(|piece| u128::from(piece.weight)).sum();
    if total <= u128::from(capacity) {
        let taken = (0..pieces.len() as u32).collect();
        return Reduced { taken, open: Vec::new(), capacity };
    }
    let bounds = Bounds::new(pieces, capacity);
    let taken = Vec::with_capacity(bounds.cut);
    let mut reduced = Reduced { taken, open: Vec::with_capacity(pieces.len()), capacity };
    for (rank, &index) in bounds.by_density.iter().enumerate() {
        let piece = pieces[index as usize];
        if rank < bounds.cut {
            if bounds.without(piece) < bounds.lower {
                reduced.taken.push(index);
                reduced.capacity -= piece.weight;
                continue;
            }
        } else if bounds.with(piece) < bounds.lower {
            continue;
        }
        reduced.open.push(index);
    }
    reduced.open.sort_unstable();
    reduced
}

struct Bounds<'p> {
    pieces: &'p [Piece],
    capacity: u128,
    by_density: Vec<u32>,
    /// Weight and value of the first so many pieces by density.
    sums: Vec<(u128, u128)>,
    /// How many of them fit: the next one is cut.
    cut: usize,
    /// What the best choice is worth at least.
    lower: u128,
}

impl<'p> Bounds<'p> {
    fn new(pieces: &'p [Piece], capacity: u64) -> Self {
        let mut by_density: Vec<u32> = (0..pieces.len() as u32).collect();
        // Fractions compare exactly by cross multiplication; a rounded density could break a bound.
        by_density.sort_unstable_by(|a, b| {
            let (a, b) = (pieces[*a as usize], pieces[*b as usize]);
            let left = u128::from(a.value) * u128::from(b.weight);
            Reverse(left).cmp(&Reverse(u128::from(b.value) * u128::from(a.weight)))
        });
        let mut sums = Vec::with_capacity(pieces.len() + 1);
        let (mut weight, mut value) = (0, 0);
        sums.push((weight, value));
        let (mut room, mut lower) = (capacity, 0);
        for &index in &by_density {
            let piece = pieces[index as usize];
            weight += u128::from(piece.weight);
            value += u128::from(piece.value);
            sums.push((weight, value));
            if piece.weight <= room {
                room -= piece.weight;
                lower += u128::from(piece.value);
            }
        }
        let capacity = u128::from(capacity);
        let cut = sums.partition_point(|(weight, _)| *weight <= capacity) - 1;
        Self { pieces, capacity, by_density, sums, cut, lower }
    }

    /// What the pieces are worth at most that fit a capacity, in order of density, the last one cut.
    fn fill(&self, capacity: u128) -> u128 {
        let whole = self.sums.partition_point(|(weight, _)| *weight <= capacity) - 1;
        let (weight, value) = self.sums[whole];
        let Some(&cut) = self.by_density.get(whole) else {
            return value;
        };
        let piece = self.pieces[cut as usize];
        value + (capacity - weight) * u128::from(piece.value) / u128::from(piece.weight)
    }

    /// What any choice without this piece, one of those that fit, is worth at most.
    fn without(&self, piece: Piece) -> u128 {
        // Filling a larger knapsack takes the piece as well, whole; take it out again.
        self.fill(self.capacity + u128::from(piece.weight)) - u128::from(piece.value)
    }

    /// What any choice with this piece, one of those that do not fit, is worth at most.
    fn with(&self, piece: Piece) -> u128 {
        // What is left for the others is filled before the piece's turn would come.
        self.fill(self.capacity - u128::from(piece.weight)) + u128::from(piece.value)
    }
}
