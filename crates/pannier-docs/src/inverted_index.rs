//! An inverted index: for each term its posting list, the docs that contain it with counts by field and optional positions.
//!
//! A doc is a document or a chunk: there are two indexes, of documents without positions and of chunks with them. The term
//! dictionary is ordered by hash, in blocks with a checksum each, so that a lookup reads and checks a handful of blocks
//! regardless of the number of terms. A posting list starts with its term and ends with a checksum. It is divided into blocks,
//! too, so that a few docs are found in a long list without decoding all of it.

use std::collections::BinaryHeap;
use std::io::{self, Write};

use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use crate::varint::{ByteReader, write_str, write_varint};
use crate::word_counts::{FieldCounts, TermCounts};

/// The number of terms in a block of the term dictionary.
pub(crate) const TERMS_PER_BLOCK: usize = 128;
/// The size of a dictionary entry: a hash, and the offset and lengths of postings and positions.
const TERM_BYTES: usize = 32;
const CHECK_BYTES: usize = 8;
pub(crate) const BLOCK_BYTES: usize = TERMS_PER_BLOCK * TERM_BYTES + CHECK_BYTES;

/// The number of docs in a block of a posting list.
const POSTINGS_PER_BLOCK: usize = 128;

/// The number of docs that are sorted at once.
const SORT_BATCH_DOCUMENTS: usize = 512;

/// An entry of the term dictionary: the hash of a term, and where its posting list and positions are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TermEntry {
    pub(crate) hash: u64,
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) positions_len: u64,
}

/// Returns the size of a term dictionary with this many terms.
pub(crate) fn terms_bytes(terms: u64) -> Option<u64> {
    let blocks = terms.div_ceil(TERMS_PER_BLOCK as u64);
    terms.checked_mul(TERM_BYTES as u64)?.checked_add(blocks.checked_mul(CHECK_BYTES as u64)?)
}

/// Decodes a block of the term dictionary, or returns `None` if its checksum does not match.
pub(crate) fn read_block(block: &[u8]) -> Option<Vec<TermEntry>> {
    let (entries, check) = block.split_at_checked(block.len().checked_sub(CHECK_BYTES)?)?;
    if entries.is_empty()
        || entries.len() % TERM_BYTES != 0
        || check != xxh3_64(entries).to_le_bytes()
    {
        return None;
    }
    let mut bytes = ByteReader(entries);
    let mut read = Vec::with_capacity(entries.len() / TERM_BYTES);
    while !bytes.is_empty() {
        let (hash, start, length) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
        read.push(TermEntry { hash, start, length, positions_len: bytes.u64()? });
    }
    Some(read)
}

/// The encoded posting list of a term.
#[derive(Debug)]
pub(crate) struct PostingList {
    bytes: Vec<u8>,
    /// The number of docs that contain the term, in any field and in the body.
    pub(crate) count: u32,
    pub(crate) body_count: u32,
    blocks: Vec<PostingBlock>,
}

/// A block of a posting list.
#[derive(Clone, Copy, Debug)]
struct PostingBlock {
    /// The smallest doc that it can contain, and its last doc.
    next: u32,
    last: u32,
    /// Its offset, and its number of docs.
    start: usize,
    count: u32,
}

impl PostingList {
    /// Parses a posting list, or returns `None` if it is corrupt.
    pub(crate) fn read(bytes: Vec<u8>) -> Option<Self> {
        let (list, check) = bytes.split_at_checked(bytes.len().checked_sub(CHECK_BYTES)?)?;
        if check != xxh3_64(list).to_le_bytes() {
            return None;
        }
        let mut reader = ByteReader(list);
        reader.read_str()?;
        let count = reader.read_varint_u32()?;
        let body_count = reader.read_varint_u32().filter(|body_count| *body_count <= count)?;
        let block_count = (count as usize).div_ceil(POSTINGS_PER_BLOCK);
        let mut blocks = Vec::with_capacity(block_count.min(list.len()));
        let (mut next, mut start, mut rest) = (0_u32, 0_usize, count);
        for _ in 0..block_count {
            let last = next.checked_add(reader.read_varint_u32()?)?;
            let count = rest.min(POSTINGS_PER_BLOCK as u32);
            blocks.push(PostingBlock { next, last, start, count });
            start = start.checked_add(usize::try_from(reader.read_varint()?).ok()?)?;
            next = last.checked_add(1)?;
            rest -= count;
        }
        let head = list.len() - reader.len();
        blocks.iter_mut().for_each(|block| block.start = block.start.saturating_add(head));
        (start == reader.len()).then_some(Self { bytes, count, body_count, blocks })
    }

