//! Builds an index from a document folder.
//!
//! A build writes a new version next to the current one and publishes it by one rename. A build that fails or is interrupted
//! leaves the index unchanged. Documents are processed in parallel batches, and unchanged ones reuse their chunks and vectors.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use pannier_core::Timestamp;
use pannier_files::MAX_FRONT_MATTER_BYTES;
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::xxh3_64;

use crate::chunk::{self, Chunk, ChunkRow, ChunkSizes, chunker_version};
use crate::document_index::{DocumentRecord, RECORD_BYTES, record_check};
use crate::inverted_index::IndexBuilder;
use crate::manifest::{
    CHUNK_POSTINGS, CHUNK_TABLE, CHUNK_TERMS, CHUNKS, CONTENTS, FILES, MANIFEST, PATHS, POSTINGS,
    RECORDS, TABLE, TERMS, VECTOR_KEYS, VECTORS, VERSIONS, is_version_name,
};
use crate::metadata::front_matter;
use crate::source::SourceFile;
use crate::store::{self, ChecksummedFile, is_draft, lock, publish, sync_folder, write_synced};
use crate::vectors::{ChunkVectors, IMPORTED_MODEL, VectorSource};
use crate::word_counts::TermCounts;
use crate::{
    DocsError, DocumentIndex, DocumentMetadata, DocumentSource, Hit, Manifest, Model, verify,
};

/// The maximum size of a document.
const MAX_DOCUMENT_BYTES: u64 = 64 << 20;

/// The maximum number of documents in a batch.
pub(crate) const BATCH_DOCUMENTS: usize = 2_048;
/// The maximum total size of a batch.
pub(crate) const BATCH_BYTES: u64 = 32 << 20;

/// The number of documents that are embedded between two progress reports.
const EMBED_BATCH_DOCUMENTS: usize = 16;

/// The progress of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The number of processed documents.
    pub done: usize,
    /// The number of documents.
    pub of: usize,
    /// The number of chunks that the embedder computed a vector for.
    pub embedded: u64,
}

/// The options of a build.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuildOptions<'v> {
    /// Reuses nothing of the current version. Default: no.
    pub from_scratch: bool,
    /// The source of chunk vectors.
    pub vectors: VectorSource<'v>,
    /// The sizes of chunks. Default: those of the current version, or 256 and at most 512 tokens.
    pub chunk_sizes: Option<ChunkSizes>,
}

/// The result of a build.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct BuildSummary {
    /// The version of the index.
    pub version: String,
    /// The number of documents.
    pub documents: u32,
    /// The number of chunks.
    pub chunks: u64,
    /// The number of distinct words.
    pub terms: u64,
    /// The number of unchanged documents whose chunks were reused.
    pub reused: u32,
    /// The number of chunks that the embedder computed a vector for.
    pub embedded: u64,
    /// Whether nothing changed, so that nothing was written.
    pub is_unchanged: bool,
}

