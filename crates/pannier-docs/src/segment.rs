//! A segment: an immutable part of an index, with its own documents, chunks, posting lists and vectors.
//!
//! Documents and chunks are numbered from 0 within the segment, documents in the order of their ids. Everything that is read
//! is checked. The table of document sizes is small and read at once; everything else is read on demand, and has its own
//! checksum or hash. So a query reads and verifies only what it uses.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use pannier_core::Timestamp;
use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::xxh3_64;

use crate::chunk::{self, Chunk, ChunkRow};
use crate::document_index::documents_of;
use crate::file_kind::FileKind;
use crate::inverted_index::{self, PostingList};
use crate::manifest::{
    CHUNK_POSTINGS, CHUNK_TABLE, CHUNK_TERMS, CHUNK_WORDS, CHUNKS, CONTENTS, PATHS, POSTINGS,
    RECORDS, SEGMENT_FILES, SegmentInfo, TABLE, TERMS, VECTOR_KEYS, VECTORS,
};
use crate::sized_file::SizedFile;
use crate::source::is_contained_path;
use crate::varint::ByteReader;
use crate::vectors::{KEY_BYTES, VectorKey};
use crate::word_counts::{self, FieldCounts, TermCounts};
use crate::{DocsError, DocumentMetadata, Model};

/// The size of the word count of a chunk.
const WORDS_BYTES: usize = 4;
/// The number of documents from one known offset of contents to the next.
const START_INTERVAL: usize = 64;
/// The share of chunks whose documents are few to look up. Large in tests, so that a few are few in a small corpus.
const FEW_SHARE: usize = if cfg!(test) { 4 } else { 64 };
/// The size of a document record.
pub(crate) const RECORD_BYTES: usize = 80;

/// A segment, opened for reading.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) info: SegmentInfo,
    pub(crate) folder: PathBuf,
    files: Vec<SizedFile>,
    /// The rows of all documents as they are stored. Decoding all of them would take most of the time to open a large segment.
    table: Vec<u8>,
    /// The offset of the content of every [`START_INTERVAL`]th document.
    starts: Vec<u64>,
    /// The first chunk of each document, and the number of chunks.
    firsts: Vec<u32>,
    /// The statistics of all documents, deleted ones included.
    pub(crate) totals: Totals,
    /// Read on first use.
    chunk_words: OnceLock<Vec<u8>>,
    chunk_documents: OnceLock<Vec<u32>>,
    vectors: OnceLock<Vec<i16>>,
}

/// What ranking and budgets need to know about a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableRow {
    /// The size of its content in bytes.
    length: u32,
    /// The number of its words, separated by whitespace.
    pub(crate) words: u32,
    /// The number of its chunks, and that of their analyzed words.
    pub(crate) chunks: u32,
    pub(crate) chunk_words: u32,
    pub(crate) kind: FileKind,
}

impl TableRow {
    const BYTES: usize = 17;

    pub(crate) fn new(path: &str, content: &str, words: &TermCounts, terms: &[TermCounts]) -> Self {
        Self {
            length: content.len() as u32,
            words: words.total,
            chunks: terms.len() as u32,
            chunk_words: terms.iter().fold(0, |sum, terms| sum.saturating_add(terms.total)),
            kind: FileKind::of_path(path),
        }
    }

    pub(crate) fn bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [self.kind as u8; Self::BYTES];
        let numbers = [self.length, self.words, self.chunks, self.chunk_words];
        for (field, number) in bytes.chunks_exact_mut(4).zip(numbers) {
            field.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    #[inline]
    fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let (numbers, kind) = bytes.as_chunks();
        let number = |field: usize| u32::from_le_bytes(numbers[field]);
        let (length, words, chunks, chunk_words) = (number(0), number(1), number(2), number(3));
        // The kinds were checked when the table was read.
        let kind = FileKind::from_byte(kind[0]).unwrap_or(FileKind::Prose);
        Self { length, words, chunks, chunk_words, kind }
    }
}