    /// Returns the term.
    #[cfg(test)]
    pub(crate) fn term(&self) -> &str {
        read_term(&self.bytes).unwrap_or_default()
    }

    /// Returns the last doc.
    pub(crate) fn last(&self) -> Option<u32> {
        self.blocks.last().map(|block| block.last)
    }

    /// Calls `f` with every doc and the counts of the term in it, in order. Returns `None` if the list is corrupt.
    pub(crate) fn for_each(&self, mut f: impl FnMut(u32, FieldCounts)) -> Option<()> {
        self.blocks.iter().try_for_each(|block| self.for_each_in(block, &mut f))
    }

    fn for_each_in(
        &self,
        block: &PostingBlock,
        f: &mut impl FnMut(u32, FieldCounts),
    ) -> Option<()> {
        let mut bytes = ByteReader(self.bytes.get(block.start..)?);
        let mut next = block.next;
        for _ in 0..block.count {
            // The lowest bit says whether counts follow: most terms occur once in a doc, in its body.
            let number = bytes.read_varint()?;
            let skipped = u32::try_from(number >> 1).ok()?;
            let doc = next.checked_add(skipped).filter(|doc| *doc <= block.last)?;
            let counts = match number & 1 {
                0 => FieldCounts::in_body(1),
                _ => read_counts(&mut bytes).filter(|counts| *counts != FieldCounts::default())?,
            };
            f(doc, counts);
            next = doc.checked_add(1)?;
        }
        Some(())
    }

    /// Returns all docs with the counts of the term in each.
    pub(crate) fn postings(&self) -> Option<Vec<(u32, FieldCounts)>> {
        let mut docs = Vec::with_capacity((self.count as usize).min(self.bytes.len()));
        self.for_each(|doc, counts| docs.push((doc, counts)))?;
        Some(docs)
    }

    /// Calls `f` with those of the ascending `docs` that contain the term, and its counts. Blocks without any of them are
    /// skipped.
    pub(crate) fn for_each_of(
        &self,
        docs: &[u32],
        mut f: impl FnMut(u32, FieldCounts),
    ) -> Option<()> {
        let mut requested = docs.iter().copied().peekable();
        let mut first = 0;
        while let Some(&doc) = requested.peek() {
            let skipped = self.blocks[first..].partition_point(|block| block.last < doc);
            first += skipped;
            let Some(block) = self.blocks.get(first) else { break };
            self.for_each_in(block, &mut |posting, counts| {
                while requested.next_if(|doc| *doc < posting).is_some() {}
                if requested.next_if_eq(&posting).is_some() {
                    f(posting, counts);
                }
            })?;
            while requested.next_if(|doc| *doc <= block.last).is_some() {}
            first += 1;
        }
        Some(())
    }
}

/// Decodes counts.
fn read_counts(bytes: &mut ByteReader<'_>) -> Option<FieldCounts> {
    let number = bytes.read_varint()?;
    let mut counts = FieldCounts::in_body(u32::try_from(number >> 1).ok()?);
    if number & 1 == 1 {
        (counts.path, counts.symbols) = (bytes.read_varint_u32()?, bytes.read_varint_u32()?);
    }
    Some(counts)
}

/// Encodes counts other than a single one in the body.
fn write_counts(bytes: &mut Vec<u8>, counts: FieldCounts) {
    let has_fields = counts.path > 0 || counts.symbols > 0;
    write_varint(bytes, u64::from(counts.body) << 1 | u64::from(has_fields));
    if has_fields {
        write_varint(bytes, counts.path.into());
        write_varint(bytes, counts.symbols.into());
    }
}