/// Builds or updates the index at a path.
///
/// Unchanged documents reuse their chunks, and if nothing changed, nothing is written. The version depends only on the documents,
/// their paths, titles and dates, and the model: not on the machine, the order of folders or the number of threads.
///
/// # Errors
///
/// [`DocsError::Sources`] with every document that cannot be indexed, [`DocsError::Model`] if the index has vectors and
/// [`BuildOptions::vectors`] is unspecified, and [`DocsError::Io`]. The current version is then unchanged.
pub fn build(
    sources: &DocumentSource,
    index: &Path,
    options: &BuildOptions<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<BuildSummary, DocsError> {
    let files = sources.files(Some(index))?;
    let _lock = lock(index)?;
    let previous = match DocumentIndex::open(index) {
        Ok(previous) => Some(previous),
        // A missing or damaged index is rebuilt; one that cannot be read may be intact.
        Err(DocsError::NoIndex { .. } | DocsError::Invalid { .. }) => None,
        Err(error) => return Err(error),
    };
    if let (Some(previous), VectorSource::Unspecified) = (&previous, options.vectors)
        && let Some(model) = &previous.manifest().model
    {
        return Err(DocsError::model(
            index,
            format!(
                "the index has vectors by {}; provide {} again to update them, or the embedder `none` to drop them",
                model.name,
                if model.name == IMPORTED_MODEL {
                    "vectors for all chunks"
                } else {
                    "the same embedder"
                }
            ),
        ));
    }
    let remembered = previous.as_ref().map(|previous| previous.manifest().chunk_sizes);
    let sizes = options.chunk_sizes.or(remembered).unwrap_or_default();
    let previous = previous.filter(|_| !options.from_scratch);
    let has_same_chunker =
        |previous: &DocumentIndex| previous.manifest().chunking == chunker_version(sizes);
    if let Some(previous) = &previous
        && has_same_chunker(previous)
        && previous.manifest().model.as_ref() == options.vectors.model()
        && verify::checksums_match(previous)
        && is_up_to_date(previous, &files)
    {
        return Ok(BuildSummary::new(previous.manifest(), previous.len(), 0, true));
    }
    // Another chunker makes other chunks, but vectors are reused by the text they were computed from.
    let vectors = ChunkVectors::new(options.vectors, previous.as_ref());
    let previous = previous.filter(has_same_chunker);
    let versions = index.join(VERSIONS);
    fs::create_dir_all(&versions).map_err(|error| DocsError::io("write", &versions, error))?;
    // Removes the draft of an interrupted build.
    store::remove(&versions, is_draft);
    let draft = versions.join(format!("draft-{}", std::process::id()));
    let built = IndexWriter::new(&draft, vectors, sizes)
        .and_then(|writer| writer.write(&files, previous.as_ref(), progress));
    let built = built.inspect_err(|_| _ = fs::remove_dir_all(&draft))?;
    let name = publish(index, &versions, &draft, &built.version)?;
    store::remove(&versions, |other| is_version_name(other) && other != name);
    Ok(built)
}

/// Calls `f` with every chunk that an index of these documents would have, in order.
///
/// # Errors
///
/// [`DocsError::Sources`] with every document that cannot be indexed, and the errors of `f`.
pub fn for_each_chunk<E: From<DocsError>>(
    sources: &DocumentSource,
    sizes: ChunkSizes,
    mut f: impl FnMut(Hit) -> Result<(), E>,
) -> Result<(), E> {
    let mut problems = Vec::new();
    for file in sources.files(None)? {
        match PreparedDocument::new(&file, None, sizes) {
            Ok(prepared) if problems.is_empty() => {
                let document = chunk::document_id(&file.path, &prepared.hash);
                for (chunk, sequence) in prepared.chunks.into_iter().zip(0..) {
                    let text = &prepared.content[chunk.range.clone()];
                    f(Hit {
                        id: chunk::chunk_id(&document, sequence, text),
                        path: file.path.clone(),
                        document: 0,
                        sequence,
                        text: text.to_owned(),
                        range: chunk.range,
                        line: chunk.line,
                        heading_path: chunk.heading_path,
                        fence: chunk.fence,
                        date: prepared.metadata.date,
                        score: 0,
                        lexical: None,
                        semantic: None,
                        reranker: None,
                    })?;
                }
            }
            Ok(_) => {}
            Err(problem) => problems.push(problem),
        }
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(DocsError::Sources { problems }.into()),
    }
}

impl BuildSummary {
    fn new(manifest: &Manifest, reused: u32, embedded: u64, is_unchanged: bool) -> Self {
        Self {
            version: manifest.version.clone(),
            documents: manifest.documents,
            chunks: manifest.chunks,
            terms: manifest.terms,
            reused,
            embedded,
            is_unchanged,
        }
    }
}

/// Returns whether an index is of exactly these files.
fn is_up_to_date(previous: &DocumentIndex, files: &[SourceFile]) -> bool {
    let is_same = |(file, document): (&SourceFile, u32)| {
        let record = previous.record(document);
        record.is_ok_and(|record| {
            record.path == file.path
                && hash_file(&file.file).is_ok_and(|(hash, beginning)| {
                    hash == record.hash && has_same_metadata(file, &beginning, &record)
                })
        })
    };
    files.len() == previous.len() as usize && files.par_iter().zip(0..previous.len()).all(is_same)
}

/// Returns whether the title and date of a file, given its beginning, are those of a record.
fn has_same_metadata(file: &SourceFile, beginning: &[u8], record: &DocumentRecord) -> bool {
    let text = match std::str::from_utf8(beginning) {
        Ok(text) => text,
        // The beginning ends within a character.
        Err(error) => std::str::from_utf8(&beginning[..error.valid_up_to()]).unwrap_or_default(),
    };
    let metadata = file.metadata.or_else(front_matter(text));
    metadata.title == record.metadata.title
        && date_bytes(metadata.date) == date_bytes(record.metadata.date)
}

/// Returns SHA-256 of a file, read in blocks, and its beginning, which contains the front matter.
fn hash_file(path: &Path) -> io::Result<([u8; 32], Vec<u8>)> {
    let mut file = File::open(path)?;
    let (mut hash, mut first) = (Sha256::new(), Vec::with_capacity(MAX_FRONT_MATTER_BYTES));
    Read::by_ref(&mut file).take(MAX_FRONT_MATTER_BYTES as u64).read_to_end(&mut first)?;
    hash.update(&first);
    let mut piece = vec![0; if first.len() < MAX_FRONT_MATTER_BYTES { 1 } else { 1 << 16 }];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok((hash.finalize().into(), first)),
            read => hash.update(&piece[..read]),
        }
    }
}

