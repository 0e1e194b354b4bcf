//! Which texts a word is in, how often, and at which places.
//!
//! There are two such indexes: of whole documents, without places, and of chunks, with them. Words are kept in the order of a hash, in blocks that each carry a checksum, so that a search reads and checks a
//! handful of blocks, whatever the number of words. Each word's list of texts begins with the word itself and ends
//! with a checksum: whatever is used has been checked, and nothing else was read.

use std::collections::BinaryHeap;
use std::io::{self, Write};

use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use crate::bytes::{Bytes, put_number, put_text};

/// How many words a block has, and how many bytes a word takes in it: a hash, where its list is, and how long.
pub(crate) const BLOCK_WORDS: usize = 128;
const WORD_BYTES: usize = 24;
const CHECK_BYTES: usize = 8;
pub(crate) const BLOCK_BYTES: usize = BLOCK_WORDS * WORD_BYTES + CHECK_BYTES;

/// How many documents are sorted at once.
const RUN: usize = 512;

/// A word in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) hash: u64,
    pub(crate) start: u64,
    pub(crate) length: u64,
}

/// How many bytes so many words take.
pub(crate) fn terms_bytes(words: u64) -> Option<u64> {
    let blocks = words.div_ceil(BLOCK_WORDS as u64);
    words.checked_mul(WORD_BYTES as u64)?.checked_add(blocks.checked_mul(CHECK_BYTES as u64)?)
}

/// The words of a block, if it is as it was written.
pub(crate) fn read_block(block: &[u8]) -> Option<Vec<Word>> {
    let (words, check) = block.split_at_checked(block.len().checked_sub(CHECK_BYTES)?)?;
    if words.is_empty() || words.len() % WORD_BYTES != 0 || check != xxh3_64(words).to_le_bytes() {
        return None;
    }
    let mut bytes = Bytes(words);
    let mut read = Vec::with_capacity(words.len() / WORD_BYTES);
    while !bytes.is_empty() {
        let (hash, start, length) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
        read.push(Word { hash, start, length });
    }
    Some(read)
}

/// A word and the texts it is in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct List<'l> {
    pub(crate) word: &'l str,
    /// The texts, with how often it occurs.
    pub(crate) texts: Vec<(u32, u32)>,
    places: Bytes<'l>,
}

impl List<'_> {
    /// For each text, the places where the word stands in it, if they are as they were written.
    pub(crate) fn places(&self) -> Option<Vec<Vec<u32>>> {
        let mut bytes = self.places;
        let mut read_text = |count: u32| {
            let mut places = Vec::with_capacity((count as usize).min(bytes.len()));
            let mut next = 0_u32;
            for _ in 0..count {
                let place = next.checked_add(bytes.small()?)?;
                places.push(place);
                next = place.checked_add(1)?;
            }
            Some(places)
        };
        let places =
            self.texts.iter().map(|(_, count)| read_text(*count)).collect::<Option<_>>()?;
        bytes.is_empty().then_some(places)
    }
}

/// The word that a list is of. The list may be damaged.
pub(crate) fn read_word(list: &[u8]) -> Option<&str> {
    Bytes(list).text()
}

/// A list, if it is as it was written and its texts are among so many.
pub(crate) fn read_list(list: &[u8], documents: u32) -> Option<List<'_>> {
    let (list, check) = list.split_at_checked(list.len().checked_sub(CHECK_BYTES)?)?;
    if check != xxh3_64(list).to_le_bytes() {
        return None;
    }
    let mut bytes = Bytes(list);
    let word = bytes.text()?;
    let count = bytes.small()?;
    let mut texts = Vec::with_capacity((count as usize).min(list.len()));
    let mut next = 0_u32;
    for _ in 0..count {
        // Most words occur once in a text: then that is said by a bit.
        let number = bytes.number()?;
        let skipped = u32::try_from(number >> 1).ok()?;
        let text = next.checked_add(skipped).filter(|text| *text < documents)?;
        let times = match number & 1 {
            0 => 1,
            _ => bytes.small().filter(|times| *times > 1)?,
        };
        texts.push((text, times));
        next = text + 1;
    }
    Some(List { word, texts, places: bytes })
}

/// The distinct words of a text.
pub(crate) trait Distinct: Sync {
    /// Calls a function with the hash of each word, the word, how often it occurs, and the places where, ascending, if
    /// places are kept; by hash and then by the words' bytes.
    fn each<'w>(&'w self, f: impl FnMut(u64, &'w str, u32, &'w [u32]));
}

