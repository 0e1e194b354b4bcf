//! A cache of the token counts of short words.
//!
//! A BPE tokenizer splits a text into words (pieces) before it encodes them, and most words of a text repeat. A lookup
//! takes a tenth of the time of encoding. The table is direct-mapped and has a fixed size, so a new piece evicts the
//! piece in its slot. Cached counts equal computed counts: eviction affects time only.

/// The size of the longest piece in the cache. With its length, a piece fills a `u128`.
const MAX_PIECE_BYTES: usize = 15;

/// The number of slots, a power of two.
const SLOTS: usize = 1 << 12;

/// A cache from pieces to token counts.
pub(crate) struct Memo {
    /// The bytes of a piece, and its length in the last byte. Pieces are not empty, so 0 marks a free slot.
    pieces: Vec<u128>,
    counts: Vec<u8>,
}

impl Memo {
    pub(crate) fn new() -> Self {
        Self { pieces: vec![0; SLOTS], counts: vec![0; SLOTS] }
    }

    /// Returns the cached count of `piece`, or computes and caches it.
    pub(crate) fn count(&mut self, piece: &[u8], compute: impl FnOnce(&[u8]) -> usize) -> usize {
        if piece.is_empty() || piece.len() > MAX_PIECE_BYTES {
            return compute(piece);
        }
        let mut bytes = [0; 16];
        bytes[..piece.len()].copy_from_slice(piece);
        bytes[MAX_PIECE_BYTES] = piece.len() as u8;
        let key = u128::from_le_bytes(bytes);
        let mixed = (key as u64 ^ (key >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = (mixed >> (64 - SLOTS.trailing_zeros())) as usize;
        if self.pieces[slot] != key {
            // A token has at least one byte, so the count is at most 15.
            self.counts[slot] = compute(piece) as u8;
            self.pieces[slot] = key;
        }
        usize::from(self.counts[slot])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_counts_equal_computed_counts() {
        let mut memo = Memo::new();
        let mut computed = 0;
        for round in 0..3 {
            for number in 0..20_000_usize {
                let piece = format!("{number}");
                let count = memo.count(piece.as_bytes(), |piece| {
                    computed += 1;
                    piece.len()
                });
                assert_eq!(count, piece.len(), "{round}: {number}");
            }
        }
        // Some pieces stay cached from round to round.
        assert!((20_000..60_000).contains(&computed), "{computed}");
        // Trailing zero bytes are part of the key.
        assert_eq!(memo.count(b"a", |_| 1), 1);
        assert_eq!(memo.count(b"a\0", |_| 2), 2);
        assert_eq!(memo.count(&[b'x'; 16], |_| 200), 200);
        assert_eq!(memo.count(b"", |_| 0), 0);
    }
}
