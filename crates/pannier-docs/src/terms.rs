//! What a text is searched by: its words, with their forms folded together.
//!
//! A word is a run of letters, digits and underscores. Case and accents go, and English endings ([`stem`](crate::stem)).
//! An identifier counts by its parts and as a whole, without underscores, so that `parse_http_header` and
//! `parseHttpHeader` are found by each other, by `http`, and best by themselves. Scripts that put no blanks between words
//! count by characters and pairs of characters.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::index::Distinct;
use crate::stem::stem;
use crate::words::hash;

/// Longer words are cut: nobody types them, and they are no words.
const LONGEST_TERM: usize = 256;

/// What the version of a cache says about how terms were made.
pub(crate) fn terms_version() -> String {
    let (major, minor, patch) = unicode_normalization::UNICODE_VERSION;
    format!("terms 1: Porter, identifiers, pairs; normalized by Unicode {major}.{minor}.{patch}")
}

/// A term of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Term<'t> {
    pub(crate) text: &'t str,
    /// Its place among the words of the text.
    pub(crate) place: u32,
    /// Whether it stands beside the words, not for one of them: a whole identifier, a pair of characters.
    pub(crate) is_extra: bool,
}

/// Calls a function with every term of a text, and tells how many words there were. Places begin at a number.
pub(crate) fn each_term(text: &str, first: u32, f: impl FnMut(Term<'_>)) -> u32 {
    let mut maker = Maker { term: Vec::new(), whole: Vec::new(), place: first, f };
    let mut rest = text;
    while let Some(start) = rest.find(is_word) {
        rest = &rest[start..];
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        maker.run(&rest[..end]);
        rest = &rest[end..];
    }
    maker.place
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
struct Maker<F> {
    term: Vec<u8>,
    whole: Vec<u8>,
    place: u32,
    f: F,
}

impl<F: FnMut(Term<'_>)> Maker<F> {
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
        if self.place > first + 1 {
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
        stem(&mut self.term);
        tell(&mut self.f, &self.term, self.place, false);
        self.place = self.place.saturating_add(1);
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

/// The distinct terms of a text, with their places.
#[derive(Debug, Default)]
pub(crate) struct Terms {
    text: String,
    /// By hash, and then by bytes.
    entries: Vec<Entry>,
    places: Vec<u32>,
    /// How many words there are.
    pub(crate) total: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u64,
    start: u32,
    end: u32,
    /// Where its places begin, and how many there are.
    first: u32,
    count: u32,
}

impl Terms {
    /// Of texts that follow each other. No phrase goes from one to the next.
    pub(crate) fn of(texts: &[&str]) -> Self {
        let (mut text, mut found) = (String::new(), Vec::new());
        let (mut next, mut total) = (0_u32, 0_u32);
        for part in texts {
            let end = each_term(part, next, |term| {
                let start = text.len() as u32;
                text.push_str(term.text);
                found.push((hash(term.text), start, text.len() as u32, term.place));
            });
            total = total.saturating_add(end - next);
            next = end.saturating_add(1);
        }
        let word = |start: u32, end: u32| &text[start as usize..end as usize];
        // Numbers first: texts are compared only where their hashes are equal, and then mostly once.
        found.sort_unstable_by_key(|(hash, _, _, place)| (*hash, *place));
        for same in found.chunk_by_mut(|a, b| a.0 == b.0) {
            let (_, start, end, _) = same[0];
            if same.iter().any(|other| word(other.1, other.2) != word(start, end)) {
                same.sort_unstable_by(|a, b| {
                    word(a.1, a.2).cmp(word(b.1, b.2)).then(a.3.cmp(&b.3))
                });
            }
        }
        let (mut entries, mut places): (Vec<Entry>, Vec<u32>) = (Vec::new(), Vec::new());
        for (hash, start, end, place) in found {
            match entries.last_mut() {
                Some(last)
                    if last.hash == hash && word(last.start, last.end) == word(start, end) =>
                {
                    // A part may be the same as the whole.
                    if places.last() != Some(&place) {
                        places.push(place);
                        last.count += 1;
                    }
                }
                _ => {
                    entries.push(Entry { hash, start, end, first: places.len() as u32, count: 1 });
                    places.push(place);
                }
            }
        }
        Self { text, entries, places, total }
    }
}

impl Distinct for Terms {
    fn each<'w>(&'w self, mut f: impl FnMut(u64, &'w str, u32, &'w [u32])) {
        for entry in &self.entries {
            let word = &self.text[entry.start as usize..entry.end as usize];
            let first = entry.first as usize;
            f(entry.hash, word, entry.count, &self.places[first..first + entry.count as usize]);
        }
    }
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
        fn any_text_has_terms_in_order(text in "\\PC*") {
            let mut last = 0;
            let words = each_term(&text, 0, |term| {
                assert!(!term.text.is_empty() && term.text.len() <= LONGEST_TERM);
                if !term.is_extra {
                    assert!(term.place >= last);
                    last = term.place;
                }
            });
            let terms = Terms::of(&[&text]);
            prop_assert_eq!(terms.total, words);
            let mut before: Option<(u64, &str)> = None;
            terms.each(|hash, word, count, places| {
                assert_eq!(count as usize, places.len());
                assert!(places.is_sorted_by(|a, b| a < b));
                assert!(before.is_none_or(|before| before < (hash, word)));
                before = Some((hash, word));
            });
        }
    }
}