/// The statistics of documents that BM25 needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) chunks: u64,
    pub(crate) chunk_words: u64,
    /// The number of chunks of source code, and of tests among them.
    pub(crate) code: u64,
    pub(crate) tests: u64,
}

impl Totals {
    #[inline]
    fn add(&mut self, row: TableRow) {
        self.chunks += u64::from(row.chunks);
        self.chunk_words += u64::from(row.chunk_words);
        self.code += if row.kind == FileKind::Prose { 0 } else { u64::from(row.chunks) };
        self.tests += if row.kind == FileKind::Test { u64::from(row.chunks) } else { 0 };
    }

    /// Adds the documents of a segment without the deleted ones.
    pub(crate) fn add_live(&mut self, segment: &Segment, deleted: impl Iterator<Item = u32>) {
        let mut gone = Self::default();
        deleted.for_each(|document| gone.add(segment.table_row(document)));
        let all = segment.totals;
        self.chunks += all.chunks - gone.chunks;
        self.chunk_words += all.chunk_words - gone.chunk_words;
        self.code += all.code - gone.code;
        self.tests += all.tests - gone.tests;
    }
}

/// The stored fields of a document, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DocumentRecord {
    pub(crate) path: String,
    pub(crate) hash: [u8; 32],
    pub(crate) metadata: DocumentMetadata,
    pub(crate) chunks_start: u64,
    pub(crate) chunks_bytes: u32,
    pub(crate) chunk_count: u32,
}

/// A posting list with the positions of its term: for each doc, the counts and the positions in its body.
pub(crate) type Positions = (Vec<(u32, FieldCounts)>, Vec<Vec<u32>>);

impl Segment {
    pub(crate) fn open(
        segments: &Path,
        info: SegmentInfo,
        model: Option<&Model>,
    ) -> Result<Self, DocsError> {
        let folder = segments.join(&info.name);
        crate::manifest::check_kind(&folder, true)?;
        let mut files = Vec::with_capacity(SEGMENT_FILES.len());
        for name in SEGMENT_FILES {
            files.push(SizedFile::open(folder.join(name), info.file(name).0)?);
        }
        let mut segment = Self {
            info,
            folder,
            files,
            table: Vec::new(),
            starts: Vec::new(),
            firsts: Vec::new(),
            totals: Totals::default(),
            chunk_words: OnceLock::new(),
            chunk_documents: OnceLock::new(),
            vectors: OnceLock::new(),
        };
        segment.read_table()?;
        segment.check_counts(model)?;
        Ok(segment)
    }

    fn read_table(&mut self) -> Result<(), DocsError> {
        let table = self.file(TABLE)?;
        if u64::from(self.info.documents) * TableRow::BYTES as u64 != table.bytes {
            return Err(table.invalid("its number of documents differs from the manifest"));
        }
        let bytes = self.read_whole(TABLE)?;
        let count = self.info.documents as usize;
        let mut starts = Vec::with_capacity(count.div_ceil(START_INTERVAL));
        let mut firsts = vec![0; count + 1];
        let (mut start, mut chunk_words) = (0_u64, 0_u64);
        let (mut chunks, mut chunks_by_kind) = (0_u64, [0_u64; FileKind::COUNT]);
        let corrupt = || table.invalid("its documents do not match the manifest");
        let rows = bytes.as_chunks().0.chunks(START_INTERVAL);
        for (rows, firsts) in rows.zip(firsts[1..].chunks_mut(START_INTERVAL)) {
            starts.push(start);
            for (bytes, next) in rows.iter().zip(firsts) {
                let row = TableRow::from_bytes(bytes);
                let kind = usize::from(bytes[TableRow::BYTES - 1]);
                *chunks_by_kind.get_mut(kind).ok_or_else(corrupt)? += u64::from(row.chunks);
                chunks += u64::from(row.chunks);
                chunk_words += u64::from(row.chunk_words);
                start += u64::from(row.length);
                // The last one is the number of chunks, which is checked below, so none is truncated.
                *next = chunks as u32;
            }
        }
        if chunks != self.info.chunks || u32::try_from(chunks).is_err() {
            return Err(corrupt());
        }
        let [_, code, tests] = chunks_by_kind;
        let totals = Totals { chunks, chunk_words, code: code + tests, tests };
        if start != self.file(CONTENTS)?.bytes {
            return Err(self.file(CONTENTS)?.invalid("its size differs from the table"));
        }
        (self.table, self.starts, self.firsts, self.totals) = (bytes, starts, firsts, totals);
        Ok(())
    }

