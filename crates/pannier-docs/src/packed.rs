//! Bit-packed numbers: all numbers of a block have the same width, so they are decoded without branches.

/// Returns the number of bits that the largest number needs.
pub(crate) fn width(numbers: impl Iterator<Item = u32>) -> u8 {
    let all = numbers.fold(0, |all, number| all | number);
    (u32::BITS - all.leading_zeros()) as u8
}

/// Returns the size of packed numbers in bytes.
pub(crate) fn packed_bytes(width: u8, count: usize) -> usize {
    (usize::from(width) * count).div_ceil(8)
}

/// Appends numbers of at most `width` bits, the lowest bit first.
pub(crate) fn pack(bytes: &mut Vec<u8>, width: u8, numbers: impl Iterator<Item = u32>) {
    let (mut buffer, mut filled) = (0_u64, 0);
    for number in numbers {
        buffer |= u64::from(number) << filled;
        filled += u32::from(width);
        while filled >= 8 {
            bytes.push(buffer as u8);
            buffer >>= 8;
            filled -= 8;
        }
    }
    if filled > 0 {
        bytes.push(buffer as u8);
    }
}

/// Returns a packed number. At least eight bytes must follow the packed ones.
#[inline]
pub(crate) fn unpack_one(bytes: &[u8], width: u8, index: usize) -> Option<u32> {
    let bit = index * usize::from(width);
    let word = bytes.get(bit / 8..)?.first_chunk()?;
    let mask = (1_u64 << width.min(32)) - 1;
    Some((u64::from_le_bytes(*word) >> (bit % 8) & mask) as u32)
}

/// Decodes as many numbers as fit `numbers`. At least eight bytes must follow the packed ones.
#[inline]
pub(crate) fn unpack(bytes: &[u8], width: u8, numbers: &mut [u32]) -> Option<()> {
    /// For each width, a loop whose shifts and masks are constants.
    macro_rules! unpack_by_width {
        ($($width:literal)*) => {
            match width {
                0 => {
                    numbers.fill(0);
                    Some(())
                }
                $($width => unpack_width::<$width>(bytes, numbers),)*
                _ => None,
            }
        };
    }
    unpack_by_width!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32)
}

fn unpack_width<const WIDTH: usize>(bytes: &[u8], numbers: &mut [u32]) -> Option<()> {
    // Eight numbers end at a byte.
    let (groups, rest) = numbers.as_chunks_mut::<8>();
    let mut packed = bytes;
    for group in groups {
        let own = packed.get(..WIDTH + 8)?;
        for (index, number) in group.iter_mut().enumerate() {
            *number = unpack_one(own, WIDTH as u8, index)?;
        }
        packed = &packed[WIDTH..];
    }
    for (index, number) in rest.iter_mut().enumerate() {
        *number = unpack_one(packed, WIDTH as u8, index)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_roundtrip(numbers in prop::collection::vec(any::<u32>(), 0..130), shift in 0..33_u32) {
            let numbers: Vec<u32> = numbers.iter().map(|number| number.checked_shr(shift).unwrap_or(0)).collect();
            let width = width(numbers.iter().copied());
            prop_assert!(u32::from(width) <= 32 - shift);
            let mut bytes = Vec::new();
            pack(&mut bytes, width, numbers.iter().copied());
            prop_assert_eq!(bytes.len(), packed_bytes(width, numbers.len()));
            bytes.extend([0xff; 8]);
            let mut actual = vec![7; numbers.len()];
            unpack(&bytes, width, &mut actual).unwrap();
            prop_assert_eq!(&actual, &numbers);
            for (index, number) in numbers.iter().enumerate() {
                prop_assert_eq!(unpack_one(&bytes, width, index), Some(*number));
            }
            prop_assert_eq!(unpack(&[], 1, &mut [0]), None);
        }
    }
}
