//! An open index: documents by number, posting lists by term.
//!
//! Everything that is read is checked. The table of document sizes is small and read at once; everything else is read on
//! demand, and has its own checksum or hash. So a query reads and verifies only what it uses.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use pannier_core::Timestamp;
use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::xxh3_64;

use crate::chunk::{self, Chunk, ChunkRow};
use crate::inverted_index::PostingList;
use crate::lexical::TfFactorTable;
use crate::manifest::{
    CHUNK_POSTINGS, CHUNK_TABLE, CHUNK_TERMS, CHUNKS, CONTENTS, CurrentVersion, FILES, Manifest,
    PATHS, POSTINGS, RECORDS, TABLE, TERMS, VECTOR_KEYS, VECTORS,
};
use crate::sized_file::SizedFile;
use crate::source::is_contained_path;
use crate::varint::ByteReader;
use crate::vectors::KEY_BYTES;
use crate::word_counts::FieldCounts;
use crate::{DocsError, DocumentMetadata, inverted_index, word_counts};

/// The size of a document's row in the table.
pub(crate) const TABLE_BYTES: usize = 12;
/// The size of a document record.
pub(crate) const RECORD_BYTES: usize = 80;

/// The on-disk search index of a document folder, opened for reading.
#[derive(Debug)]
pub struct DocumentIndex {
    manifest: Manifest,
    folder: PathBuf,
    /// The offset of each document's content, and the end of the last one.
    starts: Vec<u64>,
    /// The word count of each document.
    words: Vec<u32>,
    /// The position of each document in path order.
    path_ranks: Vec<u32>,
    files: Vec<SizedFile>,
    /// Read on first use.
    chunk_table: OnceLock<ChunkTable>,
    vectors: OnceLock<Vec<i16>>,
}

