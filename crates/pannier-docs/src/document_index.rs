//! An open index: documents by number, posting lists by term.
//!
//! An index consists of immutable segments. The file `documents` lists the live documents in the order of their ids, with the
//! segment of each. So a document is deleted by leaving it out. Documents and chunks are numbered over all segments in that
//! order, as if there were one segment. So numbers, statistics and scores do not depend on how documents are spread over
//! segments. Within a segment, documents have the same order, so the mapping of numbers is monotonic.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use xxhash_rust::xxh3::xxh3_64;

use crate::chunk::{Chunk, ChunkRow};
use crate::file_kind::FileKind;
use crate::inverted_index::PostingList;
use crate::lexical::{TfFactorTable, field_k1};
use crate::manifest::{
    CATALOG, CHUNK_POSTINGS, CurrentVersion, DOCUMENTS, Manifest, SEGMENTS, VERSION_FILES,
};
use crate::segment::{DocumentRecord, Positions, Segment};
use crate::sized_file::SizedFile;
use crate::varint::ByteReader;
use crate::word_counts::FieldCounts;
use crate::{DocsError, catalog};
use pannier_text::K1;

/// The size of a document's row in `documents`.
const ROW_BYTES: usize = 12;

/// The number of a deleted document or chunk.
const DELETED: u32 = u32::MAX;

/// The on-disk search index of a document folder, opened for reading.
#[derive(Debug)]
pub struct DocumentIndex {
    manifest: Manifest,
    folder: PathBuf,
    catalog: SizedFile,
    segments: Vec<Segment>,
    /// The segment of each document, and its number in it.
    locations: Vec<Location>,
    /// The position of each document in path order.
    path_ranks: Vec<u32>,
    /// For each segment, the number of each of its documents in the index.
    numbers: Vec<Vec<u32>>,
    /// Read on first use.
    chunk_table: OnceLock<ChunkTable>,
    vectors: OnceLock<Vec<i16>>,
}

/// The segment of a document, and its number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) segment: u32,
    pub(crate) document: u32,
}

/// All chunks, with the statistics that BM25 needs.
#[derive(Debug)]
pub(crate) struct ChunkTable {
    pub(crate) rows: Vec<ChunkRow>,
    /// The first chunk of each document, and the total number of chunks.
    pub(crate) firsts: Vec<u32>,
    /// The word count of each chunk.
    pub(crate) words: Vec<u32>,
    /// Term-frequency factors by count and chunk length: of bodies, and of all fields.
    pub(crate) tf_factors: TfFactorTable,
    pub(crate) field_tf_factors: TfFactorTable,
    /// The word count of each document: the sum of its chunks.
    pub(crate) document_words: Vec<u32>,
    /// Term-frequency factors by count and document length.
    pub(crate) document_tf_factors: TfFactorTable,
    /// The chunks of each segment.
    segments: Vec<SegmentChunks>,
}

/// The chunks of a segment.
#[derive(Debug)]
struct SegmentChunks {
    /// The number of each chunk in the index; `None` if it is that in the segment.
    numbers: Option<Vec<u32>>,
    /// The deleted chunks, ascending.
    deleted: Vec<u32>,
    /// The first chunk of each document, and the number of chunks.
    firsts: Vec<u32>,
}

/// A document as it was when the index was built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Document {
    /// Its id: the lowercased path.
    pub id: String,
    /// Its path relative to the document folder.
    pub path: String,
    /// SHA-256 of its bytes, as `sha256:` and 64 hexadecimal digits.
    pub version: String,
    /// Its text.
    pub content: String,
}

/// The posting lists of a term in the chunks of all segments, without deleted chunks.
#[derive(Debug)]
pub(crate) struct TermPostings<'c> {
    index: &'c DocumentIndex,
    table: &'c ChunkTable,
    /// The segments that contain the term.
    lists: Vec<(usize, PostingList)>,
    /// The number of chunks that contain the term, in any field and in the body.
    pub(crate) count: u32,
    pub(crate) body_count: u32,
}

