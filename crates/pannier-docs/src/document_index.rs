//! An open index: documents by number, posting lists by term.
//!
//! An index consists of immutable segments. The file `documents` lists the live documents in the order of their ids, with the
//! segment of each. So a document is deleted by leaving it out. Documents and chunks are numbered over all segments in that
//! order, as if there were one segment. So numbers, statistics and scores do not depend on how documents are spread over
//! segments. Within a segment, documents have the same order, so the mapping of numbers is monotonic.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use xxhash_rust::xxh3::xxh3_64;

use crate::chunk::{Chunk, ChunkRow, document_id};
use crate::lexical::{TfFactorTable, field_k1};
use crate::manifest::{
    CATALOG, CHUNK_POSTINGS, CHUNK_TABLE, CurrentVersion, DOCUMENTS, Manifest, SEGMENTS,
    VERSION_FILES,
};
use crate::recent::Recent;
use crate::segment::{DocumentRecord, Segment, Totals};
use crate::sized_file::SizedFile;
use crate::term_postings::TermPostings;
use crate::{DocsError, catalog};
use pannier_text::K1;

/// The size of a document's row in `documents`.
const ROW_BYTES: usize = 12;

/// The memory for recently used posting lists, and for recently found documents.
const MAX_POSTINGS_BYTES: usize = 96 << 20;
const MAX_DOCUMENTS_BYTES: usize = 16 << 20;

/// The number of a deleted document or chunk.
const DELETED: u32 = u32::MAX;

/// The on-disk search index of a document folder, opened for reading.
#[derive(Debug)]
pub struct DocumentIndex {
    manifest: Manifest,
    folder: PathBuf,
    catalog: SizedFile,
    segments: Vec<Segment>,
    /// The rows of `documents` as they are stored.
    rows: Vec<u8>,
    /// For each segment, the number of each of its documents in the index.
    numbers: Vec<Vec<u32>>,
    /// Read on first use.
    chunk_table: OnceLock<ChunkTable>,
    vectors: OnceLock<Vec<i16>>,
    /// Those that recent searches used.
    recent_postings: Recent<String, TermPostings>,
    recent_documents: Recent<u32, ChunkedDocument>,
}

/// The segment of a document, and its number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) segment: u32,
    pub(crate) document: u32,
}

/// The numbers of all chunks, and the statistics that BM25 needs.
#[derive(Debug)]
pub(crate) struct ChunkTable {
    /// The first chunk of each document, and the number of chunks.
    firsts: Vec<u32>,
    /// The document of each chunk, computed when many are looked up.
    documents: OnceLock<Vec<u32>>,
    /// Term-frequency factors by count and chunk length: of bodies, and of all fields.
    pub(crate) tf_factors: TfFactorTable,
    pub(crate) field_tf_factors: TfFactorTable,
    /// Term-frequency factors by count and document length.
    pub(crate) document_tf_factors: TfFactorTable,
    /// The deleted chunks of each segment, ascending.
    deleted: Vec<Vec<u32>>,
}

impl ChunkTable {
    /// Returns the number of chunks.
    pub(crate) fn len(&self) -> u32 {
        self.firsts.last().copied().unwrap_or_default()
    }

    /// Returns the chunks of a document.
    pub(crate) fn chunks_of(&self, document: u32) -> Range<u32> {
        let document = document as usize;
        self.firsts[document]..self.firsts[document + 1]
    }

    /// Returns the document of a chunk.
    pub(crate) fn document_of(&self, chunk: u32) -> u32 {
        match self.documents.get() {
            Some(documents) => documents[chunk as usize],
            None => self.firsts.partition_point(|first| *first <= chunk) as u32 - 1,
        }
    }

    /// Prepares to look up the documents of many chunks.
    pub(crate) fn expect_many(&self) {
        self.documents.get_or_init(|| documents_of(&self.firsts));
    }
}

/// Returns the document of each chunk, given the first chunk of each document and the number of chunks.
pub(crate) fn documents_of(firsts: &[u32]) -> Vec<u32> {
    let mut documents = vec![0; firsts.last().map_or(0, |chunks| *chunks as usize)];
    for (range, document) in firsts.windows(2).zip(0..) {
        documents[range[0] as usize..range[1] as usize].fill(document);
    }
    documents
}

/// The location of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkLocation {
    /// The number of its document in the index.
    pub(crate) document: u32,
    /// The segment, and the numbers of its document and of itself in it.
    pub(crate) segment: u32,
    pub(crate) own_document: u32,
    pub(crate) own_chunk: u32,
}

/// A document with its chunks, without its content.
#[derive(Debug)]
pub(crate) struct ChunkedDocument {
    pub(crate) record: DocumentRecord,
    /// The hash of its path and content.
    pub(crate) id: [u8; 32],
    pub(crate) chunks: Vec<Chunk>,
    rows: Vec<ChunkRow>,
}

