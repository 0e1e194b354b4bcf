//! The names in a text: identifiers, paths and numbers.

use std::ops::Range;

/// The minimum bytes of a name, and of a number.
const MIN_NAME_BYTES: usize = 7;
pub(super) const MIN_DIGITS: usize = 3;

/// Calls `each` with the position of every name of a text.
///
/// A name is a letter or underscore, followed by at least six word characters, dots, slashes or hyphens, the last of them
/// a word character. A number has at least three digits and is not part of a word.
///
/// Most bytes of a text belong to neither, so a bitmap of each 64 bytes finds the runs that are long enough.
pub(super) fn for_each_name(text: &str, mut each: impl FnMut(Range<usize>)) {
    let bytes = text.as_bytes();
    let (mut start, mut done, mut before) = (0, 0, Bitmap::default());
    let mut block = Bitmap::new(bytes);
    while start < bytes.len() {
        let next = Bitmap::new(bytes.get(start + BLOCK_BYTES..).unwrap_or_default());
        let runs = run_starts::<MIN_NAME_BYTES>(before.parts, block.parts, next.parts);
        let numbers = run_starts::<MIN_DIGITS>(before.digits, block.digits, next.digits);
        let mut starts = runs | numbers;
        while starts != 0 {
            let offset = starts.trailing_zeros();
            starts &= starts - 1;
            let position = start + offset as usize;
            if position < done {
                continue;
            }
            let name = (runs >> offset & 1 == 1).then(|| name_from(position, bytes)).flatten();
            if let Some(name) = name {
                for_each_number(position..name.start, bytes, &mut each);
                done = name.end;
                each(name);
            } else if numbers >> offset & 1 == 1 {
                each_number(position, bytes, &mut each);
            }
        }
        (start, before, block) = (start + BLOCK_BYTES, block, next);
    }
}

/// The bytes that a bitmap describes.
const BLOCK_BYTES: usize = 64;

/// The bytes of a block that are part of names, and its digits.
#[derive(Clone, Copy, Default)]
struct Bitmap {
    parts: u64,
    digits: u64,
}

impl Bitmap {
    /// Reads the first bytes of a text.
    #[inline]
    fn new(bytes: &[u8]) -> Self {
        if bytes.is_empty() {
            return Self::default();
        }
        let mut padded = [0; BLOCK_BYTES];
        let block = bytes.first_chunk().unwrap_or_else(|| {
            padded[..bytes.len()].copy_from_slice(bytes);
            &padded
        });
        let is_between = |byte: u8, first: u8, last: u8| byte.wrapping_sub(first) <= last - first;
        let is_digit = |byte: u8| is_between(byte, b'0', b'9');
        // All conditions are evaluated, so that the compiler compares many bytes at once. Joints precede digits.
        let is_part = |byte: u8| {
            is_between(byte | 0x20, b'a', b'z')
                | is_between(byte, b'-', b'9')
                | (byte == b'_')
                | (byte >= 0x80)
        };
        let has_digits = block.iter().fold(false, |has, byte| has | is_digit(*byte));
        let digits = if has_digits { bits(block, is_digit) } else { 0 };
        Self { parts: bits(block, is_part), digits }
    }
}

/// Returns a bit for each byte of a block.
#[inline]
fn bits(block: &[u8; BLOCK_BYTES], is_set: impl Fn(u8) -> bool) -> u64 {
    let mut flags = [0; BLOCK_BYTES];
    for (flag, byte) in flags.iter_mut().zip(block) {
        *flag = u8::from(is_set(*byte));
    }
    let (words, _) = flags.as_chunks();
    words.iter().fold(0, |bits, word| {
        // Moves the lowest bits of eight bytes next to each other, into the highest byte.
        let eight = u64::from_le_bytes(*word).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        bits >> 8 | eight << 56
    })
}

/// Returns where runs of at least `LENGTH` bits start in a block, given the blocks before and after it.
#[inline]
fn run_starts<const LENGTH: usize>(before: u64, block: u64, next: u64) -> u64 {
    let mut starts = block & !(block << 1 | before >> 63);
    let mut offset = 1;
    while offset < LENGTH {
        starts &= block >> offset | next << (64 - offset);
        offset += 1;
    }
    starts
}

/// Returns the name in the run of parts of names from `start`.
fn name_from(start: usize, bytes: &[u8]) -> Option<Range<usize>> {
    let rest = &bytes[start + MIN_NAME_BYTES..];
    let end = rest.iter().position(|byte| class(*byte) == Class::Other);
    name_in(start..end.map_or(bytes.len(), |length| start + MIN_NAME_BYTES + length), bytes)
}

/// Returns the name in a run of parts of names. It begins with the first letter: a name from a later one is shorter.
fn name_in(run: Range<usize>, bytes: &[u8]) -> Option<Range<usize>> {
    let is = |expected: Class| move |byte: &u8| class(*byte) == expected;
    let start = run.start + bytes[run.clone()].iter().position(is(Class::Letter))?;
    let joints = bytes[start..run.end].iter().rev().take_while(|byte| is(Class::Joint)(byte));
    let end = run.end - joints.count();
    (end - start >= MIN_NAME_BYTES).then_some(start..end)
}

