//! The distinct terms of a document or a chunk, in the order of the index.
//!
//! The words of a document are separated by whitespace, lowercased and counted. The terms of a chunk come from text analysis
//! and have positions, for phrases.

use pannier_text::for_each_term;
use xxhash_rust::xxh3::xxh3_64;

/// The distinct terms of a text with their counts, and with their positions in a chunk.
#[derive(Debug, Default)]
pub(crate) struct TermCounts {
    text: String,
    /// Ordered by hash, then by bytes.
    entries: Vec<Entry>,
    positions: Vec<u32>,
    /// The number of words.
    pub(crate) total: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u64,
    start: u32,
    end: u32,
    /// The index of its first position. Before terms are merged, the position itself.
    first: u32,
    count: u32,
}

impl Entry {
    fn new(word: &str, start: usize, position: u32) -> Self {
        let end = (start + word.len()) as u32;
        Self { hash: hash(word), start: start as u32, end, first: position, count: 1 }
    }

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
        let words = words.map(|(word, at)| Entry::new(word, word.as_ptr() as usize - base, at));
        let words: Vec<Entry> = words.collect();
        let total = words.len() as u32;
        Self { positions: Vec::new(), ..Self::merge(text, words, total) }
    }

    /// Analyzes consecutive texts of a chunk. A gap in the positions keeps phrases from matching across two texts.
    pub(crate) fn of_chunk(texts: &[&str]) -> Self {
        let (mut text, mut terms) = (String::new(), Vec::new());
        let (mut next, mut total) = (0_u32, 0_u32);
        for source in texts {
            let end = for_each_term(source, next, |term| {
                terms.push(Entry::new(term.text, text.len(), term.position));
                text.push_str(term.text);
            });
            total = total.saturating_add(end - next);
            next = end.saturating_add(1);
        }
        Self::merge(text, terms, total)
    }

    /// Sorts occurrences and merges those of the same term.
    fn merge(text: String, mut terms: Vec<Entry>, total: u32) -> Self {
        // Sorting by hash first compares strings only among equal hashes.
        terms.sort_unstable_by_key(|term| (term.hash, term.first));
        for same in terms.chunk_by_mut(|a, b| a.hash == b.hash) {
            let first = same[0].word(&text);
            if same.iter().any(|term| term.word(&text) != first) {
                same.sort_unstable_by_key(|term| (term.word(&text), term.first));
            }
        }
        let (mut entries, mut positions): (Vec<Entry>, Vec<u32>) = Default::default();
        for term in terms {
            match entries.last_mut() {
                Some(last) if last.hash == term.hash && last.word(&text) == term.word(&text) => {
                    // A subword may equal its whole word.
                    if positions.last() == Some(&term.first) {
                        continue;
                    }
                    last.count += 1;
                }
                _ => entries.push(Entry { first: positions.len() as u32, ..term }),
            }
            positions.push(term.first);
        }
        entries.shrink_to_fit();
        Self { text, entries, positions, total }
    }

    /// Calls `f` with the hash, the term, the count and the ascending positions of each term, ordered by hash, then by bytes.
    /// Without positions, the slice is empty.
    pub(crate) fn for_each<'w>(&'w self, mut f: impl FnMut(u64, &'w str, u32, &'w [u32])) {
        for entry in &self.entries {
            let range = entry.first as usize..(entry.first + entry.count) as usize;
            let positions = self.positions.get(range).unwrap_or_default();
            f(entry.hash, entry.word(&self.text), entry.count, positions);
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
            counts.push((word, count));
        });
        counts.sort_unstable();
        assert_eq!(counts, [("deploy", 2), ("deploy,", 1), ("the", 1), ("thing.", 1), ("ας", 1)]);
        assert_eq!(words.total, 6);
        assert_eq!(TermCounts::of_document(" \n").total, 0);
        assert_eq!(terms(" Deploy  X deploy "), ["deploy", "x", "deploy"]);
    }

    proptest! {
        #[test]
        fn terms_are_distinct_and_ordered(text in "\\PC*") {
            let terms = TermCounts::of_chunk(&[&text]);
            prop_assert_eq!(terms.total, for_each_term(&text, 0, |_| {}));
            let mut before: Option<(u64, &str)> = None;
            terms.for_each(|hash, word, count, positions| {
                assert_eq!(count as usize, positions.len());
                assert!(positions.is_sorted_by(|a, b| a < b));
                assert!(before.is_none_or(|before| before < (hash, word)));
                before = Some((hash, word));
            });
        }
    }
}
