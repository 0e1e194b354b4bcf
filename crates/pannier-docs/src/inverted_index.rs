//! An inverted index: for each term its posting list, the docs that contain it with counts by field and optional positions.
//!
//! A doc is a document or a chunk: there are two indexes, of documents without positions and of chunks with them. The term
//! dictionary is ordered by hash, in blocks with a checksum each, so that a lookup reads and checks a handful of blocks
//! regardless of the number of terms. A posting list starts with its term and ends with a checksum. It is divided into blocks,
//! too, so that a few docs are found in a long list without decoding all of it. The blocks of chunks have impacts, so that
//! blocks that cannot lift a chunk into the top k are not decoded.

use std::collections::BinaryHeap;
use std::io::{self, Write};

use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use crate::impacts::{ChunkLengths, Impact, read_impacts};
use crate::packed::{pack, packed_bytes, unpack, unpack_one, width};
use crate::varint::{ByteReader, write_str, write_varint};
use crate::word_counts::{FieldCounts, TermCounts};

/// The number of terms in a block of the term dictionary.
pub(crate) const TERMS_PER_BLOCK: usize = 128;
/// The size of a dictionary entry: a hash, and the offset and lengths of postings and positions.
const TERM_BYTES: usize = 32;
const CHECK_BYTES: usize = 8;
pub(crate) const BLOCK_BYTES: usize = TERMS_PER_BLOCK * TERM_BYTES + CHECK_BYTES;

/// The number of docs in a block of a posting list. Small in tests, so that short lists have many blocks.
const POSTINGS_PER_BLOCK: usize = if cfg!(test) { 4 } else { 128 };

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
    pub(crate) blocks: Vec<PostingBlock>,
}

/// A block of a posting list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PostingBlock {
    /// The smallest doc that it can contain, and its last doc.
    pub(crate) next: u32,
    pub(crate) last: u32,
    /// Its offset, and its number of docs.
    start: usize,
    count: u32,
    /// The offset of its impacts. Lists of documents and those with a single block have none.
    impacts: Option<usize>,
}

impl PostingList {
    /// Encodes and parses a list without impacts.
    pub(crate) fn from_postings(postings: &[(u32, FieldCounts)]) -> Option<Self> {
        let wide: Vec<_> =
            postings.iter().map(|(doc, counts)| (u64::from(*doc), *counts)).collect();
        let mut list = Vec::new();
        write_postings(&mut list, "", &wide, None);
        Self::read(list, false)
    }

    /// Parses a posting list, with or without impacts, or returns `None` if it is corrupt.
    pub(crate) fn read(bytes: Vec<u8>, has_impacts: bool) -> Option<Self> {
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
            let length = usize::try_from(reader.read_varint()?).ok()?;
            let impacts = (has_impacts && block_count > 1).then(|| list.len() - reader.len());
            if impacts.is_some() {
                read_impacts(&mut reader, |_| {}, |_| {})?;
            }
            blocks.push(PostingBlock { next, last, start, count, impacts });
            start = start.checked_add(length)?;
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
        let mut decoded = DecodedBlock::default();
        for block in &self.blocks {
            self.decode(block, &mut decoded)?;
            decoded.postings().for_each(|(doc, counts)| f(doc, counts));
        }
        Some(())
    }

