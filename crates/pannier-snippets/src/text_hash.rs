//! Whether a text is still the one that a session was given.
//!
//! A session is told an id, and what stands under it may change. What it was given need not be kept to see that: sixteen
//! digits are enough, because nobody gains anything by finding two texts that share them.

use std::fmt;

/// The beginning of the BLAKE3 hash of a text: sixteen hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextHash(u64);

impl TextHash {
    /// That of a text.
    pub fn of(text: &str) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = *blake3::hash(text.as_bytes()).as_bytes();
        Self(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }

    /// The one that is written so.
    pub(crate) fn parse(digits: &str) -> Option<Self> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_hash = digits.len() == 16 && digits.bytes().all(is_digit);
        u64::from_str_radix(digits, 16).ok().filter(|_| is_hash).map(Self)
    }
}

impl fmt::Display for TextHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_written_and_read() {
        let hash = TextHash::of("");
        assert_eq!(hash.to_string(), "af1349b9f5f9a1a6");
        assert_eq!(TextHash::parse("af1349b9f5f9a1a6"), Some(hash));
        assert_ne!(TextHash::of("a"), hash);
        for bad in
            ["", "af1349b9f5f9a1a", "af1349b9f5f9a1a6a", "AF1349B9F5F9A1A6", "+f1349b9f5f9a1a6"]
        {
            assert_eq!(TextHash::parse(bad), None, "{bad}");
        }
    }
}
