//! The names in a text: identifiers, paths and numbers.

use std::ops::Range;

/// The minimum bytes of a name, and of a number.
const MIN_NAME_BYTES: usize = 7;
const MIN_DIGITS: usize = 3;

/// Calls `each` with the position of every name of a text.
///
/// A name is a letter or underscore, followed by at least six word characters, dots, slashes or hyphens, the last of them
/// a word character. A number has at least three digits and is not part of a word.
pub(super) fn for_each_name(text: &str, mut each: impl FnMut(Range<usize>)) {
    let bytes = text.as_bytes();
    let mut start = 0;
    while let Some(byte) = bytes.get(start) {
        if byte.is_ascii_alphabetic() || *byte == b'_' {
            let rest = &bytes[start..];
            let run = rest.iter().take_while(|byte| is_word(**byte) || is_joint(**byte)).count();
            let joints = rest[..run].iter().rev().take_while(|byte| is_joint(**byte)).count();
            let end = start + run - joints;
            if end - start >= MIN_NAME_BYTES {
                each(start..end);
                start = end;
                continue;
            }
        } else if byte.is_ascii_digit() && (start == 0 || !is_word(bytes[start - 1])) {
            let digits = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let end = start + digits;
            if digits >= MIN_DIGITS && !bytes.get(end).is_some_and(|byte| is_word(*byte)) {
                each(start..end);
            }
            start = end;
            continue;
        }
        start += 1;
    }
}

/// Returns whether a name looks like an identifier, a path or a number, not like a word of a language.
pub(super) fn is_identifier(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.iter().any(|byte| is_joint(*byte) || byte.is_ascii_digit() || *byte == b'_')
        || bytes.windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
        || !bytes.iter().any(u8::is_ascii_lowercase)
}

/// Returns whether a byte is a letter, a digit or an underscore. Characters beyond ASCII count as letters.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

fn is_joint(byte: u8) -> bool {
    matches!(byte, b'.' | b'/' | b'-')
}

#[cfg(test)]
mod tests {
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
        assert!(names("").is_empty());
    }

    #[test]
    fn words_are_not_identifiers() {
        for name in ["read_file", "src/main", "isReady", "HTTP_GET", "CONSTANT", "404"] {
            assert!(is_identifier(name), "{name}");
        }
        assert!(!is_identifier("Problem"));
    }
}