    fn check_counts(&self, model: Option<&Model>) -> Result<(), DocsError> {
        let info = &self.info;
        let wrong = |name, problem: &str| Err(self.file(name)?.invalid(problem));
        if self.file(RECORDS)?.bytes != u64::from(info.documents) * RECORD_BYTES as u64 {
            return wrong(RECORDS, "its number of documents differs from the manifest");
        }
        for (name, terms) in [(TERMS, info.terms), (CHUNK_TERMS, info.chunk_terms)] {
            if inverted_index::terms_bytes(terms) != Some(self.file(name)?.bytes) {
                return wrong(name, "its number of terms differs from the manifest");
            }
        }
        for (name, row_bytes) in [(CHUNK_TABLE, ChunkRow::BYTES), (CHUNK_WORDS, WORDS_BYTES)] {
            if self.file(name)?.bytes != info.chunks.saturating_mul(row_bytes as u64) {
                return wrong(name, "its number of chunks differs from the manifest");
            }
        }
        let (keys, numbers) = match model {
            Some(model) => (info.chunks, info.chunks.saturating_mul(model.dimensions.into())),
            None => (0, 0),
        };
        if self.file(VECTORS)?.bytes != numbers.saturating_mul(2)
            || self.file(VECTOR_KEYS)?.bytes != keys.saturating_mul(KEY_BYTES as u64)
        {
            return wrong(VECTORS, "its number of vectors differs from the manifest");
        }
        Ok(())
    }

    fn file(&self, name: &'static str) -> Result<&SizedFile, DocsError> {
        let position = SEGMENT_FILES.iter().position(|other| *other == name);
        position
            .and_then(|position| self.files.get(position))
            .ok_or_else(|| DocsError::invalid(&self.folder.join(name), "it is missing"))
    }

    fn read_whole(&self, name: &'static str) -> Result<Vec<u8>, DocsError> {
        self.file(name)?.read_whole(self.info.file(name).1)
    }

    /// Returns the number of documents, deleted ones included.
    pub(crate) fn len(&self) -> u32 {
        self.info.documents
    }

    /// Returns the number of chunks. A build rejects more than `u32::MAX`.
    pub(crate) fn chunk_count(&self) -> u32 {
        u32::try_from(self.info.chunks).unwrap_or(u32::MAX)
    }

    /// Returns the size of a document's content in bytes.
    pub(crate) fn content_bytes(&self, document: u32) -> u64 {
        self.table_row(document).length.into()
    }

    /// Returns the offset of a document's content.
    fn content_start(&self, document: u32) -> u64 {
        let known = document as usize / START_INTERVAL;
        let before = (known * START_INTERVAL) as u32..document;
        self.starts[known] + before.map(|other| self.content_bytes(other)).sum::<u64>()
    }

    /// Returns the counts and the kind of a document.
    #[inline]
    pub(crate) fn table_row(&self, document: u32) -> TableRow {
        TableRow::from_bytes(&self.table.as_chunks().0[document as usize])
    }

    /// Returns the first chunk of each document, and the number of chunks.
    pub(crate) fn firsts(&self) -> &[u32] {
        &self.firsts
    }

    /// Returns the chunks of a document.
    pub(crate) fn chunks_of(&self, document: u32) -> Range<u32> {
        self.firsts[document as usize]..self.firsts[document as usize + 1]
    }