impl<'c> TermPostings<'c> {
    /// Counts the postings of live chunks: those of the lists, less the deleted ones.
    fn new(
        index: &'c DocumentIndex,
        table: &'c ChunkTable,
        lists: Vec<(usize, PostingList)>,
        term: &str,
    ) -> Result<Self, DocsError> {
        let (mut count, mut body_count) = (0, 0);
        for (segment, list) in &lists {
            let (mut deleted, mut deleted_in_body) = (0, 0);
            let read = list.for_each_of(&table.segments[*segment].deleted, |_, counts| {
                deleted += 1;
                deleted_in_body += u32::from(counts.body > 0);
            });
            let corrupt = || index.segments[*segment].corrupt_postings(term, CHUNK_POSTINGS);
            let live =
                list.count.checked_sub(deleted).zip(list.body_count.checked_sub(deleted_in_body));
            let (live, live_in_body) = live.filter(|_| read.is_some()).ok_or_else(corrupt)?;
            count += live;
            body_count += live_in_body;
        }
        Ok(Self { index, table, lists, count, body_count })
    }

    /// Calls `f` with every chunk and the counts of the term in it: segment by segment, in order within each, so that the chunks
    /// of a document come together. Returns `None` if a list is corrupt.
    pub(crate) fn for_each(&self, mut f: impl FnMut(u32, FieldCounts)) -> Option<()> {
        self.lists.iter().try_for_each(|(segment, list)| {
            match &self.table.segments[*segment].numbers {
                None => list.for_each(&mut f),
                Some(numbers) => list.for_each(|chunk, counts| match numbers[chunk as usize] {
                    DELETED => {}
                    number => f(number, counts),
                }),
            }
        })
    }

    /// Calls `f` with those of the ascending `chunks` that contain the term, and its counts, in order.
    pub(crate) fn for_each_of(
        &self,
        chunks: &[u32],
        mut f: impl FnMut(u32, FieldCounts),
    ) -> Option<()> {
        if let [(segment, list)] = self.lists.as_slice()
            && self.table.segments[*segment].numbers.is_none()
        {
            return list.for_each_of(chunks, f);
        }
        let mut found: Vec<(u32, FieldCounts)> = Vec::new();
        for (segment, list) in &self.lists {
            let (mut numbers, mut requested) = (Vec::new(), Vec::new());
            for chunk in chunks {
                let document = self.table.rows[*chunk as usize].document as usize;
                let location = self.index.locations[document];
                if location.segment as usize == *segment {
                    let first = self.table.segments[*segment].firsts[location.document as usize];
                    requested.push(first + (chunk - self.table.firsts[document]));
                    numbers.push(*chunk);
                }
            }
            let mut pairs = requested.iter().zip(numbers).peekable();
            list.for_each_of(&requested, |chunk, counts| {
                while pairs.next_if(|(other, _)| **other < chunk).is_some() {}
                if let Some((_, number)) = pairs.next_if(|(other, _)| **other == chunk) {
                    found.push((number, counts));
                }
            })?;
        }
        found.sort_unstable_by_key(|(chunk, _)| *chunk);
        found.into_iter().for_each(|(chunk, counts)| f(chunk, counts));
        Some(())
    }
}

