//! Text analysis: turns a text into the normalized terms that it is searched by, and weighs them by BM25.
//!
//! A word is a run of letters, digits and underscores. Analysis removes case and accents, and stems English words
//! after Porter. An identifier gives one term per subword and one for the whole without underscores. So
//! `parse_http_header` and `parseHttpHeader` match each other, match `http`, and match themselves best. Scripts without
//! spaces between words give characters and bigrams.
//!
//! One pass over the bytes, in time linear in the text. ASCII words of a single subword take a fast path, because
//! nearly all words are such words. Unicode normalization runs only on words that are not ASCII.
//!
//! The BM25 scorer of the engine and the index of a document folder share these terms and weights ([`idf`],
//! [`tf_factor`]), so they agree about the relevance of a text.
//!
//! ```
//! use pannier_text::for_each_term;
//!
//! let mut terms = Vec::new();
//! let words = for_each_term("Rolling back deployments", 0, |term| terms.push(term.text.to_owned()));
//! assert_eq!(words, 3);
//! assert_eq!(terms, ["roll", "back", "deploy"]);
//! ```

/// Implements a trait for references, boxes and shared pointers to its implementors.
#[doc(hidden)]
#[macro_export]
macro_rules! forward {
    ($trait:ident $methods:tt) => {
        $crate::forward!(@ $trait, &T, $methods);
        $crate::forward!(@ $trait, Box<T>, $methods);
        $crate::forward!(@ $trait, std::sync::Arc<T>, $methods);
    };
    (@ $trait:ident, $pointer:ty, { $(
        fn $method:ident$(<$lifetime:lifetime>)?(
            &$self:ident $(, $argument:ident: $type:ty)* $(,)?
        ) -> $output:ty;
    )+ }) => {
        impl<T: $trait + ?Sized> $trait for $pointer {
            $(fn $method$(<$lifetime>)?(&$self $(, $argument: $type)*) -> $output {
                (**$self).$method($($argument),*)
            })+
        }
    };
}

mod bm25;
mod memo;
mod shingles;
mod stem;
mod token_counter;

pub use bm25::{B, K1, idf, tf_factor};
pub use memo::Memo;
pub use shingles::{SHINGLE_LEN, WordSequence, split_words};
pub use token_counter::{Exactness, TokenCounter};

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use stem::stem;

/// Longer words are truncated: they are data, not words that somebody searches for.
const MAX_TERM_BYTES: usize = 256;

/// Stop words, by their stems. Words that programs are made of (if, not, from, with) are not stop words.
const STOP_WORDS: [&str; 47] = [
    "a", "an", "ar", "be", "been", "can", "could", "did", "do", "doe", "ha", "had", "have", "he",
    "her", "hi", "how", "i", "it", "my", "of", "our", "s", "she", "should", "t", "that", "the",
    "their", "they", "these", "thi", "those", "to", "wa", "we", "were", "what", "which", "who",
    "whose", "why", "will", "would", "you", "your", "am",
];

/// Returns whether a term is a stop word: `the`, `how`, `would` and some forty others.
pub fn is_stop_word(term: &str) -> bool {
    STOP_WORDS.contains(&term)
}

/// Returns the version of the analyzer. Two builds with equal versions give the same terms for any text, apart from the
/// Unicode tables of the standard library.
pub fn analyzer_version() -> String {
    let (major, minor, patch) = unicode_normalization::UNICODE_VERSION;
    format!("terms 1: Porter, identifiers, pairs; normalized by Unicode {major}.{minor}.{patch}")
}

/// A term of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Term<'t> {
    /// The normalized text.
    pub text: &'t str,
    /// Its position among the words of the text.
    pub position: u32,
    /// Whether another term has the same position (a position increment of 0): a whole identifier, a bigram.
    pub shares_position: bool,
}