    /// Returns the document of each chunk, to look up `count` of them. For a few, that is not computed.
    pub(crate) fn chunk_documents(&self, count: usize) -> Option<&[u32]> {
        match count < self.chunk_count() as usize / FEW_SHARE {
            true => self.chunk_documents.get().map(Vec::as_slice),
            false => Some(self.chunk_documents.get_or_init(|| documents_of(&self.firsts))),
        }
    }

    /// Returns the number of analyzed words of each chunk, little-endian.
    pub(crate) fn chunk_words(&self) -> Result<&[[u8; WORDS_BYTES]], DocsError> {
        let words = match self.chunk_words.get() {
            Some(words) => words,
            None => {
                let words = self.read_whole(CHUNK_WORDS)?;
                self.chunk_words.get_or_init(|| words)
            }
        };
        Ok(words.as_chunks().0)
    }

    /// Reads the rows of a document's chunks. They have no checksum of their own: they must match its chunks and texts.
    pub(crate) fn chunk_rows(&self, document: u32) -> Result<Vec<ChunkRow>, DocsError> {
        let file = self.file(CHUNK_TABLE)?;
        let chunks = self.chunks_of(document);
        let start = u64::from(chunks.start) * ChunkRow::BYTES as u64;
        let bytes = file.read(start, chunks.len() as u64 * ChunkRow::BYTES as u64)?;
        let mut reader = ByteReader(&bytes);
        let rows = chunks.map(|_| ChunkRow::read(&mut reader)).collect::<Option<_>>();
        rows.ok_or_else(|| file.invalid("it is truncated"))
    }

    /// Returns all vectors, concatenated.
    pub(crate) fn vectors(&self) -> Result<&[i16], DocsError> {
        if let Some(vectors) = self.vectors.get() {
            return Ok(vectors);
        }
        let bytes = self.read_whole(VECTORS)?;
        let (numbers, _) = bytes.as_chunks();
        let vectors = numbers.iter().map(|number| i16::from_le_bytes(*number)).collect();
        Ok(self.vectors.get_or_init(|| vectors))
    }

    /// Returns the text hashes of the vectors, in the same order.
    pub(crate) fn vector_keys(&self) -> Result<Vec<VectorKey>, DocsError> {
        Ok(self.read_whole(VECTOR_KEYS)?.as_chunks().0.to_vec())
    }

    /// Reads the text of a chunk of a document, and checks its checksum.
    pub(crate) fn chunk_text(&self, document: u32, row: &ChunkRow) -> Result<String, DocsError> {
        let contents = self.file(CONTENTS)?;
        let changed = || {
            contents.invalid(&format!(
                "a chunk of document {document} does not match its checksum in {CHUNK_TABLE}"
            ))
        };
        if u64::from(row.start) + u64::from(row.length) > self.content_bytes(document) {
            return Err(changed());
        }
        let start = self.content_start(document) + u64::from(row.start);
        let bytes = contents.read(start, row.length.into())?;
        if xxh3_64(&bytes) != row.check {
            return Err(changed());
        }
        String::from_utf8(bytes).map_err(|_| changed())
    }

