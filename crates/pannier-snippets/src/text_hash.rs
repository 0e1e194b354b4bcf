//! Detects whether a text changed since a session received it.
//!
//! A delivery log stores 64 bits of a hash instead of the text. That is enough, because a collision only suppresses one
//! repeated delivery and gives an attacker nothing.

use std::fmt;

/// The first 64 bits of the BLAKE3 hash of a text, written as 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextHash(u64);

impl TextHash {
    /// Hashes `text`.
    pub fn of(text: &str) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = *blake3::hash(text.as_bytes()).as_bytes();
        Self(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }

    /// Parses 16 lowercase hexadecimal digits.
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
    fn display_and_parse_are_inverse() {
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