/// Collects the words of texts, and writes them in order.
///
/// Texts come in batches, each of which is sorted by itself; in the end the sorted batches are merged.
#[derive(Debug, Default)]
pub(crate) struct IndexBuilder {
    runs: Vec<Vec<u8>>,
}

impl IndexBuilder {
    /// Adds the words of texts that follow those before.
    pub(crate) fn add(&mut self, first: u32, texts: &[&impl Distinct]) {
        let parts = texts.par_chunks(RUN);
        let starts = (0..texts.len() as u32).into_par_iter().step_by(RUN);
        let runs = parts.zip(starts).map(|(part, start)| Self::run(first + start, part));
        self.runs.extend(runs.collect::<Vec<_>>());
    }

    /// The words of texts, in order.
    fn run(first: u32, texts: &[&impl Distinct]) -> Vec<u8> {
        let mut entries: Vec<(u64, &str, u32, u32, &[u32])> = Vec::new();
        for (words, text) in texts.iter().zip(first..) {
            words.each(|hash, word, count, places| entries.push((hash, word, text, count, places)));
        }
        // Numbers first: texts are compared only where their hashes are equal, and then mostly once. What a text
        // brings is in order already, and a stable sort makes use of it and keeps texts in theirs.
        entries.sort_by_key(|(hash, ..)| *hash);
        for same in entries.chunk_by_mut(|a, b| a.0 == b.0) {
            if same.iter().any(|entry| entry.1 != same[0].1) {
                same.sort_unstable();
            }
        }
        let mut run = Vec::new();
        for same in entries.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let (hash, word, ..) = same[0];
            run.extend_from_slice(&hash.to_le_bytes());
            put_text(&mut run, word);
            put_number(&mut run, same.len() as u64);
            for (_, _, text, count, _) in same {
                put_number(&mut run, u64::from(*text));
                put_number(&mut run, u64::from(*count));
            }
            let places = same.iter().flat_map(|(.., places)| *places);
            put_number(&mut run, places.clone().count() as u64);
            places.for_each(|place| put_number(&mut run, u64::from(*place)));
        }
        run
    }

    /// Writes all words, and tells how many there are.
    pub(crate) fn write(
        self,
        terms: &mut impl Write,
        postings: &mut impl Write,
    ) -> io::Result<u64> {
        let mut heads: BinaryHeap<Head<'_>> = self
            .runs
            .iter()
            .enumerate()
            .filter_map(|(run, bytes)| Head::new(run, Bytes(bytes)))
            .collect();
        let (mut count, mut start, mut block) = (0, 0, Vec::with_capacity(BLOCK_BYTES));
        let (mut list, mut found, mut places) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(head) = heads.pop() {
            let (hash, word) = (head.hash, head.word);
            found.clear();
            places.clear();
            let mut next = Some(head);
            while let Some(mut head) = next {
                head.take(&mut found, &mut places);
                heads.extend(Head::new(head.run, head.rest));
                next = match heads.peek() {
                    Some(other) if (other.hash, other.word) == (hash, word) => heads.pop(),
                    _ => None,
                };
            }
            write_list(&mut list, word, &found, &places);
            postings.write_all(&list)?;
            let length = list.len() as u64;
            for number in [hash, start, length] {
                block.extend_from_slice(&number.to_le_bytes());
            }
            (count, start) = (count + 1, start + length);
            if block.len() == BLOCK_WORDS * WORD_BYTES {
                write_block(terms, &mut block)?;
            }
        }
        if !block.is_empty() {
            write_block(terms, &mut block)?;
        }
        Ok(count)
    }
}

fn write_block(terms: &mut impl Write, block: &mut Vec<u8>) -> io::Result<()> {
    let check = xxh3_64(block);
    terms.write_all(block)?;
    terms.write_all(&check.to_le_bytes())?;
    block.clear();
    Ok(())
}

fn write_list(list: &mut Vec<u8>, word: &str, found: &[(u64, u64)], places: &[u64]) {
    list.clear();
    put_text(list, word);
    put_number(list, found.len() as u64);
    let mut next = 0;
    for (text, count) in found {
        put_number(list, (text - next) << 1 | u64::from(*count > 1));
        if *count > 1 {
            put_number(list, *count);
        }
        next = text + 1;
    }
    let mut places = places.iter();
    for (_, count) in found {
        let mut next = 0;
        for place in places.by_ref().take(*count as usize) {
            put_number(list, place - next);
            next = place + 1;
        }
    }
    list.extend_from_slice(&xxh3_64(list).to_le_bytes());
}