/// Calls `each` with the position of every number in a range, which neither begins nor ends within digits.
fn for_each_number(range: Range<usize>, bytes: &[u8], each: &mut impl FnMut(Range<usize>)) {
    let mut start = range.start;
    for digits in bytes[range].split(|byte| !byte.is_ascii_digit()) {
        if digits.len() >= MIN_DIGITS {
            each_number(start, bytes, each);
        }
        start += digits.len() + 1;
    }
}

/// Calls `each` with the position of the digits from `start`, unless they are part of a word.
fn each_number(start: usize, bytes: &[u8], each: &mut impl FnMut(Range<usize>)) {
    let is_word = |index: usize| bytes.get(index).is_some_and(|byte| class(*byte).is_word());
    let digits = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if !is_word(start.wrapping_sub(1)) && !is_word(start + digits) {
        each(start..start + digits);
    }
}

/// Returns whether a name looks like an identifier, a path or a number, not like a word of a language.
pub(super) fn is_identifier(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.iter().any(|byte| is_joint(*byte) || byte.is_ascii_digit() || *byte == b'_')
        || bytes.windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
        || !bytes.iter().any(u8::is_ascii_lowercase)
}

fn is_joint(byte: u8) -> bool {
    class(byte) == Class::Joint
}

#[inline]
fn class(byte: u8) -> Class {
    CLASSES[byte as usize]
}

/// What a byte can be in a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// An ASCII letter or an underscore, with which a name can begin.
    Letter,
    Digit,
    /// A byte of a character beyond ASCII.
    Wide,
    Joint,
    Other,
}

impl Class {
    #[inline]
    fn is_word(self) -> bool {
        matches!(self, Self::Letter | Self::Digit | Self::Wide)
    }

    const fn of(byte: u8) -> Self {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => Self::Letter,
            b'0'..=b'9' => Self::Digit,
            b'.' | b'/' | b'-' => Self::Joint,
            0x80.. => Self::Wide,
            _ => Self::Other,
        }
    }
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Other; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = Class::of(byte as u8);
        byte += 1;
    }
    classes
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(text: &str) -> Vec<&str> {
        let mut names = Vec::new();
        for_each_name(text, |range| names.push(&text[range]));
        names
    }

    #[test]
    fn names_are_identifiers_paths_and_numbers() {
        assert_eq!(
            names("fn read_file(\"/src/main.rs\") -> 404, 12, x86_64-unknown... 7abcdefg v1234"),
            ["read_file", "src/main.rs", "404", "x86_64-unknown", "abcdefg"]
        );
        assert_eq!(
            names("größe_in_bytes 日本語 a.b.c.d.e 2024-05-27"),
            ["größe_in_bytes", "a.b.c.d.e", "2024"]
        );
        assert_eq!(names("ab.404 a-345x x.7.512"), ["404", "x.7.512"]);
        assert!(names("").is_empty());
    }

    /// Returns the names of a text by their definition: from each beginning, the longest name.
    fn plain_names(text: &str) -> Vec<&str> {
        let class = |index: usize| Class::of(text.as_bytes()[index]);
        let (mut names, mut start) = (Vec::new(), 0);
        while start < text.len() {
            let is_name = |end: usize| {
                end - start >= MIN_NAME_BYTES
                    && (start..end).all(|index| class(index) != Class::Other)
                    && class(end - 1) != Class::Joint
            };
            let is_number = |end: usize| {
                end - start >= MIN_DIGITS && (start..end).all(|index| class(index) == Class::Digit)
            };
            let ends = || (start + 1..=text.len()).rev();
            let end = match class(start) {
                Class::Letter => ends().find(|end| is_name(*end)),
                Class::Digit if start == 0 || !class(start - 1).is_word() => {
                    let end = ends().find(|end| is_number(*end));
                    end.filter(|end| *end == text.len() || !class(*end).is_word())
                }
                _ => None,
            };
            names.extend(end.map(|end| &text[start..end]));
            start = end.unwrap_or(start + 1);
        }
        names
    }

    proptest! {
        #[test]
        fn names_are_those_of_the_definition(text in "[ab_.\\-/0-9 é(]{0,40}|([a-z]{1,12}[ .0-9]{1,4}){0,30}") {
            prop_assert_eq!(names(&text), plain_names(&text));
        }
    }

    #[test]
    fn bitmaps_have_the_classes_of_bytes() {
        for first in 0..=255_u8 {
            let bytes: Vec<u8> = (0..70).map(|offset| first.wrapping_add(offset)).collect();
            for length in [0, 1, 7, 8, 9, 63, 64, 70] {
                let Bitmap { parts, digits } = Bitmap::new(&bytes[..length]);
                for (byte, index) in bytes[..length.min(64)].iter().zip(0..) {
                    assert_eq!(parts >> index & 1 == 1, class(*byte) != Class::Other, "{byte}");
                    assert_eq!(digits >> index & 1 == 1, class(*byte) == Class::Digit, "{byte}");
                }
                assert!(length >= 64 || (parts | digits) >> length == 0, "{first} {length}");
            }
        }
    }

    #[test]
    fn words_are_not_identifiers() {
        for name in ["read_file", "src/main", "isReady", "HTTP_GET", "CONSTANT", "404"] {
            assert!(is_identifier(name), "{name}");
        }
        assert!(!is_identifier("Problem"));
    }
}
