//! What a text is searched by: its words, with their forms folded together.
//!
//! A word is a run of letters, digits and underscores. Case and accents go, and English endings, after Porter.
//! An identifier counts by its parts and as a whole, without underscores, so that `parse_http_header` and
//! `parseHttpHeader` are found by each other, by `http`, and best by themselves. Scripts that put no blanks between words
//! count by characters and pairs of characters.
//!
//! [`Bm25Scorer`](crate::Bm25Scorer) and the index of a document cache both search by these terms and weigh them
//! by the same figures ([`rarity`], [`worth`]), so a text is as relevant to one as it is to the other.
//!
//! ```
//! use pannier_core::terms::each_term;
//!
//! let mut terms = Vec::new();
//! let words = each_term("Rolling back deployments", 0, |term| terms.push(term.text.to_owned()));
//! assert_eq!(words, 3);
//! assert_eq!(terms, ["roll", "back", "deploy"]);
//! ```

mod bm25;
mod stem;

pub use bm25::{MOST_WORTH, rarity, worth};

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use stem::stem;

/// Longer words are cut: nobody types them, and they are no words.
const LONGEST_TERM: usize = 256;

/// Words that say little about what is looked for, by their stems. Words that programs are made of (if, not, from, with) are none of them.
const STOP_WORDS: [&str; 47] = [
    "a", "an", "ar", "be", "been", "can", "could", "did", "do", "doe", "ha", "had", "have", "he",
    "her", "hi", "how", "i", "it", "my", "of", "our", "s", "she", "should", "t", "that", "the",
    "their", "they", "these", "thi", "those", "to", "wa", "we", "were", "what", "which", "who",
    "whose", "why", "will", "would", "you", "your", "am",
];

/// Whether a term says little about what is looked for: `the`, `how`, `would` and some forty others, and nothing that
/// programs are made of.
pub fn says_little(term: &str) -> bool {
    STOP_WORDS.contains(&term)
}

/// How terms are made, in words: two builds that say the same make the same terms of any text, but for the Unicode of
/// the standard library.
pub fn version() -> String {
    let (major, minor, patch) = unicode_normalization::UNICODE_VERSION;
    format!("terms 1: Porter, identifiers, pairs; normalized by Unicode {major}.{minor}.{patch}")
}

/// A term of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Term<'t> {
    /// What is compared.
    pub text: &'t str,
    /// Its place among the words of the text.
    pub place: u32,
    /// Whether it stands beside the words, not for one of them: a whole identifier, a pair of characters.
    pub is_extra: bool,
}

/// Calls a function with every term of a text, and returns the place behind its last word: with a first place of 0, how
/// many words there are. Whole identifiers come behind their parts, with the place of the first.
pub fn each_term(text: &str, first: u32, f: impl FnMut(Term<'_>)) -> u32 {
    each_term_beginning(&[true; 256], text, first, f)
}

/// As [`each_term`], for those who look for few terms: words that give a term with another first byte are counted, and
/// not told of unless that is no work. The first byte of a word in small letters is the first byte of its term.
pub(crate) fn each_term_beginning(
    bytes: &[bool; 256],
    text: &str,
    first: u32,
    f: impl FnMut(Term<'_>),
) -> u32 {
    let mut maker = Maker { term: Vec::new(), whole: Vec::new(), place: first, bytes, f };
    let mut rest = text;
    while let Some(start) = rest.bytes().position(|byte| class(byte) != Class::Blank) {
        rest = &rest[start..];
        let end = simple_end(rest.as_bytes());
        // Most words by far are simple.
        if end > 0 {
            maker.simple(&rest[..end]);
            rest = &rest[end..];
            continue;
        }
        let Some(start) = rest.find(is_word) else { break };
        rest = &rest[start..];
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        maker.run(&rest[..end]);
        rest = &rest[end..];
    }
    maker.place
}

/// What a byte is, as far as it can tell by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// No part of a word.
    Blank,
    /// A small letter or a digit.
    Small,
    Capital,
    /// An underscore, or a byte of something that is not ASCII.
    Other,
}

fn class(byte: u8) -> Class {
    match byte {
        b'a'..=b'z' | b'0'..=b'9' => Class::Small,
        b'A'..=b'Z' => Class::Capital,
        b'_' | 128.. => Class::Other,
        _ => Class::Blank,
    }
}

/// Where a word ends that is all small letters and digits, but perhaps for its first: it has one part. 0 if the text
/// begins with anything else.
fn simple_end(text: &[u8]) -> usize {
    let is_simple = text.first().is_some_and(|byte| class(*byte) != Class::Other);
    let after = text.get(1..).unwrap_or_default();
    let end = 1 + after.iter().take_while(|byte| class(**byte) == Class::Small).count();
    let ends = text.get(end).is_none_or(|byte| class(*byte) == Class::Blank);
    if is_simple && ends { end } else { 0 }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric()
        || c == '_'
        || !c.is_ascii() && (c.is_alphanumeric() || is_combining_mark(c))
}

/// Letters of scripts that put no blanks between words, or few.
fn is_unspaced(c: char) -> bool {
    matches!(
        u32::from(c),
        0x0e00..=0x0eff         // Thai, Lao
        | 0x1000..=0x109f       // Myanmar
        | 0x1780..=0x17ff       // Khmer
        | 0x3040..=0x30ff       // Kana
        | 0x3400..=0x4dbf
        | 0x4e00..=0x9fff       // Han
        | 0xac00..=0xd7af       // Hangul
        | 0xf900..=0xfaff
        | 0x20000..=0x3ffff
    )
}

/// Makes terms of runs of word characters.
struct Maker<'b, F> {
    term: Vec<u8>,
    whole: Vec<u8>,
    place: u32,
    /// With which bytes the terms begin that are asked for.
    bytes: &'b [bool; 256],
    f: F,
}