/// Calls `f` with every term of a text, and returns the position after the last word. If the first position is 0, that
/// is the number of words. A whole identifier follows its subwords and has the position of the first one.
pub fn for_each_term(text: &str, first_position: u32, mut f: impl FnMut(Term<'_>)) -> u32 {
    for_each_word(&[true; 256], text, first_position, |word, position, shares_position| {
        stem(word);
        if let Some(text) = term_text(word) {
            f(Term { text, position, shares_position });
        }
    })
}

/// A set of terms to find in texts.
///
/// A text has few different words, so it caches which of the terms each word gives.
///
/// ```
/// use pannier_text::TermSet;
///
/// let mut set = TermSet::new(["deploy", "roll"]);
/// let mut found = Vec::new();
/// let words = set.for_each_in("Rolling back deployments", |index, position, _| found.push((index, position)));
/// assert_eq!((words, found), (3, vec![(1, 0), (0, 2)]));
/// ```
#[derive(Clone, Debug)]
pub struct TermSet<'t> {
    /// Each with its index, ascending.
    terms: Vec<(&'t str, usize)>,
    /// The first bytes of the terms. The first byte of a lowercased word is the first byte of its term.
    first_bytes: [bool; 256],
    /// The position of a word's term in `terms`, or a greater number.
    known: Memo<usize>,
}

impl<'t> TermSet<'t> {
    /// Returns a set of different terms.
    pub fn new(terms: impl IntoIterator<Item = &'t str>) -> Self {
        let mut terms: Vec<(&str, usize)> = terms.into_iter().zip(0..).collect();
        terms.sort_unstable();
        let mut first_bytes = [false; 256];
        for byte in terms.iter().filter_map(|(term, _)| term.bytes().next()) {
            first_bytes[usize::from(byte)] = true;
        }
        Self { terms, first_bytes, known: Memo::default() }
    }

    /// Calls `f` with every term of the set in a text: its index, its position, and whether another term shares the
    /// position. Returns the number of words, as [`for_each_term`] does.
    pub fn for_each_in(&mut self, text: &str, mut f: impl FnMut(usize, u32, bool)) -> u32 {
        let Self { terms, first_bytes, known } = self;
        for_each_word(first_bytes, text, 0, |word, position, shares_position| {
            let found = known.get(word, |word| {
                let mut word = word.to_vec();
                stem(&mut word);
                let text = term_text(&word).unwrap_or_default();
                terms.binary_search_by(|(term, _)| (*term).cmp(text)).unwrap_or(usize::MAX)
            });
            if let Some((_, index)) = terms.get(found) {
                f(*index, position, shares_position);
            }
        })
    }
}

/// Calls `f` with every word whose first byte is marked, lowercased and not yet stemmed, with its position and whether
/// another word shares that. Other words count towards positions, too.
fn for_each_word(
    first_bytes: &[bool; 256],
    text: &str,
    first_position: u32,
    f: impl FnMut(&mut Vec<u8>, u32, bool),
) -> u32 {
    let (term, whole) = (Vec::new(), Vec::new());
    let mut analyzer = Analyzer { term, whole, position: first_position, first_bytes, f };
    let mut rest = text;
    while let Some(start) = rest.bytes().position(|byte| class(byte) != ByteClass::Separator) {
        rest = &rest[start..];
        let end = ascii_word_end(rest.as_bytes());
        if end > 0 {
            analyzer.ascii_word(&rest[..end]);
            rest = &rest[end..];
            continue;
        }
        let Some(start) = rest.find(is_word) else { break };
        rest = &rest[start..];
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        analyzer.run(&rest[..end]);
        rest = &rest[end..];
    }
    analyzer.position
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ByteClass {
    Separator,
    LowercaseOrDigit,
    Uppercase,
    /// An underscore, or a byte of a character that is not ASCII.
    Other,
}

#[inline]
fn class(byte: u8) -> ByteClass {
    CLASSES[usize::from(byte)]
}

const CLASSES: [ByteClass; 256] = {
    let mut classes = [ByteClass::Separator; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' | b'0'..=b'9' => ByteClass::LowercaseOrDigit,
            b'A'..=b'Z' => ByteClass::Uppercase,
            b'_' | 128.. => ByteClass::Other,
            _ => ByteClass::Separator,
        };
        byte += 1;
    }
    classes
};

/// Returns the end of a word of lowercase ASCII letters and digits, of which the first may be uppercase: such a word has
/// one subword. 0 if the text starts with anything else.
fn ascii_word_end(text: &[u8]) -> usize {
    let is_ascii_word = text.first().is_some_and(|byte| class(*byte) != ByteClass::Other);
    let after = text.get(1..).unwrap_or_default();
    let end =
        1 + after.iter().take_while(|byte| class(**byte) == ByteClass::LowercaseOrDigit).count();
    let ends = text.get(end).is_none_or(|byte| class(*byte) == ByteClass::Separator);
    if is_ascii_word && ends { end } else { 0 }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric()
        || c == '_'
        || !c.is_ascii() && (c.is_alphanumeric() || is_combining_mark(c))
}

/// Returns whether a letter belongs to a script with few or no spaces between words.
fn is_unsegmented_script(c: char) -> bool {
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

/// Splits runs of word characters into lowercased words.
struct Analyzer<'b, F> {
    term: Vec<u8>,
    whole: Vec<u8>,
    position: u32,
    /// The first bytes of the words that the caller wants.
    first_bytes: &'b [bool; 256],
    f: F,
}

impl<F: FnMut(&mut Vec<u8>, u32, bool)> Analyzer<'_, F> {
    fn run(&mut self, run: &str) {
        if run.is_ascii() {
            return self.word(run);
        }
        let composed: String = run.nfkc().collect();
        let mut rest = composed.as_str();
        while let Some(first) = rest.chars().next() {
            let is_unsegmented = is_unsegmented_script(first);
            let is_other =
                |c: char| is_unsegmented_script(c) != is_unsegmented && !is_combining_mark(c);
            let end = rest.find(is_other).unwrap_or(rest.len());
            let (part, after) = rest.split_at(end);
            if is_unsegmented {
                self.bigrams(part);
            } else {
                self.word(part);
            }
            rest = after;
        }
    }

    /// Emits an ASCII word of one subword.
    fn ascii_word(&mut self, word: &str) {
        let word = &word.as_bytes()[..word.len().min(MAX_TERM_BYTES)];
        if word.first().is_some_and(|byte| self.first_bytes[usize::from(byte.to_ascii_lowercase())])
        {
            self.term.clear();
            self.term.extend_from_slice(word);
            self.term.make_ascii_lowercase();
            (self.f)(&mut self.term, self.position, false);
        }
        self.position = self.position.saturating_add(1);
    }

    /// Emits the subwords of a word, and the whole if it is an identifier of several.
    fn word(&mut self, word: &str) {
        let first_position = self.position;
        self.whole.clear();
        let mut rest = word;
        while !rest.is_empty() {
            let (subword, after) = rest.split_at(subword_end(rest));
            self.subword(subword);
            rest = after;
        }
        if self.position > first_position + 1 && self.is_wanted(&self.whole) {
            self.whole.truncate(MAX_TERM_BYTES);
            (self.f)(&mut self.whole, first_position, true);
        }
    }

    fn subword(&mut self, subword: &str) {
        let subword = subword.trim_matches('_');
        if subword.is_empty() {
            return;
        }
        self.term.clear();
        if subword.is_ascii() {
            self.term.extend_from_slice(subword.as_bytes());
            self.term.make_ascii_lowercase();
        } else {
            let mut bytes = [0; 4];
            let letters = subword.nfkd().filter(|c| !is_combining_mark(*c));
            for c in letters.flat_map(char::to_lowercase) {
                // Two letters with more than one lowercase form.
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
        // Truncated before stemming, which takes time that grows with the word.
        self.term.truncate(MAX_TERM_BYTES);
        self.whole.extend_from_slice(&self.term);
        if self.is_wanted(&self.term) {
            (self.f)(&mut self.term, self.position, false);
        }
        self.position = self.position.saturating_add(1);
    }

    fn is_wanted(&self, word: &[u8]) -> bool {
        word.first().is_some_and(|byte| self.first_bytes[usize::from(*byte)])
    }

    /// Emits the characters and the bigrams of a text in an unsegmented script. Stemming leaves them as they are.
    fn bigrams(&mut self, text: &str) {
        let mut previous: Option<usize> = None;
        for (start, c) in text.char_indices() {
            let end = start + c.len_utf8();
            if let Some(previous) = previous {
                self.emit(&text[previous..end], self.position.saturating_sub(1), true);
            }
            self.emit(&text[start..end], self.position, false);
            self.position = self.position.saturating_add(1);
            previous = Some(start);
        }
    }

    fn emit(&mut self, word: &str, position: u32, shares_position: bool) {
        self.term.clear();
        self.term.extend_from_slice(word.as_bytes());
        (self.f)(&mut self.term, position, shares_position);
    }
}

/// Returns the end of the first subword of an identifier: after an underscore, before an uppercase letter that follows
/// a lowercase one, and before the last of several uppercase letters if a lowercase letter follows. The lowercase `s` of
/// a plural such as `IDs` does not start a subword.
fn subword_end(word: &str) -> usize {
    let mut previous = None;
    let mut has_letters = false;
    for (start, c) in word.char_indices() {
        if c == '_' && has_letters {
            return start + 1;
        }
        has_letters |= c != '_';
        if c.is_uppercase() {
            let starts_subword = match previous {
                Some(previous) if char::is_lowercase(previous) => true,
                Some(previous) if char::is_uppercase(previous) => {
                    let after = &word[start + c.len_utf8()..];
                    let plural = after.strip_prefix('s');
                    let is_plural =
                        plural.is_some_and(|rest| !rest.starts_with(char::is_lowercase));
                    after.starts_with(char::is_lowercase) && !is_plural
                }
                _ => false,
            };
            if starts_subword {
                return start;
            }
        }
        previous = Some(c);
    }
    word.len()
}

/// Returns a term as text, unless it is empty.
fn term_text(term: &[u8]) -> Option<&str> {
    let text = match std::str::from_utf8(term) {
        Ok(text) => text,
        // Truncated inside a character.
        Err(error) => std::str::from_utf8(&term[..error.valid_up_to()]).unwrap_or_default(),
    };
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn terms(text: &str) -> Vec<(String, u32)> {
        let mut terms = Vec::new();
        for_each_term(text, 0, |term| terms.push((term.text.to_owned(), term.position)));
        terms
    }

    fn term_texts(text: &str) -> String {
        terms(text).into_iter().map(|(term, _)| term).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn analysis_removes_case_accents_and_suffixes() {
        assert_eq!(
            term_texts("Running the runners' café, naïve ﬁles."),
            "run the runner cafe naiv file"
        );
        assert_eq!(term_texts("ΣΑΣ σας Straße ÅNGSTRÖM"), "σασ σασ strass angstrom");
        assert_eq!(term_texts("x = [1, 2.5];"), "x 1 2 5");
        assert_eq!(term_texts(" \n--"), "");
    }

    #[test]
    fn identifiers_give_subwords_and_the_whole() {
        for identifier in
            ["parse_http_header", "parseHttpHeader", "ParseHTTPHeader", "__parse_HTTPHeader_"]
        {
            assert_eq!(term_texts(identifier), "pars http header parsehttphead", "{identifier}");
        }
        assert_eq!(term_texts("mRNAs APIsOf IDs"), "m rna mrna api of apisof id");
        assert_eq!(term_texts("sha256 HTTP2 ALDH1 __init__"), "sha256 http2 aldh1 init");
        assert_eq!(
            terms("a parseIt b"),
            [("a", 0), ("pars", 1), ("it", 2), ("parseit", 1), ("b", 3)]
                .map(|(term, position)| (term.to_owned(), position))
        );
    }

    #[test]
    fn unsegmented_scripts_give_characters_and_bigrams() {
        assert_eq!(term_texts("東京都"), "東 東京 京 京都 都");
        assert_eq!(term_texts("Rust言語x"), "rust 言 言語 語 x");
    }

    proptest! {
        #[test]
        fn a_set_finds_its_terms_and_counts_all_words(text in "(\\PC|[ a-eA-E_]|ing|東)*", others in "(\\PC|[ a-eA-E_]|東)*") {
            let mut known = Vec::new();
            for_each_term(&others, 0, |term| known.push(term.text.to_owned()));
            known.sort();
            known.dedup();
            known.reverse();
            let mut expected = Vec::new();
            let words = for_each_term(&text, 0, |term| {
                let index = known.iter().position(|known| known == term.text);
                expected.extend(index.map(|index| (index, term.position, term.shares_position)));
            });
            let mut set = TermSet::new(known.iter().map(String::as_str));
            // What is cached is found again.
            for _ in 0..2 {
                let mut found = Vec::new();
                let counted = set.for_each_in(&text, |index, position, shares_position| {
                    found.push((index, position, shares_position));
                });
                prop_assert_eq!((words, &expected), (counted, &found));
            }
        }

        #[test]
        fn the_fast_path_for_ascii_words_gives_the_same_terms(text in "(\\PC|[ a-zA-Z0-9_]|é|e\u{301}|—|東)*") {
            let mut expected = Vec::new();
            let mut analyzer = Analyzer {
                term: Vec::new(),
                whole: Vec::new(),
                position: 0,
                first_bytes: &[true; 256],
                f: |word: &mut Vec<u8>, position: u32, _: bool| {
                    stem(word);
                    expected.extend(term_text(word).map(|text| (text.to_owned(), position)));
                },
            };
            text.split(|c| !is_word(c)).for_each(|run| analyzer.run(run));
            prop_assert_eq!(terms(&text), expected);
        }

        #[test]
        fn positions_ascend_for_any_text(text in "\\PC*") {
            let mut last = 0;
            let words = for_each_term(&text, 0, |term| {
                assert!(!term.text.is_empty() && term.text.len() <= MAX_TERM_BYTES);
                if !term.shares_position {
                    assert!(term.position >= last);
                    last = term.position;
                }
            });
            prop_assert!(words == 0 || last == words - 1);
        }
    }
}