/// All chunks, with the statistics that BM25 needs.
#[derive(Debug)]
pub(crate) struct ChunkTable {
    pub(crate) rows: Vec<ChunkRow>,
    /// The first chunk of each document, and the total number of chunks.
    pub(crate) firsts: Vec<u32>,
    /// The word count of each chunk.
    pub(crate) words: Vec<u32>,
    /// Term-frequency factors by count and chunk length.
    pub(crate) tf_factors: TfFactorTable,
    /// The word count of each document: the sum of its chunks.
    pub(crate) document_words: Vec<u32>,
    /// Term-frequency factors by count and document length.
    pub(crate) document_tf_factors: TfFactorTable,
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
            match Self::open_version(current.clone()) {
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

    fn open_version(current: CurrentVersion) -> Result<Self, DocsError> {
        current.check()?;
        let manifest = Manifest::read(&current)?;
        let folder = current.folder;
        let mut files = Vec::with_capacity(FILES.len());
        for name in FILES {
            files.push(SizedFile::open(folder.join(name), manifest.file(name).0)?);
        }
        let mut index = Self {
            manifest,
            folder,
            starts: Vec::new(),
            words: Vec::new(),
            path_ranks: Vec::new(),
            files,
            chunk_table: OnceLock::new(),
            vectors: OnceLock::new(),
        };
        index.read_table()?;
        index.check_counts()?;
        Ok(index)
    }

    fn read_table(&mut self) -> Result<(), DocsError> {
        let table = self.file(TABLE)?;
        if u64::from(self.manifest.documents) * TABLE_BYTES as u64 != table.bytes {
            return Err(table.invalid("its number of documents differs from the manifest"));
        }
        let bytes = self.read_whole(TABLE)?;
        let count = self.manifest.documents as usize;
        let (mut starts, mut words) = (Vec::with_capacity(count + 1), Vec::with_capacity(count));
        let mut path_ranks = Vec::with_capacity(count);
        let mut start = 0_u64;
        starts.push(start);
        let mut reader = ByteReader(&bytes);
        while let (Some(length), Some(count), Some(rank)) =
            (reader.u32(), reader.u32(), reader.u32())
        {
            start += u64::from(length);
            starts.push(start);
            words.push(count);
            path_ranks.push(rank);
        }
        (self.starts, self.words, self.path_ranks) = (starts, words, path_ranks);
        Ok(())
    }

    /// Reads a whole file, and checks its checksum.
    fn read_whole(&self, name: &'static str) -> Result<Vec<u8>, DocsError> {
        let file = self.file(name)?;
        let bytes = file.read(0, file.bytes)?;
        match checksum(&bytes) == self.manifest.file(name).1 {
            true => Ok(bytes),
            false => Err(file.invalid("its checksum does not match")),
        }
    }

    /// Returns the chunk table, which is read on first use.
    pub(crate) fn chunk_table(&self) -> Result<&ChunkTable, DocsError> {
        if let Some(table) = self.chunk_table.get() {
            return Ok(table);
        }
        let file = self.file(CHUNK_TABLE)?;
        let bytes = self.read_whole(CHUNK_TABLE)?;
        let mut reader = ByteReader(&bytes);
        let count = bytes.len() / ChunkRow::BYTES;
        let mut table = ChunkTable {
            rows: Vec::with_capacity(count),
            firsts: Vec::with_capacity(self.len() as usize + 1),
            words: Vec::with_capacity(count),
            tf_factors: TfFactorTable::default(),
            document_words: vec![0; self.len() as usize],
            document_tf_factors: TfFactorTable::default(),
        };
        let mut total_words = 0_u64;
        let corrupt = || file.invalid("its chunks do not match the documents");
        while let Some(row) = ChunkRow::read(&mut reader) {
            let end = u64::from(row.start) + u64::from(row.length);
            let is_after = table.rows.last().is_none_or(|last| last.document <= row.document);
            if row.document >= self.len() || end > self.content_bytes(row.document) || !is_after {
                return Err(corrupt());
            }
            while table.firsts.len() <= row.document as usize {
                table.firsts.push(table.rows.len() as u32);
            }
            total_words += u64::from(row.words);
            let document_words = &mut table.document_words[row.document as usize];
            *document_words = document_words.saturating_add(row.words);
            table.words.push(row.words);
            table.rows.push(row);
        }
        table.firsts.resize(self.len() as usize + 1, table.rows.len() as u32);
        if !reader.is_empty() || table.rows.len() as u64 != self.manifest.chunks {
            return Err(corrupt());
        }
        let mean = |count: usize| total_words as f64 / (count as f64).max(1.0);
        table.tf_factors = TfFactorTable::new(mean(count));
        table.document_tf_factors = TfFactorTable::new(mean(self.len() as usize));
        Ok(self.chunk_table.get_or_init(|| table))
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
    pub(crate) fn vector_keys(&self) -> Result<Vec<[u8; KEY_BYTES]>, DocsError> {
        Ok(self.read_whole(VECTOR_KEYS)?.as_chunks().0.to_vec())
    }

    /// Reads the text of a chunk, and checks its checksum.
    pub(crate) fn chunk_text(&self, row: &ChunkRow) -> Result<String, DocsError> {
        let contents = self.file(CONTENTS)?;
        let start = self.starts[row.document as usize] + u64::from(row.start);
        let bytes = contents.read(start, row.length.into())?;
        let changed = || {
            contents.invalid(&format!(
                "a chunk of document {} does not match its checksum",
                row.document
            ))
        };
        if xxh3_64(&bytes) != row.check {
            return Err(changed());
        }
        String::from_utf8(bytes).map_err(|_| changed())
    }

    /// Returns the position of each document in path order.
    pub(crate) fn path_ranks(&self) -> &[u32] {
        &self.path_ranks
    }

    fn check_counts(&self) -> Result<(), DocsError> {
        let count = u64::from(self.manifest.documents);
        let wrong = |name, problem: &str| Err(self.file(name)?.invalid(problem));
        if self.file(RECORDS)?.bytes != count * RECORD_BYTES as u64 {
            return wrong(RECORDS, "its number of documents differs from the manifest");
        }
        let bytes = self.starts.last().copied().unwrap_or_default();
        if bytes != self.manifest.bytes || bytes != self.file(CONTENTS)?.bytes {
            return wrong(CONTENTS, "its size differs from the table or the manifest");
        }
        if inverted_index::terms_bytes(self.manifest.terms) != Some(self.file(TERMS)?.bytes) {
            return wrong(TERMS, "its number of terms differs from the manifest");
        }
        if inverted_index::terms_bytes(self.manifest.chunk_terms)
            != Some(self.file(CHUNK_TERMS)?.bytes)
        {
            return wrong(CHUNK_TERMS, "its number of terms differs from the manifest");
        }
        let chunks = self.manifest.chunks;
        if self.file(CHUNK_TABLE)?.bytes != chunks.saturating_mul(ChunkRow::BYTES as u64) {
            return wrong(CHUNK_TABLE, "its number of chunks differs from the manifest");
        }
        let (keys, numbers) = match &self.manifest.model {
            Some(model) => (chunks, chunks.saturating_mul(model.dimensions.into())),
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
        let position = FILES.iter().position(|other| *other == name);
        position
            .and_then(|position| self.files.get(position))
            .ok_or_else(|| DocsError::invalid(&self.folder.join(name), "it is missing"))
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
        self.words.iter().map(|words| u64::from(*words)).sum()
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
        let position = document as usize;
        self.starts[position + 1] - self.starts[position]
    }

    /// Returns the token count of a document: a quarter of its bytes, rounded up.
    pub(crate) fn tokens(&self, document: u32) -> u64 {
        self.content_bytes(document).div_ceil(4)
    }

    /// Returns the word count of a document.
    pub(crate) fn word_count(&self, document: u32) -> u32 {
        self.words[document as usize]
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

    /// Reads a document, and checks its hash.
    ///
    /// # Errors
    ///
    /// [`DocsError::Invalid`] if it is corrupt, or if there is no such document.
    pub fn document(&self, document: u32) -> Result<Document, DocsError> {
        let contents = self.file(CONTENTS)?;
        if document >= self.len() {
            return Err(contents.invalid(&format!("there is no document {document}")));
        }
        let record = self.record(document)?;
        let bytes = contents.read(self.starts[document as usize], self.content_bytes(document))?;
        let changed =
            || contents.invalid(&format!("the content of {} does not match its hash", record.path));
        if <[u8; 32]>::from(Sha256::digest(&bytes)) != record.hash {
            return Err(changed());
        }
        let content = String::from_utf8(bytes).map_err(|_| changed())?;
        let version = format!("sha256:{}", hex(&record.hash));
        Ok(Document { id: record.path.to_lowercase(), path: record.path, version, content })
    }

    /// Reads the encoded chunks of a document.
    pub(crate) fn chunk_bytes(&self, record: &DocumentRecord) -> Result<Vec<u8>, DocsError> {
        self.file(CHUNKS)?.read(record.chunks_start, record.chunks_bytes.into())
    }

    /// Returns the chunks of a document, in order.
    ///
    /// # Errors
    ///
    /// As [`document`](Self::document).
    pub fn chunks(&self, document: u32) -> Result<Vec<Chunk>, DocsError> {
        if document >= self.len() {
            return Err(self.file(CHUNKS)?.invalid(&format!("there is no document {document}")));
        }
        self.chunks_of(document, &self.record(document)?)
    }

    /// Returns the chunks of a document whose record is known.
    pub(crate) fn chunks_of(
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
        let bytes = self.chunk_bytes(record)?;
        let (bytes, check) =
            bytes.split_at_checked(bytes.len().saturating_sub(8)).ok_or_else(corrupt)?;
        if check != xxh3_64(bytes).to_le_bytes() {
            return Err(corrupt());
        }
        let read = chunk::read(bytes, length).ok_or_else(corrupt)?;
        if read.len() != record.chunk_count as usize { Err(corrupt()) } else { Ok(read) }
    }

    /// Returns the documents that contain a word, with its count in each.
    pub(crate) fn postings(&self, word: &str) -> Result<Vec<(u32, u32)>, DocsError> {
        let Some((list, _)) = self.find(word, TERMS, POSTINGS, self.manifest.terms)? else {
            return Ok(Vec::new());
        };
        let list = self.list(list, word, POSTINGS, self.len())?;
        let postings = list.postings().ok_or_else(|| self.corrupt_postings(word, POSTINGS))?;
        Ok(postings.into_iter().map(|(document, counts)| (document, counts.body)).collect())
    }

    /// Returns the posting list of a term in chunks.
    pub(crate) fn chunk_postings(&self, term: &str) -> Result<Option<PostingList>, DocsError> {
        let entry = self.find(term, CHUNK_TERMS, CHUNK_POSTINGS, self.manifest.chunk_terms)?;
        entry.map(|(list, _)| self.list(list, term, CHUNK_POSTINGS, self.chunk_count())).transpose()
    }

    /// Returns the chunks that contain a term, with its counts and its positions in each.
    #[expect(clippy::type_complexity, reason = "two lists of the same length")]
    pub(crate) fn chunk_positions(
        &self,
        term: &str,
    ) -> Result<Option<(Vec<(u32, FieldCounts)>, Vec<Vec<u32>>)>, DocsError> {
        let entry = self.find(term, CHUNK_TERMS, CHUNK_POSTINGS, self.manifest.chunk_terms)?;
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

    /// Returns the number of chunks. A build rejects more than `u32::MAX`.
    fn chunk_count(&self) -> u32 {
        u32::try_from(self.manifest.chunks).unwrap_or(u32::MAX)
    }

    fn list(
        &self,
        bytes: Vec<u8>,
        word: &str,
        postings: &'static str,
        docs: u32,
    ) -> Result<PostingList, DocsError> {
        let list =
            PostingList::read(bytes).filter(|list| list.last().is_none_or(|last| last < docs));
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

/// Returns a checksum in the format of the manifest.
pub(crate) fn checksum(bytes: &[u8]) -> String {
    format!("{:016x}", xxh3_64(bytes))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