impl DocumentIndex {
    /// Opens the current version of an index. A later build does not change an open index.
    ///
    /// # Errors
    ///
    /// [`DocsError::NoIndex`], and [`DocsError::Invalid`] with the corrupt file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, DocsError> {
        let path = path.as_ref();
        // A build may replace and remove the version while it is being opened.
        let mut current = CurrentVersion::read(path)?;
        loop {
            match Self::open_version(path, current.clone()) {
                Ok(index) => return Ok(index),
                Err(error) => {
                    let now = CurrentVersion::read(path)?;
                    if now == current {
                        return Err(error);
                    }
                    current = now;
                }
            }
        }
    }

    fn open_version(root: &Path, current: CurrentVersion) -> Result<Self, DocsError> {
        current.check()?;
        let manifest = Manifest::read(&current)?;
        let folder = current.folder;
        let open = |name| SizedFile::open(folder.join(name), manifest.file(name).0);
        let [catalog, documents] = VERSION_FILES.map(open);
        let (catalog, documents) = (catalog?, documents?);
        let segments = root.join(SEGMENTS);
        let open = |info: &_| Segment::open(&segments, Clone::clone(info), manifest.model.as_ref());
        let mut index = Self {
            segments: manifest.segments.iter().map(open).collect::<Result<_, _>>()?,
            manifest,
            folder,
            catalog,
            locations: Vec::new(),
            path_ranks: Vec::new(),
            numbers: Vec::new(),
            chunk_table: OnceLock::new(),
            vectors: OnceLock::new(),
        };
        index.read_documents(&documents)?;
        Ok(index)
    }

    fn read_documents(&mut self, file: &SizedFile) -> Result<(), DocsError> {
        let count = self.manifest.documents;
        if u64::from(count) * ROW_BYTES as u64 != file.bytes {
            return Err(file.invalid("its number of documents differs from the manifest"));
        }
        let bytes = file.read_whole(self.manifest.file(DOCUMENTS).1)?;
        let corrupt = || file.invalid("its documents do not match the segments");
        let deleted = |segment: &Segment| vec![DELETED; segment.len() as usize];
        self.numbers = self.segments.iter().map(deleted).collect();
        let mut next = vec![0; self.segments.len()];
        let mut reader = ByteReader(&bytes);
        let mut bytes = 0;
        for number in 0..count {
            let row = (|| Some((reader.u32()?, reader.u32()?, reader.u32()?)))();
            let (segment, document, rank) = row.ok_or_else(corrupt)?;
            let numbers = self.numbers.get_mut(segment as usize).ok_or_else(corrupt)?;
            // Ascending, as in the segment.
            if document < next[segment as usize] || rank >= count {
                return Err(corrupt());
            }
            *numbers.get_mut(document as usize).ok_or_else(corrupt)? = number;
            next[segment as usize] = document + 1;
            bytes += self.segments[segment as usize].content_bytes(document);
            self.locations.push(Location { segment, document });
            self.path_ranks.push(rank);
        }
        if bytes == self.manifest.bytes { Ok(()) } else { Err(corrupt()) }
    }

    /// Returns the segment of a document, and its number in it.
    fn locate(&self, document: u32) -> (&Segment, u32) {
        let location = self.locations[document as usize];
        (&self.segments[location.segment as usize], location.document)
    }

    /// Returns the segments.
    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the location of each document.
    pub(crate) fn locations(&self) -> &[Location] {
        &self.locations
    }

    /// Reads what an update compares with files, in the order of documents.
    pub(crate) fn catalog(&self) -> Result<Vec<catalog::Entry>, DocsError> {
        let bytes = self.catalog.read_whole(self.manifest.file(CATALOG).1)?;
        let entries = catalog::read(&bytes).filter(|all| all.len() == self.len() as usize);
        entries.ok_or_else(|| self.catalog.invalid("its documents do not match the manifest"))
    }

    /// Returns the chunk table, which is read on first use.
    pub(crate) fn chunk_table(&self) -> Result<&ChunkTable, DocsError> {
        if let Some(table) = self.chunk_table.get() {
            return Ok(table);
        }
        let corrupt = || DocsError::invalid(&self.folder, "its number of chunks is wrong");
        let count = usize::try_from(self.manifest.chunks).map_err(|_| corrupt())?;
        let (mut segments, mut rows) = (Vec::new(), Vec::new());
        for segment in &self.segments {
            let own = segment.chunk_rows()?;
            let mut firsts = Vec::with_capacity(segment.len() as usize + 1);
            for (row, number) in own.iter().zip(0..) {
                firsts.resize(firsts.len().max(row.document as usize + 1), number);
            }
            firsts.resize(segment.len() as usize + 1, own.len() as u32);
            let is_whole = self.segments.len() == 1 && segment.len() == self.len();
            let numbers = (!is_whole).then(|| vec![DELETED; own.len()]);
            segments.push(SegmentChunks { numbers, deleted: Vec::new(), firsts });
            rows.push(own);
        }
        let live = self.locations.iter().map(|Location { segment, document }| {
            let firsts = &segments[*segment as usize].firsts;
            u64::from(firsts[*document as usize + 1] - firsts[*document as usize])
        });
        if live.sum::<u64>() != self.manifest.chunks || u32::try_from(count).is_err() {
            return Err(corrupt());
        }
        let mut table = ChunkTable {
            rows: Vec::with_capacity(count),
            firsts: Vec::with_capacity(self.len() as usize + 1),
            words: Vec::with_capacity(count),
            tf_factors: TfFactorTable::default(),
            field_tf_factors: TfFactorTable::default(),
            document_words: Vec::with_capacity(self.len() as usize),
            document_tf_factors: TfFactorTable::default(),
            segments,
        };
        let (mut total_words, mut code) = (0_u64, 0_u32);
        for (location, number) in self.locations.iter().zip(0..) {
            let (segment, document) = (location.segment as usize, location.document as usize);
            let own = &mut table.segments[segment];
            let range = own.firsts[document] as usize..own.firsts[document + 1] as usize;
            table.firsts.push(table.rows.len() as u32);
            let mut document_words = 0_u32;
            for (row, chunk) in rows[segment][range.clone()].iter().zip(range) {
                if let Some(numbers) = &mut own.numbers {
                    numbers[chunk] = table.rows.len() as u32;
                }
                total_words += u64::from(row.words);
                code += u32::from(row.kind != FileKind::Prose);
                document_words = document_words.saturating_add(row.words);
                table.words.push(row.words);
                table.rows.push(ChunkRow { document: number, ..*row });
            }
            table.document_words.push(document_words);
        }
        table.firsts.push(table.rows.len() as u32);
        for own in &mut table.segments {
            let numbers = own.numbers.iter().flatten().zip(0..);
            own.deleted =
                numbers.filter(|(number, _)| **number == DELETED).map(|(_, own)| own).collect();
        }
        let mean = |count: usize| total_words as f64 / (count as f64).max(1.0);
        let code_share = f64::from(code) / (count as f64).max(1.0);
        table.tf_factors = TfFactorTable::new(K1, mean(count));
        table.field_tf_factors = TfFactorTable::new(field_k1(code_share), mean(count));
        table.document_tf_factors = TfFactorTable::new(K1, mean(self.len() as usize));
        Ok(self.chunk_table.get_or_init(|| table))
    }

    /// Returns all vectors, concatenated.
    pub(crate) fn vectors(&self) -> Result<&[i16], DocsError> {
        if let Some(vectors) = self.vectors.get() {
            return Ok(vectors);
        }
        let table = self.chunk_table()?;
        if let ([segment], [SegmentChunks { numbers: None, .. }]) =
            (self.segments.as_slice(), table.segments.as_slice())
        {
            return segment.vectors();
        }
        let dimensions = self.manifest.model.as_ref().map_or(0, |model| model.dimensions as usize);
        let mut vectors = Vec::with_capacity(table.rows.len() * dimensions);
        for location in &self.locations {
            let (segment, document) = (location.segment as usize, location.document as usize);
            let firsts = &table.segments[segment].firsts;
            let range = firsts[document] as usize..firsts[document + 1] as usize;
            let own = self.segments[segment].vectors()?;
            vectors.extend_from_slice(&own[range.start * dimensions..range.end * dimensions]);
        }
        Ok(self.vectors.get_or_init(|| vectors))
    }

    /// Reads the text of a chunk, and checks its checksum.
    pub(crate) fn chunk_text(&self, row: &ChunkRow) -> Result<String, DocsError> {
        let (segment, document) = self.locate(row.document);
        segment.chunk_text(document, row)
    }

    /// Returns the position of each document in path order.
    pub(crate) fn path_ranks(&self) -> &[u32] {
        &self.path_ranks
    }

    /// Returns the manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the folder of the index.
    pub fn root(&self) -> &Path {
        self.folder.ancestors().nth(2).unwrap_or(&self.folder)
    }

    /// Returns the folder of the open version.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the token count of all documents.
    pub fn total_tokens(&self) -> u64 {
        (0..self.len()).map(|document| self.tokens(document)).sum()
    }

    /// Returns the word count of all documents.
    pub fn total_words(&self) -> u64 {
        (0..self.len()).map(|document| u64::from(self.word_count(document))).sum()
    }

    /// Returns the number of documents.
    pub fn len(&self) -> u32 {
        self.manifest.documents
    }

    /// Returns whether there are no documents.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the size of a document's content in bytes.
    pub(crate) fn content_bytes(&self, document: u32) -> u64 {
        let (segment, document) = self.locate(document);
        segment.content_bytes(document)
    }

    /// Returns the token count of a document: a quarter of its bytes, rounded up.
    pub(crate) fn tokens(&self, document: u32) -> u64 {
        self.content_bytes(document).div_ceil(4)
    }

    /// Returns the word count of a document.
    pub(crate) fn word_count(&self, document: u32) -> u32 {
        let (segment, document) = self.locate(document);
        segment.word_count(document)
    }

    pub(crate) fn record(&self, document: u32) -> Result<DocumentRecord, DocsError> {
        let (segment, document) = self.locate(document);
        segment.record(document)
    }

    /// Reads a document, and checks its hash.
    ///
    /// # Errors
    ///
    /// [`DocsError::Invalid`] if it is corrupt, or if there is no such document.
    pub fn document(&self, document: u32) -> Result<Document, DocsError> {
        self.check_number(document)?;
        let (segment, document) = self.locate(document);
        let record = segment.record(document)?;
        let content = segment.content(document, &record)?;
        let version = format!("sha256:{}", hex(&record.hash));
        Ok(Document { id: record.path.to_lowercase(), path: record.path, version, content })
    }

    fn check_number(&self, document: u32) -> Result<(), DocsError> {
        match document < self.len() {
            true => Ok(()),
            false => {
                Err(DocsError::invalid(&self.folder, format!("there is no document {document}")))
            }
        }
    }

    /// Returns the chunks of a document, in order.
    ///
    /// # Errors
    ///
    /// As [`document`](Self::document).
    pub fn chunks(&self, document: u32) -> Result<Vec<Chunk>, DocsError> {
        self.check_number(document)?;
        self.chunks_of(document, &self.record(document)?)
    }

    /// Returns the chunks of a document whose record is known.
    pub(crate) fn chunks_of(
        &self,
        document: u32,
        record: &DocumentRecord,
    ) -> Result<Vec<Chunk>, DocsError> {
        let (segment, document) = self.locate(document);
        segment.chunks(document, record)
    }

    /// Returns the documents that contain a word, with its count in each, in no particular order.
    pub(crate) fn postings(&self, word: &str) -> Result<Vec<(u32, u32)>, DocsError> {
        let mut postings = Vec::new();
        for (segment, numbers) in self.segments.iter().zip(&self.numbers) {
            let Some(list) = segment.postings(word)? else { continue };
            let read = list.for_each(|document, counts| match numbers[document as usize] {
                DELETED => {}
                number => postings.push((number, counts.body)),
            });
            read.ok_or_else(|| segment.corrupt_postings(word, crate::manifest::POSTINGS))?;
        }
        Ok(postings)
    }

    /// Returns the posting lists of a term in chunks; `None` if no chunk contains it.
    pub(crate) fn chunk_postings(&self, term: &str) -> Result<Option<TermPostings<'_>>, DocsError> {
        let mut lists = Vec::new();
        for (number, segment) in self.segments.iter().enumerate() {
            lists.extend(segment.chunk_postings(term)?.map(|list| (number, list)));
        }
        let postings = TermPostings::new(self, self.chunk_table()?, lists, term)?;
        Ok(Some(postings).filter(|postings| postings.count > 0))
    }

    /// Returns the chunks that contain a term, with its counts and its positions in each, in no particular order; `None` if no
    /// chunk contains it.
    pub(crate) fn chunk_positions(&self, term: &str) -> Result<Option<Positions>, DocsError> {
        let table = self.chunk_table()?;
        let (mut chunks, mut positions) = (Vec::new(), Vec::new());
        for (segment, own) in self.segments.iter().zip(&table.segments) {
            let Some((postings, of_postings)) = segment.chunk_positions(term)? else { continue };
            for ((chunk, counts), own_positions) in postings.into_iter().zip(of_postings) {
                let numbers = own.numbers.as_ref();
                let number = numbers.map_or(chunk, |numbers| numbers[chunk as usize]);
                if number != DELETED {
                    chunks.push((number, counts));
                    positions.push(own_positions);
                }
            }
        }
        Ok(Some((chunks, positions)).filter(|(chunks, _)| !chunks.is_empty()))
    }

    pub(crate) fn corrupt_postings(&self, word: &str, postings: &'static str) -> DocsError {
        let problem = format!("the postings of '{word}' do not match their checksum");
        DocsError::invalid(&self.root().join(SEGMENTS).join(postings), problem)
    }
}

/// Returns the row of a document in `documents`.
pub(crate) fn document_row(location: Location, path_rank: u32) -> [u8; ROW_BYTES] {
    let mut row = [0; ROW_BYTES];
    let numbers = [location.segment, location.document, path_rank];
    for (field, number) in row.chunks_exact_mut(4).zip(numbers) {
        field.copy_from_slice(&number.to_le_bytes());
    }
    row
}

/// Returns a checksum in the format of the manifest.
pub(crate) fn checksum(bytes: &[u8]) -> String {
    format!("{:016x}", xxh3_64(bytes))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