/// Reads a document, or returns what is wrong with it.
fn read(file: &SourceFile) -> Result<Vec<u8>, String> {
    let path = &file.path;
    let source =
        File::open(&file.file).map_err(|error| format!("{path}: it cannot be read: {error}"))?;
    let bytes = pannier_files::read_file_bounded(&source, MAX_DOCUMENT_BYTES)
        .map_err(|error| format!("{path}: it cannot be read: {error}"))?;
    bytes.ok_or_else(|| {
        format!("{path}: it is larger than {MAX_DOCUMENT_BYTES} bytes; split or exclude it")
    })
}

/// A document, chunked and analyzed.
struct PreparedDocument {
    content: String,
    hash: [u8; 32],
    metadata: DocumentMetadata,
    chunks: Vec<Chunk>,
    is_reused: bool,
    words: TermCounts,
    /// The terms of each chunk.
    terms: Vec<TermCounts>,
}

impl PreparedDocument {
    fn new(
        file: &SourceFile,
        previous: Option<(&DocumentIndex, &DocumentRecord)>,
        sizes: ChunkSizes,
    ) -> Result<Self, String> {
        let content = String::from_utf8(read(file)?).map_err(|error| {
            let (path, offset) = (&file.path, error.utf8_error().valid_up_to());
            format!("{path}: it is not UTF-8 at byte {offset}; save it as UTF-8 or exclude it")
        })?;
        let hash = <[u8; 32]>::from(Sha256::digest(content.as_bytes()));
        let words = TermCounts::of_document(&content);
        let metadata = file.metadata.or_else(front_matter(&content));
        let is_same = |record: &DocumentRecord| {
            record.hash == hash && record.metadata.title == metadata.title
        };
        let same = previous.filter(|(_, record)| is_same(record));
        let reused = same.and_then(|(index, record)| {
            // Damaged chunks are rebuilt.
            let chunks = index.chunk_bytes(record).ok()?;
            let (bytes, check) = chunks.split_at_checked(chunks.len().checked_sub(8)?)?;
            let is_intact = check == xxh3_64(bytes).to_le_bytes();
            let chunks = chunk::read(bytes, content.len()).filter(|_| is_intact)?;
            chunk::are_char_boundaries(&chunks, &content).then_some(chunks)
        });
        let is_reused = reused.is_some();
        let title = metadata.title.as_deref();
        let chunks = reused.unwrap_or_else(|| chunk::chunks(&file.path, &content, title, sizes));
        let terms = chunks.iter().map(|chunk| chunk.terms(&file.path, &content)).collect();
        Ok(Self { content, hash, metadata, chunks, is_reused, words, terms })
    }
}