impl ChunkedDocument {
    fn memory(&self) -> usize {
        let chunk = |chunk: &Chunk| {
            let texts = [&chunk.heading_path, &chunk.symbols, &chunk.fence];
            texts.map(String::len).iter().sum::<usize>() + size_of::<Chunk>() + ChunkRow::BYTES
        };
        let own = size_of::<Self>() + self.record.path.len();
        own + self.chunks.iter().map(chunk).sum::<usize>()
    }
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

impl Document {
    /// Creates a document from its path, the SHA-256 of its text, and its text.
    pub fn new(path: String, hash: &[u8], content: String) -> Self {
        let version = format!("sha256:{}", hex(hash));
        Self { id: path.to_lowercase(), path, version, content }
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
            rows: Vec::new(),
            numbers: Vec::new(),
            chunk_table: OnceLock::new(),
            vectors: OnceLock::new(),
            recent_postings: Recent::new(MAX_POSTINGS_BYTES),
            recent_documents: Recent::new(MAX_DOCUMENTS_BYTES),
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
        let mut content_bytes = 0;
        for (row, number) in bytes.as_chunks().0.iter().zip(0..) {
            let (Location { segment, document }, rank) = read_row(row);
            let numbers = self.numbers.get_mut(segment as usize).ok_or_else(corrupt)?;
            // Ascending, as in the segment.
            if document < next[segment as usize] || rank >= count {
                return Err(corrupt());
            }
            *numbers.get_mut(document as usize).ok_or_else(corrupt)? = number;
            next[segment as usize] = document + 1;
            content_bytes += self.segments[segment as usize].content_bytes(document);
        }
        self.rows = bytes;
        if content_bytes == self.manifest.bytes { Ok(()) } else { Err(corrupt()) }
    }

    /// Returns the segment of a document, and its number in it.
    fn locate(&self, document: u32) -> (&Segment, u32) {
        let location = self.location(document);
        (&self.segments[location.segment as usize], location.document)
    }

    /// Returns the only segment if all of its documents are live. Its numbers are those of the index.
    fn whole_segment(&self) -> Option<&Segment> {
        match self.segments.as_slice() {
            [segment] if segment.len() == self.len() => Some(segment),
            _ => None,
        }
    }

    /// Returns the segments.
    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the segment of a document, and its number in it.
    #[inline]
    pub(crate) fn location(&self, document: u32) -> Location {
        read_row(&self.rows.as_chunks().0[document as usize]).0
    }

    /// Returns the position of a document in path order.
    #[inline]
    pub(crate) fn path_rank(&self, document: u32) -> u32 {
        read_row(&self.rows.as_chunks().0[document as usize]).1
    }

    /// Reads what an update compares with files, in the order of documents.
    pub(crate) fn catalog(&self) -> Result<Vec<catalog::Entry>, DocsError> {
        let bytes = self.catalog.read_whole(self.manifest.file(CATALOG).1)?;
        let entries = catalog::read(&bytes).filter(|all| all.len() == self.len() as usize);
        entries.ok_or_else(|| self.catalog.invalid("its documents do not match the manifest"))
    }

    /// Returns the chunk table, which is computed on first use.
    pub(crate) fn chunk_table(&self) -> Result<&ChunkTable, DocsError> {
        if let Some(table) = self.chunk_table.get() {
            return Ok(table);
        }
        let mut totals = Totals::default();
        let mut deleted = Vec::with_capacity(self.segments.len());
        for (segment, numbers) in self.segments.iter().zip(&self.numbers) {
            let documents = numbers.iter().zip(0..).filter(|(number, _)| **number == DELETED);
            let documents = documents.map(|(_, document)| document);
            totals.add_live(segment, documents.clone());
            deleted.push(documents.flat_map(|document| segment.chunks_of(document)).collect());
        }
        let count = totals.chunks;
        if count != self.manifest.chunks || u32::try_from(count).is_err() {
            return Err(DocsError::invalid(&self.folder, "its number of chunks is wrong"));
        }
        let firsts = match self.whole_segment() {
            Some(segment) => segment.firsts().to_vec(),
            None => {
                let mut first = 0;
                let next = (0..self.len()).map(|document| {
                    let (segment, document) = self.locate(document);
                    first += segment.chunks_of(document).len() as u32;
                    first
                });
                std::iter::once(0).chain(next).collect()
            }
        };
        let mean = |count: u64| totals.chunk_words as f64 / (count as f64).max(1.0);
        let code_share = totals.code as f64 / (count as f64).max(1.0);
        let table = ChunkTable {
            firsts,
            documents: OnceLock::new(),
            tf_factors: TfFactorTable::new(K1, mean(count)),
            field_tf_factors: TfFactorTable::new(field_k1(code_share), mean(count)),
            document_tf_factors: TfFactorTable::new(K1, mean(self.len().into())),
            deleted,
        };
        Ok(self.chunk_table.get_or_init(|| table))
    }

