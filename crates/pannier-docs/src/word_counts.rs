//! The distinct terms of a document or a chunk, in the order of the index.
//!
//! The words of a document are separated by whitespace, lowercased and counted. The terms of a chunk come from text analysis,
//! are counted by field, and have positions in the body, for phrases.

use pannier_text::for_each_term;
use xxhash_rust::xxh3::xxh3_64;

/// The distinct terms of a text with their counts, and with their positions in a chunk.
#[derive(Debug, Default)]
pub(crate) struct TermCounts {
    text: String,
    /// Ordered by hash, then by bytes.
    entries: Vec<Entry>,
    positions: Vec<u32>,
    /// The number of words in the body.
    pub(crate) total: u32,
}

/// A field of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Field {
    Body,
    Path,
    Symbols,
}

/// The counts of a term in the fields of a chunk. A document has only a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FieldCounts {
    pub(crate) body: u32,
    pub(crate) path: u32,
    pub(crate) symbols: u32,
}

impl FieldCounts {
    pub(crate) fn in_body(count: u32) -> Self {
        Self { body: count, ..Self::default() }
    }

    fn add(&mut self, field: Field) {
        let count = match field {
            Field::Body => &mut self.body,
            Field::Path => &mut self.path,
            Field::Symbols => &mut self.symbols,
        };
        *count += 1;
    }
}

/// A term with its counts.
#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u64,
    start: u32,
    end: u32,
    /// The index of its first position in the body.
    first: u32,
    counts: FieldCounts,
}

/// An occurrence of a term.
#[derive(Clone, Copy, Debug)]
struct Occurrence {
    hash: u64,
    start: u32,
    end: u32,
    field: Field,
    position: u32,
}

impl Occurrence {
    fn new(word: &str, start: usize, field: Field, position: u32) -> Self {
        let end = (start + word.len()) as u32;
        Self { hash: hash(word), start: start as u32, end, field, position }
    }

    fn word<'t>(&self, text: &'t str) -> &'t str {
        &text[self.start as usize..self.end as usize]
    }
}

impl Entry {
    fn word<'t>(&self, text: &'t str) -> &'t str {
        &text[self.start as usize..self.end as usize]
    }
}

/// Returns the hash that orders words in the index.
pub(crate) fn hash(word: &str) -> u64 {
    xxh3_64(word.as_bytes())
}

impl TermCounts {
    /// Counts the words of a document. The lowercased text must be shorter than 4 GiB.
    pub(crate) fn of_document(text: &str) -> Self {
        let text = text.to_lowercase();
        let base = text.as_ptr() as usize;
        let words = text.split_whitespace().zip(0..);
        let words = words.map(|(word, at)| {
            Occurrence::new(word, word.as_ptr() as usize - base, Field::Body, at)
        });
        let words: Vec<Occurrence> = words.collect();
        let total = words.len() as u32;
        Self { positions: Vec::new(), ..Self::merge(text, words, total) }
    }

    /// Analyzes consecutive texts of a chunk's body, the path of its document and the symbols that it defines. A gap in the
    /// positions keeps phrases from matching across two texts.
    pub(crate) fn of_chunk(texts: &[&str], path: &str, symbols: &str) -> Self {
        let (mut text, mut terms) = (String::new(), Vec::new());
        let (mut next, mut total) = (0_u32, 0_u32);
        let mut analyze = |source: &str, field, first| {
            for_each_term(source, first, |term| {
                terms.push(Occurrence::new(term.text, text.len(), field, term.position));
                text.push_str(term.text);
            })
        };
        for source in texts {
            let end = analyze(source, Field::Body, next);
            total = total.saturating_add(end - next);
            next = end.saturating_add(1);
        }
        analyze(path, Field::Path, 0);
        analyze(symbols, Field::Symbols, 0);
        Self::merge(text, terms, total)
    }

