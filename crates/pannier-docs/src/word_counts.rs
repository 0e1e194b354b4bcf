//! The words of a document: what stands between white space, in lower case.

use xxhash_rust::xxh3::xxh3_64;

use crate::inverted_index::DistinctTerms;

/// How often each word of a text occurs.
#[derive(Debug, Default)]
pub(crate) struct WordCounts {
    /// The text in lower case.
    text: String,
    /// The distinct words, by hash and then by their bytes.
    entries: Vec<Entry>,
    /// How many words there are.
    pub(crate) total: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u64,
    start: u32,
    end: u32,
    count: u32,
}

/// The hash by which words are ordered.
pub(crate) fn hash(word: &str) -> u64 {
    xxh3_64(word.as_bytes())
}

impl WordCounts {
    /// Of a text that has fewer than 2^32 bytes in lower case.
    pub(crate) fn new(text: &str) -> Self {
        let text = text.to_lowercase();
        let base = text.as_ptr() as usize;
        let mut entries: Vec<Entry> = text
            .split_whitespace()
            .map(|word| {
                let start = word.as_ptr() as usize - base;
                let (start, end) = (start as u32, (start + word.len()) as u32);
                Entry { hash: hash(word), start, end, count: 1 }
            })
            .collect();
        let total = entries.len() as u32;
        let word = |entry: &Entry| &text[entry.start as usize..entry.end as usize];
        // Numbers first: texts are compared only where their hashes are equal, and then mostly once.
        entries.sort_unstable_by_key(|entry| entry.hash);
        for same in entries.chunk_by_mut(|a, b| a.hash == b.hash) {
            if same.iter().any(|entry| word(entry) != word(&same[0])) {
                same.sort_unstable_by(|a, b| word(a).cmp(word(b)));
            }
        }
        entries.dedup_by(|next, kept| {
            let is_same = next.hash == kept.hash && word(next) == word(kept);
            kept.count += u32::from(is_same);
            is_same
        });
        entries.shrink_to_fit();
        Self { text, entries, total }
    }

    /// The distinct words with their hashes and counts, by hash and then by their bytes.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn distinct(&self) -> impl Iterator<Item = (u64, &str, u32)> {
        self.entries.iter().map(|entry| {
            (entry.hash, &self.text[entry.start as usize..entry.end as usize], entry.count)
        })
    }
}

impl DistinctTerms for WordCounts {
    fn for_each<'w>(&'w self, mut f: impl FnMut(u64, &'w str, u32, &'w [u32])) {
        for entry in &self.entries {
            let word = &self.text[entry.start as usize..entry.end as usize];
            f(entry.hash, word, entry.count, &[]);
        }
    }
}

/// The terms of a query, as they are written in answers: in lower case, in their order, with repetitions.
pub(crate) fn terms(query: &str) -> Vec<String> {
    query.to_lowercase().split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_in_lower_case_and_punctuation_stays() {
        let words = WordCounts::new("Deploy the\u{2003}thing.\nDEPLOY, deploy ΑΣ");
        let mut found: Vec<_> = words.distinct().map(|(_, word, count)| (word, count)).collect();
        found.sort_unstable();
        assert_eq!(found, [("deploy", 2), ("deploy,", 1), ("the", 1), ("thing.", 1), ("ας", 1)]);
        assert_eq!(words.total, 6);
        assert_eq!(WordCounts::new(" \n").total, 0);
        assert_eq!(terms(" Deploy  X deploy "), ["deploy", "x", "deploy"]);
    }
}
