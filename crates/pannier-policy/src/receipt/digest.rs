//! A BLAKE3 hash.

use std::fmt;
use std::io;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};

use pannier_core::Selection;
use pannier_layout::Template;

/// A BLAKE3 hash of 32 bytes, written as 64 hexadecimal digits.
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
        /// Collects small writes: JSON is written a few bytes at a time, and BLAKE3 is fast on long inputs.
        struct BufferedHasher {
            hasher: blake3::Hasher,
            buffer: Vec<u8>,
        }

        impl io::Write for BufferedHasher {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.buffer.extend_from_slice(bytes);
                if self.buffer.len() > 16 * 1_024 {
                    self.flush()?;
                }
                Ok(bytes.len())
            }

            fn flush(&mut self) -> io::Result<()> {
                self.hasher.update(&self.buffer);
                self.buffer.clear();
                Ok(())
            }
        }

        let mut buffered =
            BufferedHasher { hasher: blake3::Hasher::new(), buffer: Vec::with_capacity(1_024) };
        // Writing to memory does not fail, and everything that is hashed here can be written as JSON: its
        // names are texts.
        let written = serde_json::to_writer(&mut buffered, value);
        debug_assert!(written.is_ok(), "{written:?}");
        buffered.hasher.update(&buffered.buffer);
        Self(buffered.hasher.finalize().into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
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
        let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
        let mut bytes = [0; 32];
        let pairs = text.as_bytes().chunks_exact(2);
        for (byte, pair) in bytes.iter_mut().zip(pairs) {
            let (Some(high), Some(low)) = (digit(pair[0]), digit(pair[1])) else {
                return Err(D::Error::custom("a hash is 64 hexadecimal digits"));
            };
            *byte = high << 4 | low;
        }
        if text.len() != 64 {
            return Err(D::Error::custom("a hash is 64 hexadecimal digits"));
        }
        Ok(Self(bytes))
    }
}