    /// Returns its size in memory.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.len() + self.blocks.len() * size_of::<PostingBlock>()
    }

    /// Calls the functions with the impacts of a block, or returns `None` if it has none.
    pub(crate) fn impacts(
        &self,
        block: &PostingBlock,
        of_chunk: impl FnMut(Impact),
        of_document: impl FnMut(Impact),
    ) -> Option<()> {
        let mut reader = ByteReader(self.bytes.get(block.impacts?..)?);
        read_impacts(&mut reader, of_chunk, of_document)
    }

    /// Decodes a block, or returns `None` if it is corrupt.
    pub(crate) fn decode(&self, block: &PostingBlock, decoded: &mut DecodedBlock) -> Option<()> {
        let packed = PackedBlock::new(&self.bytes, block)?;
        decoded.len = block.count as usize;
        packed.docs(block, decoded.docs.get_mut(..decoded.len)?)?;
        for (field, counts) in decoded.counts.iter_mut().enumerate() {
            let (bytes, width) = packed.field(field)?;
            unpack(bytes, width, counts.get_mut(..decoded.len)?)?;
        }
        decoded.has_fields = packed.widths[2] > 0 || packed.widths[3] > 0;
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
        let mut rest = docs;
        let mut first = 0;
        let mut decoded = [0; POSTINGS_PER_BLOCK];
        while let Some(doc) = rest.first() {
            first += self.blocks[first..].partition_point(|block| block.last < *doc);
            let Some(block) = self.blocks.get(first) else { break };
            let (inside, after) = rest.split_at(rest.partition_point(|doc| *doc <= block.last));
            rest = after;
            first += 1;
            if inside.last().is_none_or(|last| *last < block.next) {
                continue;
            }
            let packed = PackedBlock::new(&self.bytes, block)?;
            let decoded = decoded.get_mut(..block.count as usize)?;
            packed.docs(block, decoded)?;
            for doc in inside {
                if let Ok(index) = decoded.binary_search(doc) {
                    f(*doc, packed.counts(index)?);
                }
            }
        }
        Some(())
    }
}

/// The encoding of a block: the widths of four arrays, and these: the gaps between docs, and the counts by field. Most terms
/// occur once in the body of a doc, so counts in bodies are stored with the lowest bit inverted.
struct PackedBlock<'b> {
    widths: [u8; 4],
    arrays: &'b [u8],
    count: usize,
}

impl<'b> PackedBlock<'b> {
    fn new(list: &'b [u8], block: &PostingBlock) -> Option<Self> {
        let (widths, arrays) = list.get(block.start..)?.split_first_chunk()?;
        let is_valid = widths.iter().all(|width| u32::from(*width) <= u32::BITS);
        is_valid.then_some(Self { widths: *widths, arrays, count: block.count as usize })
    }

    fn write(bytes: &mut Vec<u8>, first: u64, postings: &[(u64, FieldCounts)]) {
        let mut next = first;
        let mut arrays = [const { Vec::new() }; 4];
        for (doc, counts) in postings {
            let numbers = [(doc - next) as u32, counts.body ^ 1, counts.path, counts.symbols];
            arrays.iter_mut().zip(numbers).for_each(|(array, number)| array.push(number));
            next = doc + 1;
        }
        let widths = arrays.each_ref().map(|array| width(array.iter().copied()));
        bytes.extend_from_slice(&widths);
        for (array, width) in arrays.into_iter().zip(widths) {
            pack(bytes, width, array.into_iter());
        }
    }

    fn docs(&self, block: &PostingBlock, docs: &mut [u32]) -> Option<()> {
        unpack(self.arrays, self.widths[0], docs)?;
        let mut next = u64::from(block.next);
        for doc in docs {
            next += u64::from(*doc);
            *doc = next as u32;
            next += 1;
        }
        // Docs ascend, so none of them is too large.
        (next == u64::from(block.last) + 1).then_some(())
    }

    /// Returns the array of a field, and its width.
    fn field(&self, field: usize) -> Option<(&'b [u8], u8)> {
        let before = self.widths[..=field].iter().map(|width| packed_bytes(*width, self.count));
        Some((self.arrays.get(before.sum()..)?, self.widths[field + 1]))
    }

    fn counts(&self, index: usize) -> Option<FieldCounts> {
        let count = |field| {
            let (bytes, width) = self.field(field)?;
            unpack_one(bytes, width, index)
        };
        Some(FieldCounts { body: count(0)? ^ 1, path: count(1)?, symbols: count(2)? })
    }
}

/// A decoded block.
#[derive(Debug)]
pub(crate) struct DecodedBlock {
    len: usize,
    docs: [u32; POSTINGS_PER_BLOCK],
    /// By field; those of bodies have the lowest bit inverted.
    counts: [[u32; POSTINGS_PER_BLOCK]; 3],
    has_fields: bool,
}

impl Default for DecodedBlock {
    fn default() -> Self {
        let zeros = [0; POSTINGS_PER_BLOCK];
        Self { len: 0, docs: zeros, counts: [zeros; 3], has_fields: false }
    }
}

