//! A cache of what was computed for short words: their token counts, their stems.
//!
//! Most words of a text repeat, and a lookup takes a tenth of the time of encoding or stemming. The table is
//! direct-mapped and has a fixed size, so a new word evicts the word in its slot. Eviction affects time only.

/// The number of slots, a power of two.
const SLOTS: usize = 1 << 12;

/// A cache from short words to values.
///
/// ```
/// let mut memo = pannier_text::Memo::default();
/// assert_eq!(memo.get(b"word", |word| word.len()), 4);
/// assert_eq!(memo.get(b"word", |_| unreachable!("it is cached")), 4);
/// ```
#[derive(Clone, Debug)]
pub struct Memo<V> {
    /// The bytes of a word, and its length in the last byte. Cached words are not empty, so 0 marks a free slot.
    words: Vec<u128>,
    values: Vec<V>,
}

impl<V: Copy + Default> Default for Memo<V> {
    fn default() -> Self {
        Self { words: vec![0; SLOTS], values: vec![V::default(); SLOTS] }
    }
}

impl<V: Copy> Memo<V> {
    /// The size of the longest word in a cache. With its length, a word fills a `u128`.
    pub const MAX_WORD_BYTES: usize = 15;

    /// Returns the value of `word`. Computes it if it is not cached, and caches it unless the word is empty or too long.
    pub fn get(&mut self, word: &[u8], compute: impl FnOnce(&[u8]) -> V) -> V {
        if word.is_empty() || word.len() > Self::MAX_WORD_BYTES {
            return compute(word);
        }
        let mut bytes = [0; 16];
        bytes[..word.len()].copy_from_slice(word);
        bytes[Self::MAX_WORD_BYTES] = word.len() as u8;
        let key = u128::from_le_bytes(bytes);
        let mixed = (key as u64 ^ (key >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = (mixed >> (64 - SLOTS.trailing_zeros())) as usize;
        if self.words[slot] != key {
            self.values[slot] = compute(word);
            self.words[slot] = key;
        }
        self.values[slot]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_values_equal_computed_values() {
        let mut memo = Memo::default();
        let mut computed = 0;
        for round in 0..3 {
            for number in 0..20_000_usize {
                let word = format!("{number}");
                let value = memo.get(word.as_bytes(), |word| {
                    computed += 1;
                    word.len()
                });
                assert_eq!(value, word.len(), "{round}: {number}");
            }
        }
        // Some words stay cached from round to round.
        assert!((20_000..60_000).contains(&computed), "{computed}");
        // Trailing zero bytes are part of the key.
        assert_eq!(memo.get(b"a", |_| 1), 1);
        assert_eq!(memo.get(b"a\0", |_| 2), 2);
        assert_eq!(memo.get(&[b'x'; 16], |_| 200), 200);
        assert_eq!(memo.get(b"", |_| 0), 0);
    }
}
