//! LEB128 varints and length-prefixed strings. The reader trusts nothing: missing or malformed bytes are `None`.

/// Appends a number as an LEB128 varint: seven bits per byte, the lowest first.
pub(crate) fn write_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Appends a string after its length.
pub(crate) fn write_str(bytes: &mut Vec<u8>, text: &str) {
    write_varint(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

/// A reader over the bytes that are not read yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteReader<'b>(pub(crate) &'b [u8]);

impl<'b> ByteReader<'b> {
    pub(crate) fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    #[inline]
    pub(crate) fn read_varint(&mut self) -> Option<u64> {
        match self.0 {
            // Most numbers are small.
            [byte @ 0..0x80, rest @ ..] => {
                self.0 = rest;
                Some(u64::from(*byte))
            }
            _ => self.read_long_varint(),
        }
    }

    fn read_long_varint(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            let bits = u64::from(byte & 0x7f);
            // Overflow and overlong encodings are rejected: each number has one encoding.
            if shift == 63 && bits > 1 || shift > 0 && byte == 0 {
                return None;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    pub(crate) fn read_varint_u32(&mut self) -> Option<u32> {
        self.read_varint().and_then(|number| u32::try_from(number).ok())
    }

    pub(crate) fn read_str(&mut self) -> Option<&'b str> {
        let length = usize::try_from(self.read_varint()?).ok()?;
        std::str::from_utf8(self.take(length)?).ok()
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    /// Returns the number of unread bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_and_strings_roundtrip(numbers in prop::collection::vec(any::<u64>(), 0..20), text in ".*") {
            let mut bytes = Vec::new();
            numbers.iter().for_each(|number| write_varint(&mut bytes, *number));
            write_str(&mut bytes, &text);
            let mut reader = ByteReader(&bytes);
            for number in numbers {
                prop_assert_eq!(reader.read_varint(), Some(number));
            }
            prop_assert_eq!(reader.read_str(), Some(text.as_str()));
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn any_bytes_are_read_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut reader = ByteReader(&bytes);
            while reader.read_varint().is_some() || reader.read_str().is_some() {}
        }
    }
}