/// The next word of a run.
struct Head<'r> {
    hash: u64,
    word: &'r str,
    run: usize,
    count: u64,
    rest: Bytes<'r>,
}

impl<'r> Head<'r> {
    fn new(run: usize, mut rest: Bytes<'r>) -> Option<Self> {
        let hash = rest.u64()?;
        let word = rest.text()?;
        let count = rest.number()?;
        Some(Self { hash, word, run, count, rest })
    }

    /// Takes its texts and its places, and goes to the next word.
    fn take(&mut self, found: &mut Vec<(u64, u64)>, places: &mut Vec<u64>) {
        for _ in 0..self.count {
            if let (Some(text), Some(count)) = (self.rest.number(), self.rest.number()) {
                found.push((text, count));
            }
        }
        for _ in 0..self.rest.number().unwrap_or_default() {
            places.extend(self.rest.number());
        }
    }

    fn key(&self) -> (u64, &str, usize) {
        (self.hash, self.word, self.run)
    }
}

// The heap gives the largest first; here that is the first in order.
impl Ord for Head<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.key().cmp(&self.key())
    }
}

impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Head<'_> {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::terms::Terms;
    use crate::words::Words;

    proptest! {
        #[test]
        fn every_term_has_its_places(texts in prop::collection::vec("[a-d ]{0,30}", 0..40)) {
            let terms: Vec<Terms> = texts.iter().map(|text| Terms::of(&[text])).collect();
            let mut builder = IndexBuilder::default();
            builder.add(0, &terms.iter().collect::<Vec<_>>());
            let (mut blocks, mut postings) = (Vec::new(), Vec::new());
            builder.write(&mut blocks, &mut postings).unwrap();
            let mut found: BTreeMap<(u32, String), Vec<u32>> = BTreeMap::new();
            for word in blocks.chunks(BLOCK_BYTES).flat_map(|block| read_block(block).unwrap()) {
                let list = &postings[word.start as usize..(word.start + word.length) as usize];
                let list = read_list(list, texts.len() as u32).unwrap();
                for ((text, count), places) in list.texts.iter().zip(list.places().unwrap()) {
                    prop_assert_eq!(*count as usize, places.len());
                    found.insert((*text, list.word.to_owned()), places);
                }
            }
            let mut expected = BTreeMap::new();
            for (terms, text) in terms.iter().zip(0..) {
                terms.each(|_, word, _, places| {
                    expected.insert((text, word.to_owned()), places.to_vec());
                });
            }
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn every_word_has_its_documents_however_they_are_batched(
            texts in prop::collection::vec("[a-d ]{0,30}", 0..40),
            batch in 1..10_usize,
        ) {
            let words: Vec<Words> = texts.iter().map(|text| Words::of(text)).collect();
            let mut builder = IndexBuilder::default();
            let mut first = 0;
            for batch in words.chunks(batch) {
                builder.add(first, &batch.iter().collect::<Vec<_>>());
                first += batch.len() as u32;
            }
            let (mut terms, mut postings) = (Vec::new(), Vec::new());
            let count = builder.write(&mut terms, &mut postings).unwrap();
            prop_assert_eq!(terms_bytes(count), Some(terms.len() as u64));

            let mut expected: BTreeMap<&str, Vec<(u32, u32)>> = BTreeMap::new();
            for (words, document) in words.iter().zip(0..) {
                for (_, word, times) in words.distinct() {
                    expected.entry(word).or_default().push((document, times));
                }
            }
            let mut found = BTreeMap::new();
            let mut last = 0;
            for block in terms.chunks(BLOCK_BYTES) {
                for word in read_block(block).unwrap() {
                    prop_assert!(word.hash >= last);
                    last = word.hash;
                    let list = &postings[word.start as usize..(word.start + word.length) as usize];
                    let list = read_list(list, texts.len() as u32).unwrap();
                    prop_assert_eq!(crate::words::hash(list.word), word.hash);
                    found.insert(list.word.to_owned(), list.texts);
                }
            }
            prop_assert_eq!(found.len() as u64, count);
            for (word, documents) in expected {
                prop_assert_eq!(found.get(word), Some(&documents), "{}", word);
            }
        }
    }
}