    /// Sorts occurrences and merges those of the same term.
    fn merge(text: String, mut terms: Vec<Occurrence>, total: u32) -> Self {
        // Sorting by hash first compares strings only among equal hashes.
        terms.sort_unstable_by_key(|term| (term.hash, term.field, term.position));
        for same in terms.chunk_by_mut(|a, b| a.hash == b.hash) {
            let first = same[0].word(&text);
            if same.iter().any(|term| term.word(&text) != first) {
                same.sort_unstable_by_key(|term| (term.word(&text), term.field, term.position));
            }
        }
        let (mut entries, mut positions): (Vec<Entry>, Vec<u32>) = Default::default();
        let mut last_place = None;
        for term in terms {
            let place = (term.field, term.position);
            match entries.last_mut() {
                Some(last) if last.hash == term.hash && last.word(&text) == term.word(&text) => {
                    // A subword may equal its whole word.
                    if last_place == Some(place) {
                        continue;
                    }
                    last.counts.add(term.field);
                }
                _ => {
                    let Occurrence { hash, start, end, .. } = term;
                    let mut counts = FieldCounts::default();
                    counts.add(term.field);
                    entries.push(Entry { hash, start, end, first: positions.len() as u32, counts });
                }
            }
            last_place = Some(place);
            if term.field == Field::Body {
                positions.push(term.position);
            }
        }
        entries.shrink_to_fit();
        Self { text, entries, positions, total }
    }

    /// Calls `f` with the hash, the term, the counts and the ascending positions of each term, ordered by hash, then by bytes.
    /// Without positions, the slice is empty.
    pub(crate) fn for_each<'w>(&'w self, mut f: impl FnMut(u64, &'w str, FieldCounts, &'w [u32])) {
        for entry in &self.entries {
            let range = entry.first as usize..(entry.first + entry.counts.body) as usize;
            let positions = self.positions.get(range).unwrap_or_default();
            f(entry.hash, entry.word(&self.text), entry.counts, positions);
        }
    }
}

/// Returns the words of a query: lowercased, in order, with repetitions.
pub(crate) fn terms(query: &str) -> Vec<String> {
    query.to_lowercase().split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_are_lowercased_and_keep_punctuation() {
        let words = TermCounts::of_document("Deploy the\u{2003}thing.\nDEPLOY, deploy ΑΣ");
        let mut counts: Vec<(&str, u32)> = Vec::new();
        words.for_each(|_, word, count, positions| {
            assert!(positions.is_empty());
            counts.push((word, count.body));
        });
        counts.sort_unstable();
        assert_eq!(counts, [("deploy", 2), ("deploy,", 1), ("the", 1), ("thing.", 1), ("ας", 1)]);
        assert_eq!(words.total, 6);
        assert_eq!(TermCounts::of_document(" \n").total, 0);
        assert_eq!(terms(" Deploy  X deploy "), ["deploy", "x", "deploy"]);
    }

    #[test]
    fn the_fields_of_a_chunk_are_counted_apart() {
        let terms =
            TermCounts::of_chunk(&["Title", "fn parse() {} // parse it"], "src/parse.rs", "parse");
        assert_eq!(terms.total, 5);
        let mut counts = Vec::new();
        terms.for_each(|_, word, count, positions| counts.push((word, count, positions)));
        counts.sort_unstable_by_key(|(word, ..)| *word);
        let at = |body, path, symbols| FieldCounts { body, path, symbols };
        let expected: [(&str, FieldCounts, &[u32]); 6] = [
            ("fn", at(1, 0, 0), &[2]),
            ("it", at(1, 0, 0), &[5]),
            ("pars", at(2, 1, 1), &[3, 4]),
            ("rs", at(0, 1, 0), &[]),
            ("src", at(0, 1, 0), &[]),
            ("titl", at(1, 0, 0), &[0]),
        ];
        assert_eq!(counts, expected);
    }

    proptest! {
        #[test]
        fn terms_are_distinct_and_ordered(text in "\\PC*") {
            let terms = TermCounts::of_chunk(&[&text], "", "");
            prop_assert_eq!(terms.total, for_each_term(&text, 0, |_| {}));
            let mut before: Option<(u64, &str)> = None;
            terms.for_each(|hash, word, count, positions| {
                assert_eq!(count, FieldCounts::in_body(positions.len() as u32));
                assert!(positions.is_sorted_by(|a, b| a < b));
                assert!(before.is_none_or(|before| before < (hash, word)));
                before = Some((hash, word));
            });
        }
    }
}
