//! Which texts a word is in, how often, and at which places.
//!
//! There are two such indexes: of whole documents, without places, and of chunks, with them. Words are kept in the order of a hash, in blocks that each carry a checksum, so that a search reads and checks a
//! handful of blocks, whatever the number of words. Each word's list of texts begins with the word itself and ends
//! with a checksum: whatever is used has been checked, and nothing else was read. A list has blocks, too, so that a few texts
//! are found in a long one without reading all of it.

use std::collections::BinaryHeap;
use std::io::{self, Write};

use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use crate::bytes::{Bytes, put_number, put_text};

/// How many words a block has, and how many bytes a word takes in it: a hash, where its list is, how long, and how long
/// its places behind that are.
pub(crate) const BLOCK_WORDS: usize = 128;
const WORD_BYTES: usize = 32;
const CHECK_BYTES: usize = 8;
pub(crate) const BLOCK_BYTES: usize = BLOCK_WORDS * WORD_BYTES + CHECK_BYTES;

/// How many texts a block of a list has.
const BLOCK_TEXTS: usize = 128;

/// How many documents are sorted at once.
const RUN: usize = 512;

/// A word in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) hash: u64,
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) places_length: u64,
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
        read.push(Word { hash, start, length, places_length: bytes.u64()? });
    }
    Some(read)
}

/// The texts that a word is in, as they are kept.
#[derive(Debug)]
pub(crate) struct List {
    bytes: Vec<u8>,
    /// How many texts there are.
    pub(crate) count: u32,
    blocks: Vec<Block>,
}

/// A part of a list.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// The number behind the last text of the block before, and the last text of this one.
    next: u32,
    last: u32,
    /// Where it begins among the bytes, and how many texts it has.
    start: usize,
    count: u32,
}

impl List {
    /// A list, if it is as it was written.
    pub(crate) fn read(bytes: Vec<u8>) -> Option<Self> {
        let (list, check) = bytes.split_at_checked(bytes.len().checked_sub(CHECK_BYTES)?)?;
        if check != xxh3_64(list).to_le_bytes() {
            return None;
        }
        let mut left = Bytes(list);
        left.text()?;
        let count = left.small()?;
        let block_count = (count as usize).div_ceil(BLOCK_TEXTS);
        let mut blocks = Vec::with_capacity(block_count.min(list.len()));
        let (mut next, mut start, mut rest) = (0_u32, 0_usize, count);
        for _ in 0..block_count {
            let last = next.checked_add(left.small()?)?;
            let count = rest.min(BLOCK_TEXTS as u32);
            blocks.push(Block { next, last, start, count });
            start = start.checked_add(usize::try_from(left.number()?).ok()?)?;
            next = last.checked_add(1)?;
            rest -= count;
        }
        let head = list.len() - left.len();
        blocks.iter_mut().for_each(|block| block.start = block.start.saturating_add(head));
        (start == left.len()).then_some(Self { bytes, count, blocks })
    }

    /// The word.
    #[cfg(test)]
    pub(crate) fn word(&self) -> &str {
        read_word(&self.bytes).unwrap_or_default()
    }

    /// The last text.
    pub(crate) fn last(&self) -> Option<u32> {
        self.blocks.last().map(|block| block.last)
    }

    /// Calls a function with every text and how often the word occurs in it, in order. None if the list is not as it was
    /// written.
    pub(crate) fn each(&self, mut f: impl FnMut(u32, u32)) -> Option<()> {
        self.blocks.iter().try_for_each(|block| self.each_in(block, &mut f))
    }

    fn each_in(&self, block: &Block, f: &mut impl FnMut(u32, u32)) -> Option<()> {
        let mut bytes = Bytes(self.bytes.get(block.start..)?);
        let mut next = block.next;
        for _ in 0..block.count {
            // Most words occur once in a text: then that is said by a bit.
            let number = bytes.number()?;
            let skipped = u32::try_from(number >> 1).ok()?;
            let text = next.checked_add(skipped).filter(|text| *text <= block.last)?;
            let times = match number & 1 {
                0 => 1,
                _ => bytes.small().filter(|times| *times > 1)?,
            };
            f(text, times);
            next = text.checked_add(1)?;
        }
        Some(())
    }

    /// All texts, and how often the word occurs in each.
    pub(crate) fn texts(&self) -> Option<Vec<(u32, u32)>> {
        let mut texts = Vec::with_capacity((self.count as usize).min(self.bytes.len()));
        self.each(|text, times| texts.push((text, times)))?;
        Some(texts)
    }

    /// Calls a function with those of these texts, which are ascending, that have the word, and how often. Blocks that have
    /// none of them are not read.
    pub(crate) fn each_of(&self, texts: &[u32], mut f: impl FnMut(u32, u32)) -> Option<()> {
        let mut asked = texts.iter().copied().peekable();
        let mut first = 0;
        while let Some(&text) = asked.peek() {
            let skipped = self.blocks[first..].partition_point(|block| block.last < text);
            first += skipped;
            let Some(block) = self.blocks.get(first) else { break };
            self.each_in(block, &mut |found, times| {
                while asked.next_if(|text| *text < found).is_some() {}
                if asked.next_if_eq(&found).is_some() {
                    f(found, times);
                }
            })?;
            while asked.next_if(|text| *text <= block.last).is_some() {}
            first += 1;
        }
        Some(())
    }
}

