//! Identifiers and numbers of a text.
//!
//! A term is a match of `[A-Za-z_][\w./-]{5,}\w|\b\d{3,}\b`: an identifier or path of at least seven characters, or a
//! number of at least three digits. `\w` is any alphanumeric character or `_`, and digits are ASCII. The scanner reads a
//! text once: within one run of `[\w./-]`, all starts of an identifier share their end, so one failure rules out the rest.

/// The minimum characters of an identifier.
const MIN_IDENTIFIER_CHARS: usize = 7;

/// The minimum digits of a number.
const MIN_DIGITS: usize = 3;

/// Returns the terms of a text from left to right. Matches do not overlap.
pub(super) fn terms(text: &str) -> Terms<'_> {
    Terms { text, position: 0, no_identifier_before: 0 }
}

/// The iterator of [`terms`].
pub(super) struct Terms<'t> {
    text: &'t str,
    position: usize,
    /// No identifier starts before this position.
    no_identifier_before: usize,
}

impl<'t> Iterator for Terms<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        while let Some(first) = self.text[self.position..].chars().next() {
            let start = self.position;
            let end = match first {
                'A'..='Z' | 'a'..='z' | '_' if start >= self.no_identifier_before => {
                    self.identifier_end(start)
                }
                '0'..='9' => self.number_end(start),
                _ => None,
            };
            match end {
                Some(end) => {
                    self.position = end;
                    return Some(&self.text[start..end]);
                }
                None => self.position += first.len_utf8(),
            }
        }
        None
    }
}

impl Terms<'_> {
    fn identifier_end(&mut self, start: usize) -> Option<usize> {
        let (mut chars, mut end, mut run_end) = (0, None, self.text.len());
        for (offset, character) in self.text[start..].char_indices() {
            if !is_word(character) && !matches!(character, '.' | '/' | '-') {
                run_end = start + offset;
                break;
            }
            chars += 1;
            if chars >= MIN_IDENTIFIER_CHARS && is_word(character) {
                end = Some(start + offset + character.len_utf8());
            }
        }
        if end.is_none() {
            self.no_identifier_before = run_end;
        }
        end
    }

    fn number_end(&self, start: usize) -> Option<usize> {
        if self.text[..start].chars().next_back().is_some_and(is_word) {
            return None;
        }
        let rest = &self.text[start..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let is_bounded = !rest[digits..].chars().next().is_some_and(is_word);
        (digits >= MIN_DIGITS && is_bounded).then_some(start + digits)
    }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The regular expression, tried at each position with every length, the longest first.
    fn matches_of_the_expression(text: &str) -> Vec<String> {
        let chars: Vec<char> = text.chars().collect();
        let is_identifier = |part: &[char]| {
            part.len() >= 7
                && (part[0].is_ascii_alphabetic() || part[0] == '_')
                && part[1..part.len() - 1].iter().all(|c| is_word(*c) || "./-".contains(*c))
                && is_word(part[part.len() - 1])
        };
        let is_number = |start: usize, end: usize| {
            end - start >= 3
                && chars[start..end].iter().all(char::is_ascii_digit)
                && !(start > 0 && is_word(chars[start - 1]))
                && !chars.get(end).is_some_and(|c| is_word(*c))
        };
        let (mut found, mut start) = (Vec::new(), 0);
        while start < chars.len() {
            let ends = || (start + 1..=chars.len()).rev();
            let end = ends()
                .find(|end| is_identifier(&chars[start..*end]))
                .or_else(|| ends().find(|end| is_number(start, *end)));
            if let Some(end) = end {
                found.push(chars[start..end].iter().collect());
            }
            start = end.unwrap_or(start + 1);
        }
        found
    }

    #[test]
    fn identifiers_paths_and_numbers_are_terms() {
        let text = "see src/session/mod.rs: fn read_all() at 1024, x.123 ab123 12 élanvital a-b.c... short";
        let found: Vec<&str> = terms(text).collect();
        assert_eq!(found, ["src/session/mod.rs", "read_all", "1024", "123", "lanvital"]);
    }

    proptest! {
        #[test]
        fn the_scanner_finds_what_the_expression_matches(text in "[a-c_Zé0-9./ -]{0,60}") {
            let found: Vec<&str> = terms(&text).collect();
            prop_assert_eq!(found, matches_of_the_expression(&text));
        }
    }
}
