//! Counts of short pieces that come again and again.
//!
//! A text is split into words before it is encoded, and most words of a text have been met before: looking one up takes a
//! tenth of the time of encoding it. The table has a fixed size, a new piece takes the place of an old one, and what
//! it holds is what encoding would give, so nothing but time depends on it.

/// The longest piece that is kept.
const LONGEST: usize = 15;

/// How many are kept; a power of two.
const SLOTS: usize = 1 << 12;

/// Pieces and their counts.
pub(crate) struct Memo {
    /// The bytes of a piece, and their number in the last one. No piece is empty, so 0 is none.
    pieces: Vec<u128>,
    counts: Vec<u8>,
}

impl Memo {
    pub(crate) fn new() -> Self {
        Self { pieces: vec![0; SLOTS], counts: vec![0; SLOTS] }
    }

    /// The count of a piece: the one that is kept, or else the one that is found.
    pub(crate) fn count(&mut self, piece: &[u8], find: impl FnOnce(&[u8]) -> usize) -> usize {
        if piece.is_empty() || piece.len() > LONGEST {
            return find(piece);
        }
        let mut bytes = [0; 16];
        bytes[..piece.len()].copy_from_slice(piece);
        bytes[LONGEST] = piece.len() as u8;
        let key = u128::from_le_bytes(bytes);
        let mixed = (key as u64 ^ (key >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = (mixed >> (64 - SLOTS.trailing_zeros())) as usize;
        if self.pieces[slot] != key {
            // A token has a byte at least, so the count fits.
            self.counts[slot] = find(piece) as u8;
            self.pieces[slot] = key;
        }
        usize::from(self.counts[slot])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_found_once_and_never_mistaken_for_another() {
        let mut memo = Memo::new();
        let mut found = 0;
        for round in 0..3 {
            for number in 0..20_000_usize {
                let piece = format!("{number}");
                let count = memo.count(piece.as_bytes(), |piece| {
                    found += 1;
                    piece.len()
                });
                assert_eq!(count, piece.len(), "{round}: {number}");
            }
        }
        // Some stay in their places from round to round.
        assert!((20_000..60_000).contains(&found), "{found}");
        // Zeros at the end are not the end.
        assert_eq!(memo.count(b"a", |_| 1), 1);
        assert_eq!(memo.count(b"a\0", |_| 2), 2);
        assert_eq!(memo.count(&[b'x'; 16], |_| 200), 200);
        assert_eq!(memo.count(b"", |_| 0), 0);
    }
}
