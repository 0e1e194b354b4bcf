//! A cache that is open: documents by number, and words by name.
//!
//! What is read is checked. The table of sizes is small and read at once; everything else is read where it is needed, and
//! carries its own checksum or hash.

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
use crate::{DocsError, DocumentMetadata, inverted_index, word_counts};

/// ByteReader of a document in the table, and in the records.
pub(crate) const TABLE_BYTES: usize = 12;
pub(crate) const RECORD_BYTES: usize = 80;

/// A compiled folder of documents.
#[derive(Debug)]
pub struct DocumentIndex {
    manifest: Manifest,
    folder: PathBuf,
    /// Where the content of each document begins, and where the last one ends.
    starts: Vec<u64>,
    /// How many words each document has.
    words: Vec<u32>,
    /// The place of each document in the order of paths.
    path_ranks: Vec<u32>,
    files: Vec<SizedFile>,
    /// Read when they are first asked for.
    chunk_table: OnceLock<ChunkTable>,
    vectors: OnceLock<Vec<i16>>,
}

/// All chunks, and what is the same for all searches among them.
#[derive(Debug)]
pub(crate) struct ChunkTable {
    pub(crate) rows: Vec<ChunkRow>,
    /// The number of the first chunk of each document, and how many chunks there are.
    pub(crate) firsts: Vec<u32>,
    /// How many words each chunk has.
    pub(crate) words: Vec<u32>,
    /// What occurrences in chunks of so many words are tf_factors.
    pub(crate) tf_factors: TfFactorTable,
}

/// What is known about a document besides its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DocumentRecord {
    pub(crate) path: String,
    pub(crate) hash: [u8; 32],
    pub(crate) metadata: DocumentMetadata,
    pub(crate) chunks_start: u64,
    pub(crate) chunks_bytes: u32,
    pub(crate) chunk_count: u32,
}

/// A document as it was when the cache was built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Document {
    /// What it is called: its path in lower case.
    pub id: String,
    /// Its path below the root of the sources.
    pub path: String,
    /// SHA-256 of its bytes, as `sha256:` and 64 hexadecimal digits.
    pub version: String,
    /// Its text.
    pub content: String,
}

