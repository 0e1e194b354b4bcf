//! Recall ids: the first eight digits of the hash of a block, or all digits if another block had these before.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The hash of a block's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct BlockHash(u128);

impl BlockHash {
    pub(super) fn new(content: &str) -> Self {
        Self::from(blake3::hash(content.as_bytes()))
    }

    pub(super) fn finish(hasher: &blake3::Hasher) -> Self {
        Self::from(hasher.finalize())
    }

    pub(super) fn digits(self) -> String {
        hex(&self.0.to_be_bytes())
    }

    pub(super) fn bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    fn short(self) -> u32 {
        (self.0 >> 96) as u32
    }
}

/// The first half of a hash.
impl From<blake3::Hash> for BlockHash {
    fn from(hash: blake3::Hash) -> Self {
        Self(hash.as_bytes().first_chunk().map_or(0, |bytes| u128::from_be_bytes(*bytes)))
    }
}

/// Returns the hexadecimal digits of bytes. Histories have thousands of ids, and formatting is slow.
fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
        }
    }
    text
}

/// The blocks of a history by the digits of their ids. A short id names the first block that has its digits.
#[derive(Clone, Debug, Default)]
pub(super) struct Ids {
    by_digits: HashMap<u32, BlockHash, BuildHasherDefault<DigitsHasher>>,
    /// Whether all ids are empty.
    is_hidden: bool,
}

/// Spreads digits, which are a hash already, over all bits.
#[derive(Clone, Debug, Default)]
struct DigitsHasher(u64);

impl Hasher for DigitsHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, digits: u32) {
        self.0 = (self.0 ^ u64::from(digits)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Ids {
    /// Makes all ids empty.
    pub(super) fn hide(&mut self) {
        self.is_hidden = true;
    }

    /// Adds a block of the history.
    pub(super) fn add(&mut self, hash: BlockHash) {
        self.by_digits.entry(hash.short()).or_insert(hash);
    }

    /// Returns the id of a block.
    pub(super) fn id(&self, hash: BlockHash) -> String {
        if self.is_hidden {
            return String::new();
        }
        let is_first = self.by_digits.get(&hash.short()).is_none_or(|first| *first == hash);
        if is_first { hex(&hash.short().to_be_bytes()) } else { hash.digits() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_block_with_the_same_digits_has_a_longer_id() {
        let mut ids = Ids::default();
        let hash = BlockHash::new("one");
        ids.add(hash);
        assert_eq!(ids.id(hash), hash.digits()[..8]);
        let other = BlockHash(hash.0 ^ 1);
        assert_eq!(ids.id(other), other.digits());
        assert_eq!(ids.id(BlockHash::new("two")).len(), 8);
    }
}