impl<F: FnMut(Term<'_>)> Maker<'_, F> {
    fn run(&mut self, run: &str) {
        if run.is_ascii() {
            return self.word(run);
        }
        let composed: String = run.nfkc().collect();
        let mut rest = composed.as_str();
        while let Some(first) = rest.chars().next() {
            let is_pairs = is_unspaced(first);
            let is_other = |c: char| is_unspaced(c) != is_pairs && !is_combining_mark(c);
            let end = rest.find(is_other).unwrap_or(rest.len());
            let (part, after) = rest.split_at(end);
            if is_pairs {
                self.pairs(part);
            } else {
                self.word(part);
            }
            rest = after;
        }
    }

    /// A word of ASCII that has one part.
    fn simple(&mut self, word: &str) {
        let mut letters = word.bytes().map(|byte| byte.to_ascii_lowercase());
        if letters.clone().next().is_some_and(|byte| self.bytes[usize::from(byte)]) {
            self.term.clear();
            self.term.extend(letters.by_ref().take(LONGEST_TERM));
            stem(&mut self.term);
            tell(&mut self.f, &self.term, self.place, false);
        }
        self.place = self.place.saturating_add(1);
    }

    /// A word, or an identifier of several.
    fn word(&mut self, word: &str) {
        let first = self.place;
        self.whole.clear();
        let mut rest = word;
        while !rest.is_empty() {
            let (part, after) = rest.split_at(part_end(rest));
            self.part(part);
            rest = after;
        }
        if self.place > first + 1 && self.is_asked_for(&self.whole) {
            self.whole.truncate(LONGEST_TERM);
            stem(&mut self.whole);
            tell(&mut self.f, &self.whole, first, true);
        }
    }

    /// A part of an identifier, or a whole word.
    fn part(&mut self, part: &str) {
        let part = part.trim_matches('_');
        if part.is_empty() {
            return;
        }
        self.term.clear();
        if part.is_ascii() {
            self.term.extend(part.bytes().map(|byte| byte.to_ascii_lowercase()));
        } else {
            let mut bytes = [0; 4];
            for c in part.nfkd().filter(|c| !is_combining_mark(*c)).flat_map(char::to_lowercase) {
                // Two letters that have more than one small form.
                self.term.extend_from_slice(match c {
                    'ς' => "σ".as_bytes(),
                    'ß' => b"ss",
                    c => c.encode_utf8(&mut bytes).as_bytes(),
                });
            }
        }
        if self.term.is_empty() {
            return;
        }
        // Nobody looks for more, and what follows takes time.
        self.term.truncate(LONGEST_TERM);
        self.whole.extend_from_slice(&self.term);
        if self.is_asked_for(&self.term) {
            stem(&mut self.term);
            tell(&mut self.f, &self.term, self.place, false);
        }
        self.place = self.place.saturating_add(1);
    }

    fn is_asked_for(&self, word: &[u8]) -> bool {
        word.first().is_some_and(|byte| self.bytes[usize::from(*byte)])
    }

    /// Characters, and pairs of them.
    fn pairs(&mut self, text: &str) {
        let mut last: Option<usize> = None;
        for (at, c) in text.char_indices() {
            let end = at + c.len_utf8();
            if let Some(last) = last {
                tell(&mut self.f, &text.as_bytes()[last..end], self.place.saturating_sub(1), true);
            }
            tell(&mut self.f, &text.as_bytes()[at..end], self.place, false);
            self.place = self.place.saturating_add(1);
            last = Some(at);
        }
    }
}

/// Where the first part of an identifier ends: behind an underscore, before a capital behind a small letter, and before the
/// last of several capitals if a small letter follows that is not the s of a plural.
fn part_end(word: &str) -> usize {
    let mut before = None;
    let mut has_letters = false;
    for (at, c) in word.char_indices() {
        if c == '_' && has_letters {
            return at + 1;
        }
        has_letters |= c != '_';
        if c.is_uppercase() {
            let is_new = match before {
                Some(before) if char::is_lowercase(before) => true,
                Some(before) if char::is_uppercase(before) => {
                    let after = &word[at + c.len_utf8()..];
                    let plural = after.strip_prefix('s');
                    let is_plural =
                        plural.is_some_and(|rest| !rest.starts_with(char::is_lowercase));
                    after.starts_with(char::is_lowercase) && !is_plural
                }
                _ => false,
            };
            if is_new {
                return at;
            }
        }
        before = Some(c);
    }
    word.len()
}

fn tell(f: &mut impl FnMut(Term<'_>), term: &[u8], place: u32, is_extra: bool) {
    let text = match std::str::from_utf8(term) {
        Ok(text) => text,
        // Cut in the middle of a character.
        Err(error) => std::str::from_utf8(&term[..error.valid_up_to()]).unwrap_or_default(),
    };
    if text.is_empty() {
        return;
    }
    f(Term { text, place, is_extra });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn terms(text: &str) -> Vec<(String, u32)> {
        let mut found = Vec::new();
        each_term(text, 0, |term| found.push((term.text.to_owned(), term.place)));
        found
    }

    fn shown(text: &str) -> String {
        terms(text).into_iter().map(|(term, _)| term).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn words_are_folded() {
        assert_eq!(
            shown("Running the runners' café, naïve ﬁles."),
            "run the runner cafe naiv file"
        );
        assert_eq!(shown("ΣΑΣ σας Straße ÅNGSTRÖM"), "σασ σασ strass angstrom");
        assert_eq!(shown("x = [1, 2.5];"), "x 1 2 5");
        assert_eq!(shown(" \n--"), "");
    }

    #[test]
    fn identifiers_count_by_parts_and_as_a_whole() {
        for identifier in
            ["parse_http_header", "parseHttpHeader", "ParseHTTPHeader", "__parse_HTTPHeader_"]
        {
            assert_eq!(shown(identifier), "pars http header parsehttphead", "{identifier}");
        }
        assert_eq!(shown("mRNAs APIsOf IDs"), "m rna mrna api of apisof id");
        assert_eq!(shown("sha256 HTTP2 ALDH1 __init__"), "sha256 http2 aldh1 init");
        assert_eq!(
            terms("a parseIt b"),
            [("a", 0), ("pars", 1), ("it", 2), ("parseit", 1), ("b", 3)]
                .map(|(term, place)| (term.to_owned(), place))
        );
    }

    #[test]
    fn scripts_without_blanks_count_by_characters_and_pairs() {
        assert_eq!(shown("東京都"), "東 東京 京 京都 都");
        assert_eq!(shown("Rust言語x"), "rust 言 言語 語 x");
    }

    proptest! {
        #[test]
        fn terms_with_other_beginnings_are_counted_all_the_same(text in "(\\PC|[ a-zA-Z_])*", byte in 0..=255_u8) {
            let mut bytes = [false; 256];
            bytes[usize::from(byte)] = true;
            let begins = |term: &Term<'_>| term.text.as_bytes()[0] == byte;
            let (mut all, mut some) = (Vec::new(), Vec::new());
            let words = each_term(&text, 0, |term| {
                if begins(&term) {
                    all.push((term.text.to_owned(), term.place));
                }
            });
            let counted = each_term_beginning(&bytes, &text, 0, |term| {
                if begins(&term) {
                    some.push((term.text.to_owned(), term.place));
                }
            });
            prop_assert_eq!((words, all), (counted, some));
        }

        #[test]
        fn simple_words_are_what_they_are_as_runs(text in "(\\PC|[ a-zA-Z0-9_]|é|e\u{301}|—|東)*") {
            let mut plainly = Vec::new();
            let mut maker = Maker {
                term: Vec::new(),
                whole: Vec::new(),
                place: 0,
                bytes: &[true; 256],
                f: |term: Term<'_>| plainly.push((term.text.to_owned(), term.place)),
            };
            text.split(|c| !is_word(c)).for_each(|run| maker.run(run));
            prop_assert_eq!(terms(&text), plainly);
        }

        #[test]
        fn any_text_has_terms_in_order(text in "\\PC*") {
            let mut last = 0;
            let words = each_term(&text, 0, |term| {
                assert!(!term.text.is_empty() && term.text.len() <= LONGEST_TERM);
                if !term.is_extra {
                    assert!(term.place >= last);
                    last = term.place;
                }
            });
            prop_assert!(words == 0 || last == words - 1);
        }
    }
}
