//! A BLAKE3 hash.

use std::fmt;
use std::io::BufWriter;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};

use pannier_core::Selection;
use pannier_layout::Template;

/// A BLAKE3 hash of 32 bytes, written as 64 hexadecimal digits.
///
/// ```
/// use pannier_policy::Digest;
///
/// let digest = Digest::of(b"refunds");
/// assert_ne!(digest, Digest::of(b"refund"));
/// assert_eq!(digest.to_string().len(), 64);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Hashes bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes).into())
    }

    /// Hashes the text of a selection.
    pub fn of_text(template: &Template, selection: &Selection<'_>) -> Self {
        let mut hasher = blake3::Hasher::new();
        template.write(selection, |piece| {
            hasher.update(piece.as_bytes());
        });
        Self(hasher.finalize().into())
    }

    /// Hashes the concatenation of hashes.
    pub(super) fn of_digests(digests: impl Iterator<Item = Self>) -> Self {
        let mut hasher = blake3::Hasher::new();
        digests.for_each(|digest| {
            hasher.update(&digest.0);
        });
        Self(hasher.finalize().into())
    }

    /// Hashes a value as one line of JSON, without a line end.
    pub(super) fn of_json(value: &impl Serialize) -> Self {
        // Buffered: JSON is written a few bytes at a time, and BLAKE3 is fast on long inputs.
        let mut buffered = BufWriter::with_capacity(16 << 10, blake3::Hasher::new());
        // Writing to memory does not fail, and everything that is hashed here can be written as JSON: its
        // names are texts.
        let written = serde_json::to_writer(&mut buffered, value);
        debug_assert!(written.is_ok(), "{written:?}");
        let hasher = buffered.into_inner().unwrap_or_else(|_| blake3::Hasher::new());
        Self(hasher.finalize().into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from(self.0).to_hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let hash = blake3::Hash::from_hex(text);
        hash.map(|hash| Self(hash.into()))
            .map_err(|_| D::Error::custom("a hash is 64 hexadecimal digits"))
    }
}