    /// Returns the location of a chunk.
    pub(crate) fn locate_chunk(&self, table: &ChunkTable, chunk: u32) -> ChunkLocation {
        let document = table.document_of(chunk);
        let location = self.location(document);
        let segment = &self.segments[location.segment as usize];
        let sequence = chunk - table.chunks_of(document).start;
        ChunkLocation {
            document,
            segment: location.segment,
            own_document: location.document,
            own_chunk: segment.chunks_of(location.document).start + sequence,
        }
    }

    /// Returns the number of a segment's document in the index; `None` if it is deleted.
    pub(crate) fn document_number(&self, segment: usize, document: u32) -> Option<u32> {
        Some(self.numbers[segment][document as usize]).filter(|number| *number != DELETED)
    }

    /// Returns all vectors, concatenated.
    pub(crate) fn vectors(&self) -> Result<&[i16], DocsError> {
        if let Some(vectors) = self.vectors.get() {
            return Ok(vectors);
        }
        if let Some(segment) = self.whole_segment() {
            return segment.vectors();
        }
        let dimensions = self.manifest.model.as_ref().map_or(0, |model| model.dimensions as usize);
        let mut vectors = Vec::with_capacity(self.chunk_table()?.len() as usize * dimensions);
        for document in 0..self.len() {
            let (segment, document) = self.locate(document);
            let range = segment.chunks_of(document);
            let (start, end) = (range.start as usize, range.end as usize);
            vectors.extend_from_slice(&segment.vectors()?[start * dimensions..end * dimensions]);
        }
        Ok(self.vectors.get_or_init(|| vectors))
    }

    /// Reads a document with its chunks, and checks that they match the chunk table.
    pub(crate) fn chunked_document(&self, number: u32) -> Result<Arc<ChunkedDocument>, DocsError> {
        self.recent_documents.get_or_read(
            &number,
            |found| Some(found.memory()),
            || {
                let (segment, document) = self.locate(number);
                let record = segment.record(document)?;
                let chunks = segment.chunks(document, &record)?;
                let rows = segment.chunk_rows(document)?;
                let is_equal = |(chunk, row): (&Chunk, &ChunkRow)| chunk.range == row.range();
                if rows.len() != chunks.len() || !chunks.iter().zip(&rows).all(is_equal) {
                    let problem =
                        format!("its chunks of {} do not match the document", record.path);
                    return Err(DocsError::invalid(&segment.folder.join(CHUNK_TABLE), problem));
                }
                let id = document_id(&record.path, &record.hash);
                Ok(ChunkedDocument { record, id, chunks, rows })
            },
        )
    }

    /// Reads the text of a chunk, and checks its checksum.
    pub(crate) fn chunk_text(
        &self,
        number: u32,
        document: &ChunkedDocument,
        sequence: u32,
    ) -> Result<String, DocsError> {
        let (segment, own) = self.locate(number);
        let missing =
            || DocsError::invalid(&segment.folder.join(CHUNK_TABLE), "a chunk is missing");
        let row = document.rows.get(sequence as usize).ok_or_else(missing)?;
        segment.chunk_text(own, row)
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
        segment.table_row(document).words
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
        Ok(Document::new(record.path, &record.hash, content))
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

    /// Returns the posting lists of a term in chunks.
    pub(crate) fn chunk_postings(&self, term: &str) -> Result<Arc<TermPostings>, DocsError> {
        let table = self.chunk_table()?;
        self.recent_postings.get_or_read(
            term,
            |postings| postings.memory(term),
            || {
                let mut postings = TermPostings::default();
                for (number, segment) in self.segments.iter().enumerate() {
                    let Some(list) = segment.chunk_postings(term)? else { continue };
                    // Live chunks: all, less the deleted ones.
                    let (mut deleted, mut deleted_in_body) = (0, 0);
                    let read = list.for_each_of(&table.deleted[number], |_, counts| {
                        deleted += 1;
                        deleted_in_body += u32::from(counts.body > 0);
                    });
                    let corrupt = || segment.corrupt_postings(term, CHUNK_POSTINGS);
                    let live = list.count.checked_sub(deleted);
                    let live = live.zip(list.body_count.checked_sub(deleted_in_body));
                    let (live, live_in_body) =
                        live.filter(|_| read.is_some()).ok_or_else(corrupt)?;
                    postings.add(number, list, live, live_in_body);
                }
                Ok(postings)
            },
        )
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

/// Returns the location and the path rank of a row in `documents`.
#[inline]
fn read_row(row: &[u8; ROW_BYTES]) -> (Location, u32) {
    let (numbers, _) = row.as_chunks();
    let number = |field: usize| u32::from_le_bytes(numbers[field]);
    (Location { segment: number(0), document: number(1) }, number(2))
}

/// Returns a checksum in the format of the manifest.
pub(crate) fn checksum(bytes: &[u8]) -> String {
    format!("{:016x}", xxh3_64(bytes))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