/// Decodes the positions of a term in the bodies of these docs, or returns `None` if they are corrupt.
pub(crate) fn read_positions(bytes: &[u8], docs: &[(u32, FieldCounts)]) -> Option<Vec<Vec<u32>>> {
    if bytes.is_empty() && docs.iter().all(|(_, counts)| counts.body == 0) {
        return Some(vec![Vec::new(); docs.len()]);
    }
    let (positions, check) = bytes.split_at_checked(bytes.len().checked_sub(CHECK_BYTES)?)?;
    if check != xxh3_64(positions).to_le_bytes() {
        return None;
    }
    let mut bytes = ByteReader(positions);
    let mut read_doc = |count: u32| {
        let mut positions = Vec::with_capacity((count as usize).min(bytes.len()));
        let mut next = 0_u32;
        for _ in 0..count {
            let position = next.checked_add(bytes.read_varint_u32()?)?;
            positions.push(position);
            next = position.checked_add(1)?;
        }
        Some(positions)
    };
    let positions = docs.iter().map(|(_, counts)| read_doc(counts.body)).collect::<Option<_>>()?;
    bytes.is_empty().then_some(positions)
}

/// Returns the term of an encoded posting list, which may be corrupt.
pub(crate) fn read_term(list: &[u8]) -> Option<&str> {
    ByteReader(list).read_str()
}

/// Builds an inverted index by external sorting: batches of docs are sorted into runs, which are merged at the end.
#[derive(Debug, Default)]
pub(crate) struct IndexBuilder {
    runs: Vec<Vec<u8>>,
}

impl IndexBuilder {
    /// Adds the terms of the next docs, which are numbered from `first`.
    pub(crate) fn add(&mut self, first: u32, docs: &[&TermCounts]) {
        let batches = docs.par_chunks(SORT_BATCH_DOCUMENTS);
        let starts = (0..docs.len() as u32).into_par_iter().step_by(SORT_BATCH_DOCUMENTS);
        let runs = batches.zip(starts).map(|(batch, start)| Self::sort_batch(first + start, batch));
        self.runs.extend(runs.collect::<Vec<_>>());
    }

