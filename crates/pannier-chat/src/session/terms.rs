//! The names in a text: identifiers, paths and numbers.

use std::ops::Range;

/// The minimum bytes of a name, and of a number.
const MIN_NAME_BYTES: usize = 7;
pub(super) const MIN_DIGITS: usize = 3;

/// Calls `each` with the position of every name of a text.
///
/// A name is a letter or underscore, followed by at least six word characters, dots, slashes or hyphens, the last of them
/// a word character. A number has at least three digits and is not part of a word.
pub(super) fn for_each_name(text: &str, mut each: impl FnMut(Range<usize>)) {
    let bytes = text.as_bytes();
    let is_part = |byte: &u8| class(*byte) != Class::Other;
    let (mut start, mut gap) = (0, 0);
    // No part of a name precedes `start`. If the last byte of the shortest name is not part of a name, none begins before it.
    while let Some(window) = bytes.get(start..start + MIN_NAME_BYTES) {
        let Some(other) = window.iter().rposition(|byte| !is_part(byte)) else {
            let end = bytes[start..].iter().position(|byte| !is_part(byte));
            let end = end.map_or(bytes.len(), |length| start + length);
            if let Some(name) = name_in(start..end, bytes) {
                for_each_number(gap..name.start, bytes, &mut each);
                gap = name.end;
                each(name);
            }
            start = end + 1;
            continue;
        };
        start += other + 1;
    }
    for_each_number(gap..bytes.len(), bytes, &mut each);
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
    let is_word = |index: usize| bytes.get(index).is_some_and(|byte| class(*byte).is_word());
    let mut start = range.start;
    while let Some(window) = bytes[..range.end].get(start..start + MIN_DIGITS) {
        let Some(other) = window.iter().rposition(|byte| !byte.is_ascii_digit()) else {
            let digits = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let number = start..start + digits;
            if !is_word(start.wrapping_sub(1)) && !is_word(number.end) {
                each(number.clone());
            }
            start = number.end + 1;
            continue;
        };
        start += other + 1;
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
        fn names_are_those_of_the_definition(text in "[ab_.\\-/0-9 é(]{0,40}") {
            prop_assert_eq!(names(&text), plain_names(&text));
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