    pub(crate) fn record(&self, document: u32) -> Result<DocumentRecord, DocsError> {
        let records = self.file(RECORDS)?;
        let start = u64::from(document) * RECORD_BYTES as u64;
        let bytes = records.read(start, RECORD_BYTES as u64)?;
        let corrupt = || {
            records.invalid(&format!(
                "document {document}, or its path in `paths`, does not match its checksum"
            ))
        };
        let mut reader = ByteReader(&bytes);
        let fields = (|| {
            let starts = (reader.u64()?, reader.u64()?);
            let lengths = (reader.u32()?, reader.u32()?, reader.u32()?);
            let (chunk_count, seconds) = (reader.u32()?, reader.u64()? as i64);
            let hash: [u8; 32] = reader.take(32)?.try_into().ok()?;
            Some((starts, lengths, chunk_count, seconds, hash, reader.u64()?))
        })();
        let (starts, lengths, chunk_count, seconds, hash, check) = fields.ok_or_else(corrupt)?;
        let (names_start, chunks_start) = starts;
        let (path_bytes, title_bytes, chunks_bytes) = lengths;
        let paths = self.file(PATHS)?;
        let names = paths.read(names_start, u64::from(path_bytes) + u64::from(title_bytes));
        let names = names.map_err(|error| match error {
            DocsError::Invalid { .. } => corrupt(),
            error => error,
        })?;
        if check != record_check(&bytes[..RECORD_BYTES - 8], &names) {
            return Err(corrupt());
        }
        let (path, title) = names.split_at(path_bytes as usize);
        let path = std::str::from_utf8(path).ok().filter(|path| is_contained_path(path));
        let title = std::str::from_utf8(title).ok();
        let (Some(path), Some(title)) = (path, title) else {
            return Err(paths.invalid(&format!("the path of document {document} is invalid")));
        };
        let title = Some(title.to_owned()).filter(|title| !title.is_empty());
        let metadata = DocumentMetadata { title, date: Timestamp::from_unix_seconds(seconds).ok() };
        let path = path.to_owned();
        Ok(DocumentRecord { path, hash, metadata, chunks_start, chunks_bytes, chunk_count })
    }

    /// Reads the content of a document, and checks its hash.
    pub(crate) fn content(
        &self,
        document: u32,
        record: &DocumentRecord,
    ) -> Result<String, DocsError> {
        let contents = self.file(CONTENTS)?;
        let bytes = contents.read(self.content_start(document), self.content_bytes(document))?;
        let changed =
            || contents.invalid(&format!("the content of {} does not match its hash", record.path));
        if <[u8; 32]>::from(Sha256::digest(&bytes)) != record.hash {
            return Err(changed());
        }
        String::from_utf8(bytes).map_err(|_| changed())
    }

    /// Reads the chunks of a document, in order, and checks their checksum.
    pub(crate) fn chunks(
        &self,
        document: u32,
        record: &DocumentRecord,
    ) -> Result<Vec<Chunk>, DocsError> {
        let chunks = self.file(CHUNKS)?;
        let corrupt = || {
            chunks
                .invalid(&format!("the chunks of document {document} do not match their checksum"))
        };
        let length = usize::try_from(self.content_bytes(document)).map_err(|_| corrupt())?;
        let bytes = chunks.read(record.chunks_start, record.chunks_bytes.into())?;
        let (bytes, check) =
            bytes.split_at_checked(bytes.len().saturating_sub(8)).ok_or_else(corrupt)?;
        if check != xxh3_64(bytes).to_le_bytes() {
            return Err(corrupt());
        }
        let read = chunk::read(bytes, length).ok_or_else(corrupt)?;
        if read.len() != record.chunk_count as usize { Err(corrupt()) } else { Ok(read) }
    }

    /// Returns the posting list of a word in documents.
    pub(crate) fn postings(&self, word: &str) -> Result<Option<PostingList>, DocsError> {
        let entry = self.find(word, TERMS, POSTINGS, self.info.terms)?;
        entry.map(|(list, _)| self.list(list, word, POSTINGS, self.len())).transpose()
    }

    /// Returns the posting list of a term in chunks.
    pub(crate) fn chunk_postings(&self, term: &str) -> Result<Option<PostingList>, DocsError> {
        let entry = self.find(term, CHUNK_TERMS, CHUNK_POSTINGS, self.info.chunk_terms)?;
        entry.map(|(list, _)| self.list(list, term, CHUNK_POSTINGS, self.chunk_count())).transpose()
    }

