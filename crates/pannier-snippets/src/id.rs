//! Snippet ids, and the escaping of untrusted text.
//!
//! An id is a list of segments separated by slashes, as in `project/design/index`. It contains no `..`, no line breaks
//! and no terminal escapes, so it is safe to print and to use in paths.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::SnippetsError;

/// The maximum length of an id.
pub(crate) const MAX_ID_BYTES: usize = 200;

/// The id of a snippet.
///
/// ```
/// use pannier_snippets::SnippetId;
///
/// assert_eq!(SnippetId::new("global/policy/names")?.as_str(), "global/policy/names");
/// assert!(SnippetId::new("../secret").is_err());
/// # Ok::<(), pannier_snippets::SnippetsError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnippetId(String);

impl SnippetId {
    /// Validates an id: up to 200 lowercase ASCII letters, digits, `.`, `_` and `-`, in segments separated by single
    /// slashes. No segment is `.` or `..`.
    ///
    /// # Errors
    ///
    /// [`SnippetsError::InvalidId`] if `id` is not valid.
    pub fn new(id: &str) -> Result<Self, SnippetsError> {
        match is_id(id) {
            true => Ok(Self(id.to_owned())),
            false => Err(SnippetsError::InvalidId { id: excerpt(id), close: Vec::new() }),
        }
    }

    /// Returns the id as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SnippetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for SnippetId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

pub(crate) fn is_id(text: &str) -> bool {
    let is_plain = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-')
    };
    text.len() <= MAX_ID_BYTES && has_valid_segments(text, is_plain)
}

/// Returns whether `text` is a list of segments separated by slashes: none empty, none `.` or `..`, and only bytes that
/// `is_allowed` accepts.
pub(crate) fn has_valid_segments(text: &str, is_allowed: impl Fn(u8) -> bool) -> bool {
    let (mut length, mut dots) = (0_usize, 0_usize);
    let is_segment = |length: usize, dots: usize| length > dots || length > 2;
    for byte in text.bytes() {
        if byte == b'/' {
            if !is_segment(length, dots) {
                return false;
            }
            (length, dots) = (0, 0);
        } else if is_allowed(byte) {
            length += 1;
            dots += usize::from(byte == b'.');
        } else {
            return false;
        }
    }
    is_segment(length, dots)
}

/// Returns the first 80 characters of an untrusted text, with control characters replaced.
pub(crate) fn excerpt(text: &str) -> String {
    let short: String = text.chars().take(80).map(escape_control).collect();
    if short.len() < text.len() && text.chars().nth(80).is_some() { short + "…" } else { short }
}

/// Returns an untrusted text on one line, with control characters replaced.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    push_one_line(&mut line, text);
    line
}

/// Appends an untrusted text on one line, with control characters replaced.
pub(crate) fn push_one_line(line: &mut String, text: &str) {
    // Fast path: most texts are printable ASCII on one line.
    let is_plain = text.bytes().fold(true, |is, byte| is & matches!(byte, b' '..=b'~'));
    if is_plain && !text.contains("  ") && text.trim().len() == text.len() {
        return line.push_str(text);
    }
    for (position, word) in text.split_whitespace().enumerate() {
        if position > 0 {
            line.push(' ');
        }
        line.extend(word.chars().map(escape_control));
    }
}

/// Replaces characters that a terminal may interpret.
fn escape_control(character: char) -> char {
    match character {
        _ if character.is_control() => '\u{fffd}',
        // Unicode line separators and bidirectional controls.
        '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        _ => character,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_segments_separated_by_slashes() {
        let longest = "a".repeat(MAX_ID_BYTES);
        for good in ["a", "arch/system", "policy/version-control", "a_b/c.d/9", "..a", &longest] {
            assert!(SnippetId::new(good).is_ok(), "{good}");
        }
        let long = "a".repeat(MAX_ID_BYTES + 1);
        for bad in [
            "",
            "/",
            "a/",
            "/a",
            "a//b",
            ".",
            "..",
            "a/../b",
            "a/./b",
            "A",
            "a b",
            "a\n",
            "a\0",
            "a\u{1b}[31m",
            "ä",
            "a\\b",
            "@a",
            "a:b",
            "~/a",
            &long,
        ] {
            let error = SnippetId::new(bad).unwrap_err();
            assert!(matches!(error, SnippetsError::InvalidId { .. }), "{bad}");
            assert!(!error.to_string().contains(['\n', '\0', '\u{1b}']), "{error}");
        }
    }
}