/// For each of these texts, the places where a word stands in it, if they are as they were written.
pub(crate) fn read_places(bytes: &[u8], texts: &[(u32, u32)]) -> Option<Vec<Vec<u32>>> {
    let (places, check) = bytes.split_at_checked(bytes.len().checked_sub(CHECK_BYTES)?)?;
    if check != xxh3_64(places).to_le_bytes() {
        return None;
    }
    let mut bytes = Bytes(places);
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
    let places = texts.iter().map(|(_, count)| read_text(*count)).collect::<Option<_>>()?;
    bytes.is_empty().then_some(places)
}

/// The word that a list is of. The list may be damaged.
pub(crate) fn read_word(list: &[u8]) -> Option<&str> {
    Bytes(list).text()
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
            write_list(&mut list, word, &found);
            postings.write_all(&list)?;
            let length = list.len() as u64;
            write_places(&mut list, &found, &places);
            postings.write_all(&list)?;
            let places_length = list.len() as u64;
            for number in [hash, start, length, places_length] {
                block.extend_from_slice(&number.to_le_bytes());
            }
            (count, start) = (count + 1, start + length + places_length);
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

fn write_list(list: &mut Vec<u8>, word: &str, found: &[(u64, u64)]) {
    list.clear();
    put_text(list, word);
    put_number(list, found.len() as u64);
    let mut blocks = Vec::new();
    let mut next = 0;
    for block in found.chunks(BLOCK_TEXTS) {
        let (before, begin) = (next, blocks.len());
        for (text, count) in block {
            put_number(&mut blocks, (text - next) << 1 | u64::from(*count > 1));
            if *count > 1 {
                put_number(&mut blocks, *count);
            }
            next = text + 1;
        }
        put_number(list, next - 1 - before);
        put_number(list, (blocks.len() - begin) as u64);
    }
    list.extend_from_slice(&blocks);
    list.extend_from_slice(&xxh3_64(list).to_le_bytes());
}

/// Nothing, if no places are kept.
fn write_places(list: &mut Vec<u8>, found: &[(u64, u64)], places: &[u64]) {
    list.clear();
    if places.is_empty() {
        return;
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
        /// Long lists have many blocks, of which few are read.
        #[test]
        fn some_texts_are_found_in_a_long_list(
            gaps in prop::collection::vec((1..5_u32, 1..4_u32), 0..600),
            asked in prop::collection::btree_set(0..2_000_u32, 0..30),
        ) {
            let mut next = 0;
            let texts: Vec<(u32, u32)> = gaps
                .iter()
                .map(|(gap, times)| {
                    next += gap;
                    (next, *times)
                })
                .collect();
            let wide: Vec<(u64, u64)> = texts.iter().map(|(text, times)| ((*text).into(), (*times).into())).collect();
            let mut bytes = Vec::new();
            write_list(&mut bytes, "word", &wide);
            let list = List::read(bytes.clone()).unwrap();
            prop_assert_eq!(list.texts().unwrap(), texts.clone());
            prop_assert_eq!(list.last(), texts.last().map(|(text, _)| *text));
            let asked: Vec<u32> = asked.into_iter().collect();
            let mut found = Vec::new();
            list.each_of(&asked, |text, times| found.push((text, times))).unwrap();
            let expected: Vec<(u32, u32)> =
                texts.into_iter().filter(|(text, _)| asked.binary_search(text).is_ok()).collect();
            prop_assert_eq!(found, expected);
            // Whatever is in it, reading does not panic.
            let end = bytes.len() - 8;
            bytes.truncate(end);
            if let Some(byte) = asked.first().and_then(|place| bytes.get_mut(*place as usize)) {
                *byte ^= 0x55;
            }
            let check = xxh3_64(&bytes);
            bytes.extend_from_slice(&check.to_le_bytes());
            if let Some(list) = List::read(bytes) {
                let _ = (list.texts(), list.each_of(&asked, |_, _| {}));
            }
        }

        #[test]
        fn every_term_has_its_places(texts in prop::collection::vec("[a-d ]{0,30}", 0..40)) {
            let terms: Vec<Terms> = texts.iter().map(|text| Terms::of(&[text])).collect();
            let mut builder = IndexBuilder::default();
            builder.add(0, &terms.iter().collect::<Vec<_>>());
            let (mut blocks, mut postings) = (Vec::new(), Vec::new());
            builder.write(&mut blocks, &mut postings).unwrap();
            let mut found: BTreeMap<(u32, String), Vec<u32>> = BTreeMap::new();
            for word in blocks.chunks(BLOCK_BYTES).flat_map(|block| read_block(block).unwrap()) {
                let end = (word.start + word.length) as usize;
                let list = List::read(postings[word.start as usize..end].to_vec()).unwrap();
                let in_texts = list.texts().unwrap();
                let places = &postings[end..end + word.places_length as usize];
                for ((text, count), places) in in_texts.iter().zip(read_places(places, &in_texts).unwrap()) {
                    prop_assert_eq!(*count as usize, places.len());
                    found.insert((*text, list.word().to_owned()), places);
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
                    prop_assert_eq!(word.places_length, 0);
                    let list = List::read(list.to_vec()).unwrap();
                    prop_assert_eq!(crate::words::hash(list.word()), word.hash);
                    found.insert(list.word().to_owned(), list.texts().unwrap());
                }
            }
            prop_assert_eq!(found.len() as u64, count);
            for (word, documents) in expected {
                prop_assert_eq!(found.get(word), Some(&documents), "{}", word);
            }
        }
    }
}