/// Writes one version of an index.
struct IndexWriter<'v> {
    folder: PathBuf,
    files: BTreeMap<&'static str, ChecksummedFile>,
    document_terms: IndexBuilder,
    chunk_terms: IndexBuilder,
    vectors: ChunkVectors<'v>,
    version: VersionHasher,
    sizes: ChunkSizes,
    documents: u32,
    chunks: u64,
    reused: u32,
    problems: Vec<String>,
}

impl<'v> IndexWriter<'v> {
    fn new(folder: &Path, vectors: ChunkVectors<'v>, sizes: ChunkSizes) -> Result<Self, DocsError> {
        fs::create_dir(folder).map_err(|error| DocsError::io("write", folder, error))?;
        let mut files = BTreeMap::new();
        for name in FILES {
            files.insert(name, ChecksummedFile::new(folder.join(name))?);
        }
        Ok(Self {
            folder: folder.to_owned(),
            files,
            document_terms: IndexBuilder::default(),
            chunk_terms: IndexBuilder::default(),
            version: VersionHasher::new(&chunker_version(sizes), vectors.model()),
            sizes,
            vectors,
            documents: 0,
            chunks: 0,
            reused: 0,
            problems: Vec::new(),
        })
    }

    fn write(
        mut self,
        files: &[SourceFile],
        previous: Option<&DocumentIndex>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<BuildSummary, DocsError> {
        let records = previous.map_or_else(BTreeMap::new, records);
        let mut rest = files;
        progress(Progress { done: 0, of: files.len(), embedded: 0 });
        while !rest.is_empty() {
            let (batch, after) = rest.split_at(batch_len(rest));
            let prepared: Vec<Result<PreparedDocument, String>> = batch
                .par_iter()
                .map(|file| {
                    let previous = previous.zip(records.get(file.path.as_str()));
                    PreparedDocument::new(file, previous, self.sizes)
                })
                .collect();
            let (done, of) = (files.len() - rest.len(), files.len());
            self.add(batch, prepared, &mut |documents, embedded| {
                progress(Progress { done: done + documents, of, embedded });
            })?;
            rest = after;
        }
        if !self.problems.is_empty() {
            return Err(DocsError::Sources { problems: self.problems });
        }
        self.vectors.check()?;
        self.finish()
    }

    /// Adds documents that follow those previous. Of bad ones, only the problem is kept.
    fn add(
        &mut self,
        files: &[SourceFile],
        prepared: Vec<Result<PreparedDocument, String>>,
        progress: &mut dyn FnMut(usize, u64),
    ) -> Result<(), DocsError> {
        let (first, first_chunk) = (self.documents, self.chunks);
        let mut sound = Vec::with_capacity(prepared.len());
        for (file, prepared) in files.iter().zip(prepared) {
            match prepared {
                Ok(prepared) => sound.push((file, prepared)),
                Err(problem) => self.problems.push(problem),
            }
        }
        if !self.problems.is_empty() {
            progress(files.len(), self.vectors.embedded());
            return Ok(());
        }
        for (file, prepared) in &sound {
            self.add_document(file, prepared)?;
        }
        let words: Vec<&TermCounts> = sound.iter().map(|(_, prepared)| &prepared.words).collect();
        self.document_terms.add(first, &words);
        let terms: Vec<&TermCounts> =
            sound.iter().flat_map(|(_, prepared)| &prepared.terms).collect();
        let numbers = (u32::try_from(first_chunk), u32::try_from(self.chunks));
        let (Ok(first_chunk), Ok(_)) = numbers else {
            return Err(DocsError::Sources {
                problems: vec![format!(
                    "there are more than {} chunks; split the folder into several indexes",
                    u32::MAX
                )],
            });
        };
        self.chunk_terms.add(first_chunk, &terms);
        self.add_vectors(&sound, progress)?;
        progress(files.len(), self.vectors.embedded());
        Ok(())
    }

    /// Adds the vectors of documents' chunks, a few documents at a time, so that progress is seen.
    fn add_vectors(
        &mut self,
        documents: &[(&SourceFile, PreparedDocument)],
        progress: &mut dyn FnMut(usize, u64),
    ) -> Result<(), DocsError> {
        if self.vectors.model().is_none() {
            return Ok(());
        }
        for (done, part) in documents.chunks(EMBED_BATCH_DOCUMENTS).enumerate() {
            let texts = part.iter().flat_map(|(file, prepared)| {
                let document = chunk::document_id(&file.path, &prepared.hash);
                prepared.chunks.iter().zip(0..).map(move |(chunk, sequence)| {
                    let text = &prepared.content[chunk.range.clone()];
                    (chunk::chunk_id(&document, sequence, text), chunk.embedded_text(text))
                })
            });
            let (keys, vectors) = self.vectors.next(&texts.collect::<Vec<_>>())?;
            self.put(VECTOR_KEYS, &keys)?;
            self.put(VECTORS, &vectors)?;
            progress(
                (done * EMBED_BATCH_DOCUMENTS + part.len()).min(documents.len()),
                self.vectors.embedded(),
            );
        }
        Ok(())
    }

    fn add_document(
        &mut self,
        file: &SourceFile,
        prepared: &PreparedDocument,
    ) -> Result<(), DocsError> {
        let PreparedDocument { content, hash, metadata, is_reused, words, terms, .. } = prepared;
        let chunks = chunk::write(&prepared.chunks);
        self.version.add(&file.path, hash, metadata, &chunks);
        let mut record = Vec::with_capacity(RECORD_BYTES);
        for start in [self.bytes(PATHS), self.bytes(CHUNKS)] {
            record.extend_from_slice(&start.to_le_bytes());
        }
        let chunk_count = prepared.chunks.len() as u32;
        let title = metadata.title.as_deref().unwrap_or_default();
        let lengths = [file.path.len() as u32, title.len() as u32, chunks.len() as u32 + 8];
        for number in lengths.into_iter().chain([chunk_count]) {
            record.extend_from_slice(&number.to_le_bytes());
        }
        record.extend_from_slice(&date_bytes(metadata.date));
        record.extend_from_slice(hash);
        let names = [file.path.as_bytes(), title.as_bytes()].concat();
        record.extend_from_slice(&record_check(&record, &names).to_le_bytes());
        let table =
            [content.len() as u32, words.total, file.path_rank].map(u32::to_le_bytes).concat();
        self.put(RECORDS, &record)?;
        self.put(PATHS, &names)?;
        self.put(TABLE, &table)?;
        self.put(CONTENTS, content.as_bytes())?;
        self.put(CHUNKS, &chunks)?;
        self.put(CHUNKS, &xxh3_64(&chunks).to_le_bytes())?;
        for (chunk, terms) in prepared.chunks.iter().zip(terms) {
            self.put(CHUNK_TABLE, &ChunkRow::new(self.documents, chunk, content, terms).bytes())?;
        }
        self.documents += 1;
        self.chunks += u64::from(chunk_count);
        self.reused += u32::from(*is_reused);
        Ok(())
    }

    fn bytes(&self, name: &str) -> u64 {
        self.files.get(name).map_or(0, |file| file.bytes)
    }

    fn put(&mut self, name: &'static str, bytes: &[u8]) -> Result<(), DocsError> {
        match self.files.get_mut(name) {
            Some(file) => {
                file.write_all(bytes).map_err(|error| DocsError::io("write", &file.path, error))
            }
            None => Ok(()),
        }
    }

    /// Writes the inverted indexes and the manifest, and syncs everything to disk.
    fn finish(mut self) -> Result<BuildSummary, DocsError> {
        let failed = |error| DocsError::io("write", &self.folder, error);
        let mut write_index = |builder: IndexBuilder, terms, postings| {
            let missing = || failed(io::ErrorKind::NotFound.into());
            let mut terms_file = self.files.remove(terms).ok_or_else(missing)?;
            let mut postings_file = self.files.remove(postings).ok_or_else(missing)?;
            let count = builder.write(&mut terms_file, &mut postings_file).map_err(failed)?;
            self.files.extend([(terms, terms_file), (postings, postings_file)]);
            Ok::<u64, DocsError>(count)
        };
        let terms = write_index(self.document_terms, TERMS, POSTINGS)?;
        let chunk_terms = write_index(self.chunk_terms, CHUNK_TERMS, CHUNK_POSTINGS)?;
        let bytes = self.files.get(CONTENTS).map_or(0, |file| file.bytes);
        let mut files = BTreeMap::new();
        for (name, file) in self.files {
            files.insert(name.to_owned(), file.finish()?);
        }
        let manifest = Manifest {
            format: Manifest::FORMAT,
            version: self.version.finish(),
            documents: self.documents,
            bytes,
            chunks: self.chunks,
            chunking: chunker_version(self.sizes),
            chunk_sizes: self.sizes,
            terms,
            chunk_terms,
            model: self.vectors.model().cloned(),
            files,
        };
        let path = self.folder.join(MANIFEST);
        let mut text =
            serde_json::to_vec_pretty(&manifest).map_err(|error| failed(error.into()))?;
        text.push(b'\n');
        write_synced(&path, &text)?;
        sync_folder(&self.folder)?;
        Ok(BuildSummary::new(&manifest, self.reused, self.vectors.embedded(), false))
    }
}

/// Encodes a date as seconds; `i64::MIN` means none.
pub(crate) fn date_bytes(date: Option<Timestamp>) -> [u8; 8] {
    let seconds = date.map(|date| date.unix_nanoseconds().div_euclid(1_000_000_000));
    seconds.and_then(|seconds| i64::try_from(seconds).ok()).unwrap_or(i64::MIN).to_le_bytes()
}

/// Returns the number of files in the next batch.
fn batch_len(files: &[SourceFile]) -> usize {
    let mut bytes = 0;
    let sizes = files
        .iter()
        .take(BATCH_DOCUMENTS)
        .map(|file| fs::metadata(&file.file).map_or(0, |metadata| metadata.len()));
    let fitting = sizes.take_while(|size| {
        bytes += size;
        bytes <= BATCH_BYTES
    });
    fitting.count().max(1)
}

/// Returns the records of an index, by path. Unreadable ones are skipped, and their documents rebuilt.
fn records(index: &DocumentIndex) -> BTreeMap<String, DocumentRecord> {
    let records = (0..index.len()).filter_map(|document| index.record(document).ok());
    records.map(|record| (record.path.clone(), record)).collect()
}

/// Computes the version of an index: a hash of the chunker version, the model, and each document's path, title, date, content
/// hash and chunks.
pub(crate) struct VersionHasher(blake3::Hasher);

impl VersionHasher {
    pub(crate) fn new(chunking: &str, model: Option<&Model>) -> Self {
        let mut hasher = Self(blake3::Hasher::new());
        hasher.put(b"pannier cache 3");
        hasher.put(chunking.as_bytes());
        hasher.put(model.map_or("", |model| &model.hash).as_bytes());
        hasher
    }

    pub(crate) fn add(
        &mut self,
        path: &str,
        hash: &[u8; 32],
        metadata: &DocumentMetadata,
        chunks: &[u8],
    ) {
        self.put(path.as_bytes());
        self.put(hash);
        self.put(metadata.title.as_deref().unwrap_or_default().as_bytes());
        self.put(&date_bytes(metadata.date));
        self.put(chunks);
    }

    /// Hashes bytes after their length, so that no two sequences collide.
    fn put(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    pub(crate) fn finish(&self) -> String {
        self.0.finalize().to_hex().to_string()
    }
}