    /// Encodes the sorted terms of a batch.
    fn sort_batch(first: u32, docs: &[&TermCounts]) -> Vec<u8> {
        let mut entries: Vec<(u64, &str, u32, FieldCounts, &[u32])> = Vec::new();
        for (terms, doc) in docs.iter().zip(first..) {
            terms.for_each(|hash, term, counts, positions| {
                entries.push((hash, term, doc, counts, positions));
            });
        }
        // Sorting by hash first compares strings only among equal hashes. The terms of a doc are sorted already: a stable
        // sort exploits that, and keeps the docs of a term in order.
        entries.sort_by_key(|(hash, ..)| *hash);
        for same in entries.chunk_by_mut(|a, b| a.0 == b.0) {
            if same.iter().any(|entry| entry.1 != same[0].1) {
                same.sort_unstable();
            }
        }
        let mut run = Vec::new();
        for same in entries.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let (hash, term, ..) = same[0];
            run.extend_from_slice(&hash.to_le_bytes());
            write_str(&mut run, term);
            write_varint(&mut run, same.len() as u64);
            for (_, _, doc, counts, _) in same {
                write_varint(&mut run, u64::from(*doc));
                write_counts(&mut run, *counts);
            }
            let positions = same.iter().flat_map(|(.., positions)| *positions);
            write_varint(&mut run, positions.clone().count() as u64);
            positions.for_each(|position| write_varint(&mut run, u64::from(*position)));
        }
        run
    }

    /// Writes the term dictionary and the posting lists, and returns the number of terms.
    pub(crate) fn write(
        self,
        terms: &mut impl Write,
        postings: &mut impl Write,
    ) -> io::Result<u64> {
        let mut heads: BinaryHeap<Head<'_>> = self
            .runs
            .iter()
            .enumerate()
            .filter_map(|(run, bytes)| Head::new(run, ByteReader(bytes)))
            .collect();
        let (mut count, mut start, mut block) = (0, 0, Vec::with_capacity(BLOCK_BYTES));
        let (mut list, mut postings_of_term, mut positions) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(head) = heads.pop() {
            let (hash, term) = (head.hash, head.term);
            postings_of_term.clear();
            positions.clear();
            let mut next = Some(head);
            while let Some(mut head) = next {
                head.take(&mut postings_of_term, &mut positions);
                heads.extend(Head::new(head.run, head.rest));
                next = match heads.peek() {
                    Some(other) if (other.hash, other.term) == (hash, term) => heads.pop(),
                    _ => None,
                };
            }
            write_postings(&mut list, term, &postings_of_term);
            postings.write_all(&list)?;
            let length = list.len() as u64;
            write_positions(&mut list, &postings_of_term, &positions);
            postings.write_all(&list)?;
            let positions_len = list.len() as u64;
            for number in [hash, start, length, positions_len] {
                block.extend_from_slice(&number.to_le_bytes());
            }
            (count, start) = (count + 1, start + length + positions_len);
            if block.len() == TERMS_PER_BLOCK * TERM_BYTES {
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

fn write_postings(list: &mut Vec<u8>, term: &str, postings: &[(u64, FieldCounts)]) {
    list.clear();
    write_str(list, term);
    write_varint(list, postings.len() as u64);
    let in_body = postings.iter().filter(|(_, counts)| counts.body > 0);
    write_varint(list, in_body.count() as u64);
    let mut blocks = Vec::new();
    let mut next = 0;
    for block in postings.chunks(POSTINGS_PER_BLOCK) {
        let (before, begin) = (next, blocks.len());
        for (doc, counts) in block {
            let is_single = *counts == FieldCounts::in_body(1);
            write_varint(&mut blocks, (doc - next) << 1 | u64::from(!is_single));
            if !is_single {
                write_counts(&mut blocks, *counts);
            }
            next = doc + 1;
        }
        write_varint(list, next - 1 - before);
        write_varint(list, (blocks.len() - begin) as u64);
    }
    list.extend_from_slice(&blocks);
    list.extend_from_slice(&xxh3_64(list).to_le_bytes());
}

/// Encodes positions. An empty list has an empty encoding.
fn write_positions(list: &mut Vec<u8>, postings: &[(u64, FieldCounts)], positions: &[u64]) {
    list.clear();
    if positions.is_empty() {
        return;
    }
    let mut positions = positions.iter();
    for (_, counts) in postings {
        let mut next = 0;
        for position in positions.by_ref().take(counts.body as usize) {
            write_varint(list, position - next);
            next = position + 1;
        }
    }
    list.extend_from_slice(&xxh3_64(list).to_le_bytes());
}

/// The next term of a run, in the merge.
struct Head<'r> {
    hash: u64,
    term: &'r str,
    run: usize,
    count: u64,
    rest: ByteReader<'r>,
}

impl<'r> Head<'r> {
    fn new(run: usize, mut rest: ByteReader<'r>) -> Option<Self> {
        let hash = rest.u64()?;
        let term = rest.read_str()?;
        let count = rest.read_varint()?;
        Some(Self { hash, term, run, count, rest })
    }

    /// Reads the postings and positions of the term, and moves on to the next one.
    fn take(&mut self, postings: &mut Vec<(u64, FieldCounts)>, positions: &mut Vec<u64>) {
        for _ in 0..self.count {
            if let (Some(doc), Some(counts)) =
                (self.rest.read_varint(), read_counts(&mut self.rest))
            {
                postings.push((doc, counts));
            }
        }
        for _ in 0..self.rest.read_varint().unwrap_or_default() {
            positions.extend(self.rest.read_varint());
        }
    }

    fn key(&self) -> (u64, &str, usize) {
        (self.hash, self.term, self.run)
    }
}

// Reversed: the heap pops the maximum, and the merge needs the minimum.
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

    proptest! {
        /// Long lists have many blocks, of which few are read.
        #[test]
        fn selected_docs_are_found_in_a_long_list(
            gaps in prop::collection::vec((1..5_u32, (0..4_u32, 0..2_u32, 0..2_u32)), 0..600),
            requested in prop::collection::btree_set(0..2_000_u32, 0..30),
        ) {
            let mut next = 0;
            let docs: Vec<(u32, FieldCounts)> = gaps
                .iter()
                .map(|(gap, (body, path, symbols))| {
                    next += gap;
                    let body = if *path == 0 && *symbols == 0 { body + 1 } else { *body };
                    (next, FieldCounts { body, path: *path, symbols: *symbols })
                })
                .collect();
            let wide: Vec<(u64, FieldCounts)> = docs.iter().map(|(doc, counts)| ((*doc).into(), *counts)).collect();
            let mut bytes = Vec::new();
            write_postings(&mut bytes, "term", &wide);
            let list = PostingList::read(bytes.clone()).unwrap();
            prop_assert_eq!(list.postings().unwrap(), docs.clone());
            prop_assert_eq!(list.last(), docs.last().map(|(doc, _)| *doc));
            let in_body = docs.iter().filter(|(_, counts)| counts.body > 0).count();
            prop_assert_eq!((list.count as usize, list.body_count as usize), (docs.len(), in_body));
            let requested: Vec<u32> = requested.into_iter().collect();
            let mut actual = Vec::new();
            list.for_each_of(&requested, |doc, count| actual.push((doc, count))).unwrap();
            let expected: Vec<(u32, FieldCounts)> =
                docs.into_iter().filter(|(doc, _)| requested.binary_search(doc).is_ok()).collect();
            prop_assert_eq!(actual, expected);
            // Reading corrupt bytes does not panic.
            let end = bytes.len() - 8;
            bytes.truncate(end);
            if let Some(byte) = requested.first().and_then(|position| bytes.get_mut(*position as usize)) {
                *byte ^= 0x55;
            }
            let check = xxh3_64(&bytes);
            bytes.extend_from_slice(&check.to_le_bytes());
            if let Some(list) = PostingList::read(bytes) {
                let _ = (list.postings(), list.for_each_of(&requested, |_, _| {}));
            }
        }

        #[test]
        fn every_term_has_its_positions(docs in prop::collection::vec("[a-d ]{0,30}", 0..40)) {
            let terms: Vec<TermCounts> = docs.iter().map(|doc| TermCounts::of_chunk(&[doc], "e f", "a")).collect();
            let mut builder = IndexBuilder::default();
            builder.add(0, &terms.iter().collect::<Vec<_>>());
            let (mut blocks, mut postings) = (Vec::new(), Vec::new());
            builder.write(&mut blocks, &mut postings).unwrap();
            let mut actual: BTreeMap<(u32, String), Vec<u32>> = BTreeMap::new();
            for term in blocks.chunks(BLOCK_BYTES).flat_map(|block| read_block(block).unwrap()) {
                let end = (term.start + term.length) as usize;
                let list = PostingList::read(postings[term.start as usize..end].to_vec()).unwrap();
                let postings_of_term = list.postings().unwrap();
                let positions = &postings[end..end + term.positions_len as usize];
                for ((doc, count), positions) in postings_of_term.iter().zip(read_positions(positions, &postings_of_term).unwrap()) {
                    prop_assert_eq!(count.body as usize, positions.len());
                    actual.insert((*doc, list.term().to_owned()), positions);
                }
            }
            let mut expected = BTreeMap::new();
            for (terms, doc) in terms.iter().zip(0..) {
                terms.for_each(|_, term, _, positions| {
                    expected.insert((doc, term.to_owned()), positions.to_vec());
                });
            }
            prop_assert_eq!(actual, expected);
        }

        #[test]
        fn postings_do_not_depend_on_batches(
            docs in prop::collection::vec("[a-d ]{0,30}", 0..40),
            batch in 1..10_usize,
        ) {
            let words: Vec<TermCounts> = docs.iter().map(|doc| TermCounts::of_document(doc)).collect();
            let mut builder = IndexBuilder::default();
            let mut first = 0;
            for batch in words.chunks(batch) {
                builder.add(first, &batch.iter().collect::<Vec<_>>());
                first += batch.len() as u32;
            }
            let (mut terms, mut postings) = (Vec::new(), Vec::new());
            let count = builder.write(&mut terms, &mut postings).unwrap();
            prop_assert_eq!(terms_bytes(count), Some(terms.len() as u64));

            let mut expected: BTreeMap<&str, Vec<(u32, FieldCounts)>> = BTreeMap::new();
            for (words, document) in words.iter().zip(0..) {
                words.for_each(|_, term, count, _| expected.entry(term).or_default().push((document, count)));
            }
            let mut actual = BTreeMap::new();
            let mut last = 0;
            for block in terms.chunks(BLOCK_BYTES) {
                for term in read_block(block).unwrap() {
                    prop_assert!(term.hash >= last);
                    last = term.hash;
                    let list = &postings[term.start as usize..(term.start + term.length) as usize];
                    prop_assert_eq!(term.positions_len, 0);
                    let list = PostingList::read(list.to_vec()).unwrap();
                    prop_assert_eq!(crate::word_counts::hash(list.term()), term.hash);
                    actual.insert(list.term().to_owned(), list.postings().unwrap());
                }
            }
            prop_assert_eq!(actual.len() as u64, count);
            for (term, documents) in expected {
                prop_assert_eq!(actual.get(term), Some(&documents), "{}", term);
            }
        }
    }
}