impl DocumentIndex {
    /// Opens the present version of a cache. A build that comes later does not change what is open.
    ///
    /// # Errors
    ///
    /// [`DocsError::NoCache`], or [`DocsError::Invalid`] with the file that is not as it was built.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, DocsError> {
        let path = path.as_ref();
        // A build may replace the present version, and remove it, while it is being opened.
        let mut current = CurrentVersion::read(path)?;
        loop {
            match Self::open_version(current.clone()) {
                Ok(cache) => return Ok(cache),
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
        let mut cache = Self {
            manifest,
            folder,
            starts: Vec::new(),
            words: Vec::new(),
            path_ranks: Vec::new(),
            files,
            chunk_table: OnceLock::new(),
            vectors: OnceLock::new(),
        };
        cache.read_table()?;
        cache.check_counts()?;
        Ok(cache)
    }

    fn read_table(&mut self) -> Result<(), DocsError> {
        let table = self.file(TABLE)?;
        if u64::from(self.manifest.documents) * TABLE_BYTES as u64 != table.bytes {
            return Err(table.invalid("it has another number of documents than the manifest"));
        }
        let bytes = self.read_whole(TABLE)?;
        let count = self.manifest.documents as usize;
        let (mut starts, mut words) = (Vec::with_capacity(count + 1), Vec::with_capacity(count));
        let mut path_ranks = Vec::with_capacity(count);
        let mut start = 0_u64;
        starts.push(start);
        let mut reader = ByteReader(&bytes);
        while let (Some(length), Some(count), Some(place)) =
            (reader.u32(), reader.u32(), reader.u32())
        {
            start += u64::from(length);
            starts.push(start);
            words.push(count);
            path_ranks.push(place);
        }
        (self.starts, self.words, self.path_ranks) = (starts, words, path_ranks);
        Ok(())
    }

    /// A whole file, held against its checksum.
    fn read_whole(&self, name: &'static str) -> Result<Vec<u8>, DocsError> {
        let file = self.file(name)?;
        let bytes = file.read(0, file.bytes)?;
        match checksum(&bytes) == self.manifest.file(name).1 {
            true => Ok(bytes),
            false => Err(file.invalid("its checksum is another one")),
        }
    }

    /// All chunks.
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
        };
        let mut total_words = 0_u64;
        let damaged = || file.invalid("its chunks are not those of the documents");
        while let Some(row) = ChunkRow::read(&mut reader) {
            let end = u64::from(row.start) + u64::from(row.length);
            let is_after = table.rows.last().is_none_or(|last| last.document <= row.document);
            if row.document >= self.len() || end > self.content_bytes(row.document) || !is_after {
                return Err(damaged());
            }
            while table.firsts.len() <= row.document as usize {
                table.firsts.push(table.rows.len() as u32);
            }
            total_words += u64::from(row.words);
            table.words.push(row.words);
            table.rows.push(row);
        }
        table.firsts.resize(self.len() as usize + 1, table.rows.len() as u32);
        if !reader.is_empty() || table.rows.len() as u64 != self.manifest.chunks {
            return Err(damaged());
        }
        table.tf_factors = TfFactorTable::new(total_words as f64 / (count as f64).max(1.0));
        Ok(self.chunk_table.get_or_init(|| table))
    }

    /// All vectors, one after the other.
    pub(crate) fn vectors(&self) -> Result<&[i16], DocsError> {
        if let Some(vectors) = self.vectors.get() {
            return Ok(vectors);
        }
        let bytes = self.read_whole(VECTORS)?;
        let (numbers, _) = bytes.as_chunks();
        let vectors = numbers.iter().map(|number| i16::from_le_bytes(*number)).collect();
        Ok(self.vectors.get_or_init(|| vectors))
    }

    /// The keys by which vectors are found again, in the order of the vectors.
    pub(crate) fn vector_keys(&self) -> Result<Vec<[u8; KEY_BYTES]>, DocsError> {
        Ok(self.read_whole(VECTOR_KEYS)?.as_chunks().0.to_vec())
    }

    /// The text of a chunk, checked.
    pub(crate) fn chunk_text(&self, row: &ChunkRow) -> Result<String, DocsError> {
        let contents = self.file(CONTENTS)?;
        let start = self.starts[row.document as usize] + u64::from(row.start);
        let bytes = contents.read(start, row.length.into())?;
        let changed =
            || contents.invalid(&format!("a chunk of document {} is another one", row.document));
        if xxh3_64(&bytes) != row.check {
            return Err(changed());
        }
        String::from_utf8(bytes).map_err(|_| changed())
    }

    /// The place of each document in the order of paths.
    pub(crate) fn path_ranks(&self) -> &[u32] {
        &self.path_ranks
    }

    fn check_counts(&self) -> Result<(), DocsError> {
        let count = u64::from(self.manifest.documents);
        let wrong = |name, problem: &str| Err(self.file(name)?.invalid(problem));
        if self.file(RECORDS)?.bytes != count * RECORD_BYTES as u64 {
            return wrong(RECORDS, "it has another number of documents than the manifest");
        }
        let bytes = self.starts.last().copied().unwrap_or_default();
        if bytes != self.manifest.bytes || bytes != self.file(CONTENTS)?.bytes {
            return wrong(CONTENTS, "it has another size than the table and the manifest say");
        }
        if inverted_index::terms_bytes(self.manifest.terms) != Some(self.file(TERMS)?.bytes) {
            return wrong(TERMS, "it has another number of words than the manifest");
        }
        if inverted_index::terms_bytes(self.manifest.chunk_terms)
            != Some(self.file(CHUNK_TERMS)?.bytes)
        {
            return wrong(CHUNK_TERMS, "it has another number of words than the manifest");
        }
        let chunks = self.manifest.chunks;
        if self.file(CHUNK_TABLE)?.bytes != chunks.saturating_mul(ChunkRow::BYTES as u64) {
            return wrong(CHUNK_TABLE, "it has another number of chunks than the manifest");
        }
        let (keys, numbers) = match &self.manifest.model {
            Some(model) => (chunks, chunks.saturating_mul(model.dimensions.into())),
            None => (0, 0),
        };
        if self.file(VECTORS)?.bytes != numbers.saturating_mul(2)
            || self.file(VECTOR_KEYS)?.bytes != keys.saturating_mul(KEY_BYTES as u64)
        {
            return wrong(VECTORS, "it has another number of vectors than the manifest");
        }
        Ok(())
    }

    fn file(&self, name: &'static str) -> Result<&SizedFile, DocsError> {
        let place = FILES.iter().position(|other| *other == name);
        place
            .and_then(|place| self.files.get(place))
            .ok_or_else(|| DocsError::invalid(&self.folder.join(name), "it is missing"))
    }

    /// What the cache says about itself.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The folder of the cache.
    pub(crate) fn root(&self) -> &Path {
        self.folder.ancestors().nth(2).unwrap_or(&self.folder)
    }

    /// The folder of the version that is open.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// What all documents cost together.
    pub fn total_tokens(&self) -> u64 {
        (0..self.len()).map(|document| self.tokens(document)).sum()
    }

    /// How many words all documents have.
    pub fn total_words(&self) -> u64 {
        self.words.iter().map(|words| u64::from(*words)).sum()
    }

    /// How many documents there are.
    pub fn len(&self) -> u32 {
        self.manifest.documents
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes the content of a document has.
    pub(crate) fn content_bytes(&self, document: u32) -> u64 {
        let at = document as usize;
        self.starts[at + 1] - self.starts[at]
    }

    /// What a document costs: a quarter of its bytes, rounded up.
    pub(crate) fn tokens(&self, document: u32) -> u64 {
        self.content_bytes(document).div_ceil(4)
    }

    /// How many words a document has.
    pub(crate) fn word_count(&self, document: u32) -> u32 {
        self.words[document as usize]
    }

    pub(crate) fn record(&self, document: u32) -> Result<DocumentRecord, DocsError> {
        let records = self.file(RECORDS)?;
        let start = u64::from(document) * RECORD_BYTES as u64;
        let bytes = records.read(start, RECORD_BYTES as u64)?;
        let damaged = || {
            records.invalid(&format!(
                "document {document}, or its name in `paths`, is not as it was written"
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
        let (starts, lengths, chunk_count, seconds, hash, check) = fields.ok_or_else(damaged)?;
        let (names_start, chunks_start) = starts;
        let (path_bytes, title_bytes, chunks_bytes) = lengths;
        let paths = self.file(PATHS)?;
        let names = paths.read(names_start, u64::from(path_bytes) + u64::from(title_bytes));
        let names = names.map_err(|error| match error {
            DocsError::Invalid { .. } => damaged(),
            error => error,
        })?;
        if check != record_check(&bytes[..RECORD_BYTES - 8], &names) {
            return Err(damaged());
        }
        let (path, title) = names.split_at(path_bytes as usize);
        let path = std::str::from_utf8(path).ok().filter(|path| is_contained_path(path));
        let title = std::str::from_utf8(title).ok();
        let (Some(path), Some(title)) = (path, title) else {
            return Err(paths.invalid(&format!("the path of document {document} is none")));
        };
        let title = Some(title.to_owned()).filter(|title| !title.is_empty());
        let metadata = DocumentMetadata { title, date: Timestamp::from_unix_seconds(seconds).ok() };
        let path = path.to_owned();
        Ok(DocumentRecord { path, hash, metadata, chunks_start, chunks_bytes, chunk_count })
    }

    /// A document, checked against its hash.
    ///
    /// # Errors
    ///
    /// [`DocsError::Invalid`] if it is not as it was built, or there is none of this number.
    pub fn document(&self, document: u32) -> Result<Document, DocsError> {
        let contents = self.file(CONTENTS)?;
        if document >= self.len() {
            return Err(contents.invalid(&format!("there is no document {document}")));
        }
        let record = self.record(document)?;
        let bytes = contents.read(self.starts[document as usize], self.content_bytes(document))?;
        let changed =
            || contents.invalid(&format!("the content of {} is another one", record.path));
        if <[u8; 32]>::from(Sha256::digest(&bytes)) != record.hash {
            return Err(changed());
        }
        let content = String::from_utf8(bytes).map_err(|_| changed())?;
        let version = format!("sha256:{}", hex(&record.hash));
        Ok(Document { id: record.path.to_lowercase(), path: record.path, version, content })
    }

    /// The bytes of a document's chunks.
    pub(crate) fn chunk_bytes(&self, record: &DocumentRecord) -> Result<Vec<u8>, DocsError> {
        self.file(CHUNKS)?.read(record.chunks_start, record.chunks_bytes.into())
    }

    /// The chunks of a document, in order.
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

    /// The same, for a document whose record was read before.
    pub(crate) fn chunks_of(
        &self,
        document: u32,
        record: &DocumentRecord,
    ) -> Result<Vec<Chunk>, DocsError> {
        let chunks = self.file(CHUNKS)?;
        let damaged = || {
            chunks
                .invalid(&format!("the chunks of document {document} are not as they were written"))
        };
        let length = usize::try_from(self.content_bytes(document)).map_err(|_| damaged())?;
        let bytes = self.chunk_bytes(record)?;
        let (bytes, check) =
            bytes.split_at_checked(bytes.len().saturating_sub(8)).ok_or_else(damaged)?;
        if check != xxh3_64(bytes).to_le_bytes() {
            return Err(damaged());
        }
        let read = chunk::read(bytes, length).ok_or_else(damaged)?;
        if read.len() != record.chunk_count as usize { Err(damaged()) } else { Ok(read) }
    }

    /// The documents that a word is in, with how often, in order.
    pub(crate) fn postings(&self, word: &str) -> Result<Vec<(u32, u32)>, DocsError> {
        let Some((list, _)) = self.find(word, TERMS, POSTINGS, self.manifest.terms)? else {
            return Ok(Vec::new());
        };
        let list = self.list(list, word, POSTINGS, self.len())?;
        list.texts().ok_or_else(|| self.corrupt_postings(word, POSTINGS))
    }

    /// The chunks that a term is in.
    pub(crate) fn chunk_postings(&self, term: &str) -> Result<Option<PostingList>, DocsError> {
        let found = self.find(term, CHUNK_TERMS, CHUNK_POSTINGS, self.manifest.chunk_terms)?;
        found.map(|(list, _)| self.list(list, term, CHUNK_POSTINGS, self.chunk_count())).transpose()
    }

    /// The chunks that a term is in, with how often, and the path_ranks in each.
    #[expect(clippy::type_complexity, reason = "two lists of the same length")]
    pub(crate) fn chunk_positions(
        &self,
        term: &str,
    ) -> Result<Option<(Vec<(u32, u32)>, Vec<Vec<u32>>)>, DocsError> {
        let found = self.find(term, CHUNK_TERMS, CHUNK_POSTINGS, self.manifest.chunk_terms)?;
        let Some((list, word)) = found else { return Ok(None) };
        let damaged = || self.corrupt_postings(term, CHUNK_POSTINGS);
        let start = word.start.checked_add(word.length).ok_or_else(damaged)?;
        let path_ranks = self.file(CHUNK_POSTINGS)?.read(start, word.positions_len)?;
        let list = self.list(list, term, CHUNK_POSTINGS, self.chunk_count())?;
        let texts = list.texts().ok_or_else(damaged)?;
        let path_ranks = inverted_index::read_positions(&path_ranks, &texts).ok_or_else(damaged)?;
        Ok(Some((texts, path_ranks)))
    }

    /// How many chunks there are. A build takes no more than fit the number.
    fn chunk_count(&self) -> u32 {
        u32::try_from(self.manifest.chunks).unwrap_or(u32::MAX)
    }

    fn list(
        &self,
        bytes: Vec<u8>,
        word: &str,
        postings: &'static str,
        texts: u32,
    ) -> Result<PostingList, DocsError> {
        let list =
            PostingList::read(bytes).filter(|list| list.last().is_none_or(|last| last < texts));
        list.ok_or_else(|| self.corrupt_postings(word, postings))
    }

    pub(crate) fn corrupt_postings(&self, word: &str, postings: &'static str) -> DocsError {
        let problem = format!("the list of '{word}' is not as it was written");
        DocsError::invalid(&self.folder.join(postings), problem)
    }

    /// The bytes of a word's list.
    fn find(
        &self,
        word: &str,
        terms: &'static str,
        postings: &'static str,
        count: u64,
    ) -> Result<Option<(Vec<u8>, inverted_index::TermEntry)>, DocsError> {
        let hash = word_counts::hash(word);
        let blocks = count.div_ceil(inverted_index::TERMS_PER_BLOCK as u64);
        // The first block that ends at this hash or behind it. Hashes are spread evenly, so a look beside where it
        // should be mostly decides; halves keep it short where they are not.
        let (mut low, mut high) = (0, blocks);
        let guess = ((u128::from(hash) * u128::from(blocks)) >> 64) as u64;
        let mut next = guess.saturating_sub(1);
        let mut step = 2;
        while low < high {
            let middle = if step > 0 { next.clamp(low, high - 1) } else { low + (high - low) / 2 };
            let is_before = self.block(terms, middle)?.last().is_none_or(|last| last.hash < hash);
            if is_before {
                low = middle + 1;
            } else {
                high = middle;
            }
            next = guess;
            step -= i32::from(step > 0);
        }
        for block in low..blocks {
            let block = self.block(terms, block)?;
            for entry in block.iter().filter(|entry| entry.hash == hash) {
                let list = self.file(postings)?.read(entry.start, entry.length)?;
                let found = inverted_index::read_term(&list);
                let found = found.ok_or_else(|| self.corrupt_postings(word, postings))?;
                if found == word {
                    return Ok(Some((list, *entry)));
                }
                if word_counts::hash(found) != hash {
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
            .ok_or_else(|| terms.invalid(&format!("its block {block} is not as it was written")))
    }
}

/// The checksum of a record and its path.
pub(crate) fn record_check(record: &[u8], path: &[u8]) -> u64 {
    xxh3_64(&[record, path].concat())
}

/// A checksum as the manifest writes it.
pub(crate) fn checksum(bytes: &[u8]) -> String {
    format!("{:016x}", xxh3_64(bytes))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
