//! The distinct terms of a chunk with their positions, in the order of the index.

use pannier_core::analysis::for_each_term;

use crate::inverted_index::DistinctTerms;
use crate::word_counts::hash;

/// The distinct terms of a chunk with their positions.
#[derive(Debug, Default)]
pub(crate) struct ChunkTerms {
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
    /// The index of its first position, and the number of positions.
    first: u32,
    count: u32,
}

impl ChunkTerms {
    /// Analyzes consecutive texts. A gap in the positions keeps phrases from matching across two texts.
    pub(crate) fn new(texts: &[&str]) -> Self {
        let (mut text, mut occurrences) = (String::new(), Vec::new());
        let (mut next, mut total) = (0_u32, 0_u32);
        for source in texts {
            let end = for_each_term(source, next, |term| {
                let start = text.len() as u32;
                text.push_str(term.text);
                occurrences.push((hash(term.text), start, text.len() as u32, term.position));
            });
            total = total.saturating_add(end - next);
            next = end.saturating_add(1);
        }
        let word = |start: u32, end: u32| &text[start as usize..end as usize];
        // Sorting by hash first compares strings only among equal hashes.
        occurrences.sort_unstable_by_key(|(hash, _, _, position)| (*hash, *position));
        for same in occurrences.chunk_by_mut(|a, b| a.0 == b.0) {
            let (_, start, end, _) = same[0];
            if same.iter().any(|other| word(other.1, other.2) != word(start, end)) {
                same.sort_unstable_by(|a, b| {
                    word(a.1, a.2).cmp(word(b.1, b.2)).then(a.3.cmp(&b.3))
                });
            }
        }
        let (mut entries, mut positions): (Vec<Entry>, Vec<u32>) = (Vec::new(), Vec::new());
        for (hash, start, end, position) in occurrences {
            match entries.last_mut() {
                Some(last)
                    if last.hash == hash && word(last.start, last.end) == word(start, end) =>
                {
                    // A subword may equal its whole word.
                    if positions.last() != Some(&position) {
                        positions.push(position);
                        last.count += 1;
                    }
                }
                _ => {
                    entries.push(Entry {
                        hash,
                        start,
                        end,
                        first: positions.len() as u32,
                        count: 1,
                    });
                    positions.push(position);
                }
            }
        }
        Self { text, entries, positions, total }
    }
}

impl DistinctTerms for ChunkTerms {
    fn for_each<'w>(&'w self, mut f: impl FnMut(u64, &'w str, u32, &'w [u32])) {
        for entry in &self.entries {
            let word = &self.text[entry.start as usize..entry.end as usize];
            let first = entry.first as usize;
            f(entry.hash, word, entry.count, &self.positions[first..first + entry.count as usize]);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn terms_are_distinct_and_ordered(text in "\\PC*") {
            let terms = ChunkTerms::new(&[&text]);
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
