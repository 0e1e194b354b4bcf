//! Word counts of a whole document: words are separated by whitespace and lowercased.

use xxhash_rust::xxh3::xxh3_64;

use crate::inverted_index::DistinctTerms;

/// The distinct words of a text with their counts.
#[derive(Debug, Default)]
pub(crate) struct WordCounts {
    /// The lowercased text.
    text: String,
    /// The distinct words, ordered by hash, then by bytes.
    entries: Vec<Entry>,
    /// The number of words.
    pub(crate) total: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u64,
    start: u32,
    end: u32,
    count: u32,
}

/// Returns the hash that orders words in the index.
pub(crate) fn hash(word: &str) -> u64 {
    xxh3_64(word.as_bytes())
}

impl WordCounts {
    /// Counts the words of `text`. The lowercased text must be shorter than 4 GiB.
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
        // Sorting by hash first compares strings only among equal hashes.
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

    /// Returns the distinct words with their hashes and counts, ordered by hash, then by bytes.
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

/// Returns the words of a query: lowercased, in order, with repetitions.
pub(crate) fn terms(query: &str) -> Vec<String> {
    query.to_lowercase().split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_lowercased_and_keep_punctuation() {
        let words = WordCounts::new("Deploy the\u{2003}thing.\nDEPLOY, deploy ΑΣ");
        let mut counts: Vec<_> = words.distinct().map(|(_, word, count)| (word, count)).collect();
        counts.sort_unstable();
        assert_eq!(counts, [("deploy", 2), ("deploy,", 1), ("the", 1), ("thing.", 1), ("ας", 1)]);
        assert_eq!(words.total, 6);
        assert_eq!(WordCounts::new(" \n").total, 0);
        assert_eq!(terms(" Deploy  X deploy "), ["deploy", "x", "deploy"]);
    }
}