    /// Returns the chunks that contain a term, with its counts and its positions in each.
    pub(crate) fn chunk_positions(&self, term: &str) -> Result<Option<Positions>, DocsError> {
        let entry = self.find(term, CHUNK_TERMS, CHUNK_POSTINGS, self.info.chunk_terms)?;
        let Some((list, entry)) = entry else { return Ok(None) };
        let corrupt = || self.corrupt_postings(term, CHUNK_POSTINGS);
        let start = entry.start.checked_add(entry.length).ok_or_else(corrupt)?;
        let positions = self.file(CHUNK_POSTINGS)?.read(start, entry.positions_len)?;
        let list = self.list(list, term, CHUNK_POSTINGS, self.chunk_count())?;
        let postings = list.postings().ok_or_else(corrupt)?;
        let positions =
            inverted_index::read_positions(&positions, &postings).ok_or_else(corrupt)?;
        Ok(Some((postings, positions)))
    }

    fn list(
        &self,
        bytes: Vec<u8>,
        word: &str,
        postings: &'static str,
        docs: u32,
    ) -> Result<PostingList, DocsError> {
        let list = PostingList::read(bytes, postings == CHUNK_POSTINGS)
            .filter(|list| list.last().is_none_or(|last| last < docs));
        list.ok_or_else(|| self.corrupt_postings(word, postings))
    }

    pub(crate) fn corrupt_postings(&self, word: &str, postings: &'static str) -> DocsError {
        let problem = format!("the postings of '{word}' do not match their checksum");
        DocsError::invalid(&self.folder.join(postings), problem)
    }

    /// Finds the entry of a term, and reads its encoded posting list.
    ///
    /// Interpolation search: hashes are spread evenly, so two probes near the expected block mostly suffice; bisection bounds
    /// the rest.
    fn find(
        &self,
        word: &str,
        terms: &'static str,
        postings: &'static str,
        count: u64,
    ) -> Result<Option<(Vec<u8>, inverted_index::TermEntry)>, DocsError> {
        let hash = word_counts::hash(word);
        let blocks = count.div_ceil(inverted_index::TERMS_PER_BLOCK as u64);
        // The first block whose last hash is not smaller.
        let (mut low, mut high) = (0, blocks);
        let guess = ((u128::from(hash) * u128::from(blocks)) >> 64) as u64;
        let mut next = guess.saturating_sub(1);
        let mut probes = 2;
        while low < high {
            let middle =
                if probes > 0 { next.clamp(low, high - 1) } else { low + (high - low) / 2 };
            let is_before = self.block(terms, middle)?.last().is_none_or(|last| last.hash < hash);
            if is_before {
                low = middle + 1;
            } else {
                high = middle;
            }
            next = guess;
            probes -= i32::from(probes > 0);
        }
        for block in low..blocks {
            let block = self.block(terms, block)?;
            for entry in block.iter().filter(|entry| entry.hash == hash) {
                let list = self.file(postings)?.read(entry.start, entry.length)?;
                let stored = inverted_index::read_term(&list);
                let stored = stored.ok_or_else(|| self.corrupt_postings(word, postings))?;
                if stored == word {
                    return Ok(Some((list, *entry)));
                }
                if word_counts::hash(stored) != hash {
                    return Err(self.corrupt_postings(word, postings));
                }
            }
            if block.last().is_none_or(|last| last.hash > hash) {
                break;
            }
        }
        Ok(None)
    }

    fn block(
        &self,
        terms: &'static str,
        block: u64,
    ) -> Result<Vec<inverted_index::TermEntry>, DocsError> {
        let terms = self.file(terms)?;
        let start = block * inverted_index::BLOCK_BYTES as u64;
        let bytes =
            terms.read(start, (inverted_index::BLOCK_BYTES as u64).min(terms.bytes - start))?;
        inverted_index::read_block(&bytes)
            .ok_or_else(|| terms.invalid(&format!("its block {block} does not match its checksum")))
    }
}

/// Returns the checksum of a record and its path.
pub(crate) fn record_check(record: &[u8], path: &[u8]) -> u64 {
    xxh3_64(&[record, path].concat())
}