impl DecodedBlock {
    /// Returns the docs.
    pub(crate) fn docs(&self) -> &[u32] {
        &self.docs[..self.len]
    }

    /// Returns the docs with their counts.
    fn postings(&self) -> impl Iterator<Item = (u32, FieldCounts)> {
        (0..self.len).map(|index| (self.docs[index], self.counts(index)))
    }

    #[inline]
    fn counts(&self, index: usize) -> FieldCounts {
        let [body, path, symbols] = &self.counts;
        FieldCounts { body: body[index] ^ 1, path: path[index], symbols: symbols[index] }
    }

    /// Replaces the counts in bodies by what `count` makes of all.
    #[inline]
    pub(crate) fn merge_counts(&mut self, count: impl Fn(FieldCounts) -> u32) {
        if self.has_fields {
            for index in 0..self.len {
                self.counts[0][index] = count(self.counts(index));
            }
        } else {
            for body in &mut self.counts[0][..self.len] {
                *body = count(FieldCounts::in_body(*body ^ 1));
            }
        }
    }

    /// Returns the merged counts.
    pub(crate) fn merged_counts(&self) -> &[u32] {
        &self.counts[0][..self.len]
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

/// Encodes counts.
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
        // Waking other threads costs more than sorting a single batch.
        if (1..=SORT_BATCH_DOCUMENTS).contains(&docs.len()) {
            self.runs.push(Self::sort_batch(first, docs));
            return;
        }
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

    /// Writes the term dictionary and the posting lists, and returns the number of terms. The lists of chunks have impacts, which
    /// depend on their lengths.
    pub(crate) fn write(
        self,
        lengths: Option<&ChunkLengths>,
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
            write_postings(&mut list, term, &postings_of_term, lengths);
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

fn write_postings(
    list: &mut Vec<u8>,
    term: &str,
    postings: &[(u64, FieldCounts)],
    lengths: Option<&ChunkLengths>,
) {
    list.clear();
    write_str(list, term);
    write_varint(list, postings.len() as u64);
    let in_body = postings.iter().filter(|(_, counts)| counts.body > 0);
    write_varint(list, in_body.count() as u64);
    let lengths = lengths.filter(|_| postings.len() > POSTINGS_PER_BLOCK);
    let impacts = lengths.map(|lengths| lengths.impacts(postings, POSTINGS_PER_BLOCK));
    let mut impacts = impacts.into_iter().flatten();
    let mut blocks = Vec::new();
    let mut next = 0;
    for block in postings.chunks(POSTINGS_PER_BLOCK) {
        let (before, begin) = (next, blocks.len());
        PackedBlock::write(&mut blocks, next, block);
        next = block.last().map_or(next, |(doc, _)| doc + 1);
        write_varint(list, next - 1 - before);
        write_varint(list, (blocks.len() - begin) as u64);
        if let Some(impacts) = impacts.next() {
            impacts.write(list);
        }
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
            write_postings(&mut bytes, "term", &wide, None);
            let list = PostingList::read(bytes.clone(), false).unwrap();
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
            if let Some(list) = PostingList::read(bytes, false) {
                let _ = (list.postings(), list.for_each_of(&requested, |_, _| {}));
            }
        }

        #[test]
        fn every_term_has_its_positions(docs in prop::collection::vec("[a-d ]{0,30}", 0..40)) {
            let terms: Vec<TermCounts> = docs.iter().map(|doc| TermCounts::of_chunk(&[doc], "e f", "a")).collect();
            let mut builder = IndexBuilder::default();
            builder.add(0, &terms.iter().collect::<Vec<_>>());
            let (mut blocks, mut postings) = (Vec::new(), Vec::new());
            builder.write(None, &mut blocks, &mut postings).unwrap();
            let mut actual: BTreeMap<(u32, String), Vec<u32>> = BTreeMap::new();
            for term in blocks.chunks(BLOCK_BYTES).flat_map(|block| read_block(block).unwrap()) {
                let end = (term.start + term.length) as usize;
                let list = PostingList::read(postings[term.start as usize..end].to_vec(), false).unwrap();
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
            let count = builder.write(None, &mut terms, &mut postings).unwrap();
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
                    let list = PostingList::read(list.to_vec(), false).unwrap();
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
