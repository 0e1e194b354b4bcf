//! From a folder to a cache.
//!
//! A version is written beside the present one, and becomes the present one by one rename. Whatever ends a build early
//! (a bad document, a full disk, a signal) leaves the cache as it was.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use pannier_core::Timestamp;
use pannier_files::MAX_FRONT_MATTER_BYTES;
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::xxh3_64;

use crate::chunk::{self, Chunk, ChunkRow, chunker_version};
use crate::chunk_terms::ChunkTerms;
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
use crate::word_counts::WordCounts;
use crate::{
    DocsError, DocumentIndex, DocumentMetadata, DocumentSource, Hit, Manifest, Model, verify,
};

/// The largest document that is taken.
const MAX_DOCUMENT_BYTES: u64 = 64 << 20;

/// How many documents, and how many bytes of them, are worked on at once.
pub(crate) const BATCH_DOCUMENTS: usize = 2_048;
pub(crate) const BATCH_BYTES: u64 = 32 << 20;

/// How many documents get vectors before progress is told.
const EMBED_BATCH_DOCUMENTS: usize = 16;

/// How far a build has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// How many documents have been worked on.
    pub done: usize,
    /// How many there are.
    pub of: usize,
    /// How many chunks have got a vector from a model.
    pub embedded: u64,
}

/// How a cache is built.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuildOptions<'v> {
    /// Uses nothing of the present cache.
    pub from_scratch: bool,
    /// Where the vectors of chunks come from.
    pub vectors: VectorSource<'v>,
}

/// What a build did.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct BuildSummary {
    /// The version of the cache.
    pub version: String,
    /// How many documents it has.
    pub documents: u32,
    /// How many chunks.
    pub chunks: u64,
    /// How many different words.
    pub terms: u64,
    /// How many documents were not cut into chunks again, because they had not changed.
    pub reused: u32,
    /// How many chunks got a new vector from a model.
    pub embedded: u64,
    /// Whether nothing had changed, and nothing was written.
    pub is_unchanged: bool,
}

/// Builds the cache at a path, or brings it up to date.
///
/// Documents that have not changed are not cut into chunks again, and if nothing has changed, nothing is written. The
/// version depends on the documents, their paths, titles and dates, and the model of their vectors alone: not on the machine, the
/// order of folders or the number of threads.
///
/// # Errors
///
/// [`DocsError::Sources`] with every document that cannot be used, [`DocsError::Model`] if the cache has vectors and nothing
/// is said about them, and whatever keeps files from being read or written. The present cache stays as it is.
pub fn build(
    sources: &DocumentSource,
    cache: &Path,
    options: &BuildOptions<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<BuildSummary, DocsError> {
    let files = sources.files(Some(cache))?;
    let _lock = lock(cache)?;
    let before = match DocumentIndex::open(cache) {
        Ok(before) => Some(before),
        // What is missing or damaged is made; what cannot be read now is left alone.
        Err(DocsError::NoCache { .. } | DocsError::Invalid { .. }) => None,
        Err(error) => return Err(error),
    };
    if let (Some(before), VectorSource::Unspecified) = (&before, options.vectors)
        && let Some(model) = &before.manifest().model
    {
        return Err(DocsError::model(
            cache,
            format!(
                "the cache has vectors by {}; give {} again to bring them up to date, or the embedder `none` to drop them",
                model.name,
                if model.name == IMPORTED_MODEL {
                    "vectors for all chunks"
                } else {
                    "the same embedder"
                }
            ),
        ));
    }
    let before = before.filter(|_| !options.from_scratch);
    let is_alike = |before: &DocumentIndex| before.manifest().chunking == chunker_version();
    if let Some(before) = &before
        && is_alike(before)
        && before.manifest().model.as_ref() == options.vectors.model()
        && verify::checksums_match(before)
        && is_up_to_date(before, &files)
    {
        return Ok(BuildSummary::of(before.manifest(), before.len(), 0, true));
    }
    // Chunks that are made in another way are made again; a vector goes by the text it was made from.
    let vectors = ChunkVectors::new(options.vectors, before.as_ref());
    let before = before.filter(is_alike);
    let versions = cache.join(VERSIONS);
    fs::create_dir_all(&versions).map_err(|error| DocsError::io("write", &versions, error))?;
    // What an earlier build left behind when it was stopped.
    store::remove(&versions, is_draft);
    let draft = versions.join(format!("draft-{}", std::process::id()));
    let built = IndexWriter::new(&draft, vectors)
        .and_then(|writer| writer.write(&files, before.as_ref(), progress));
    let built = built.inspect_err(|_| _ = fs::remove_dir_all(&draft))?;
    let name = publish(cache, &versions, &draft, &built.version)?;
    store::remove(&versions, |other| is_version_name(other) && other != name);
    Ok(built)
}

/// Calls a function with every chunk that a cache of these documents would have, in order.
///
/// # Errors
///
/// [`DocsError::Sources`] with every document that cannot be used.
pub fn for_each_chunk<E: From<DocsError>>(
    sources: &DocumentSource,
    mut f: impl FnMut(Hit) -> Result<(), E>,
) -> Result<(), E> {
    let mut problems = Vec::new();
    for file in sources.files(None)? {
        match PreparedDocument::new(&file, None) {
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
                        heading_path: chunk.heading_path,
                        date: prepared.metadata.date,
                        score: 0,
                        lexical: None,
                        semantic: None,
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
    fn of(manifest: &Manifest, reused: u32, embedded: u64, is_unchanged: bool) -> Self {
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

/// Whether a cache is of exactly these files.
fn is_up_to_date(before: &DocumentIndex, files: &[SourceFile]) -> bool {
    let is_same = |(file, document): (&SourceFile, u32)| {
        let record = before.record(document);
        record.is_ok_and(|record| {
            record.path == file.path
                && hash_file(&file.file).is_ok_and(|(hash, beginning)| {
                    hash == record.hash && has_same_metadata(file, &beginning, &record)
                })
        })
    };
    files.len() == before.len() as usize && files.par_iter().zip(0..before.len()).all(is_same)
}

/// Whether what is known about a file, of which this is the beginning, is what is known about a document.
fn has_same_metadata(file: &SourceFile, beginning: &[u8], record: &DocumentRecord) -> bool {
    let text = match std::str::from_utf8(beginning) {
        Ok(text) => text,
        // Cut in the middle of a character.
        Err(error) => std::str::from_utf8(&beginning[..error.valid_up_to()]).unwrap_or_default(),
    };
    let metadata = file.metadata.or_else(front_matter(text));
    metadata.title == record.metadata.title
        && date_bytes(metadata.date) == date_bytes(record.metadata.date)
}

/// SHA-256 of a file, read piece by piece, and the first piece, which has the front matter.
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

/// The bytes of a document, or what is wrong with it.
fn read(file: &SourceFile) -> Result<Vec<u8>, String> {
    let path = &file.path;
    let source =
        File::open(&file.file).map_err(|error| format!("{path}: it cannot be read: {error}"))?;
    let bytes = pannier_files::read_file_bounded(&source, MAX_DOCUMENT_BYTES)
        .map_err(|error| format!("{path}: it cannot be read: {error}"))?;
    bytes.ok_or_else(|| {
        format!("{path}: it is larger than {MAX_DOCUMENT_BYTES} bytes; split it, or leave it out")
    })
}

/// What becomes of one document.
struct PreparedDocument {
    content: String,
    hash: [u8; 32],
    metadata: DocumentMetadata,
    chunks: Vec<Chunk>,
    is_reused: bool,
    words: WordCounts,
    /// Of each chunk.
    terms: Vec<ChunkTerms>,
}

impl PreparedDocument {
    fn new(
        file: &SourceFile,
        before: Option<(&DocumentIndex, &DocumentRecord)>,
    ) -> Result<Self, String> {
        let content = String::from_utf8(read(file)?).map_err(|error| {
            let (path, place) = (&file.path, error.utf8_error().valid_up_to());
            format!("{path}: it is not UTF-8 at byte {place}; save it as UTF-8, or leave it out")
        })?;
        let hash = <[u8; 32]>::from(Sha256::digest(content.as_bytes()));
        let words = WordCounts::new(&content);
        let metadata = file.metadata.or_else(front_matter(&content));
        let is_same = |record: &DocumentRecord| {
            record.hash == hash && record.metadata.title == metadata.title
        };
        let same = before.filter(|(_, record)| is_same(record));
        let kept = same.and_then(|(cache, record)| {
            // Read back and checked; anything wrong, and they are made again.
            let chunks = cache.chunk_bytes(record).ok()?;
            let (bytes, check) = chunks.split_at_checked(chunks.len().checked_sub(8)?)?;
            let is_sound = check == xxh3_64(bytes).to_le_bytes();
            let chunks = chunk::read(bytes, content.len()).filter(|_| is_sound)?;
            chunk::are_char_boundaries(&chunks, &content).then_some(chunks)
        });
        let is_reused = kept.is_some();
        let title = metadata.title.as_deref();
        let chunks = kept.unwrap_or_else(|| chunk::chunks(&file.path, &content, title));
        let terms = chunks.iter().map(|chunk| chunk.terms(&content)).collect();
        Ok(Self { content, hash, metadata, chunks, is_reused, words, terms })
    }
}

/// Writes a version.
struct IndexWriter<'v> {
    folder: PathBuf,
    files: BTreeMap<&'static str, ChecksummedFile>,
    index: IndexBuilder,
    chunk_index: IndexBuilder,
    vectors: ChunkVectors<'v>,
    root: VersionHasher,
    documents: u32,
    chunks: u64,
    reused: u32,
    problems: Vec<String>,
}

impl<'v> IndexWriter<'v> {
    fn new(folder: &Path, vectors: ChunkVectors<'v>) -> Result<Self, DocsError> {
        fs::create_dir(folder).map_err(|error| DocsError::io("write", folder, error))?;
        let mut files = BTreeMap::new();
        for name in FILES {
            files.insert(name, ChecksummedFile::new(folder.join(name))?);
        }
        Ok(Self {
            folder: folder.to_owned(),
            files,
            index: IndexBuilder::default(),
            chunk_index: IndexBuilder::default(),
            root: VersionHasher::new(&chunker_version(), vectors.model()),
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
        before: Option<&DocumentIndex>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<BuildSummary, DocsError> {
        let records = before.map_or_else(BTreeMap::new, records);
        let mut rest = files;
        progress(Progress { done: 0, of: files.len(), embedded: 0 });
        while !rest.is_empty() {
            let (batch, after) = rest.split_at(batch_len(rest));
            let prepared: Vec<Result<PreparedDocument, String>> = batch
                .par_iter()
                .map(|file| {
                    PreparedDocument::new(file, before.zip(records.get(file.path.as_str())))
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

    /// Adds documents that follow those before. Of bad ones, only the problem is kept.
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
        let words: Vec<&WordCounts> = sound.iter().map(|(_, prepared)| &prepared.words).collect();
        self.index.add(first, &words);
        let terms: Vec<&ChunkTerms> =
            sound.iter().flat_map(|(_, prepared)| &prepared.terms).collect();
        let numbers = (u32::try_from(first_chunk), u32::try_from(self.chunks));
        let (Ok(first_chunk), Ok(_)) = numbers else {
            return Err(DocsError::Sources {
                problems: vec![format!(
                    "there are more than {} chunks; split the folder, and build several caches",
                    u32::MAX
                )],
            });
        };
        self.chunk_index.add(first_chunk, &terms);
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
        self.root.add(&file.path, hash, metadata, &chunks);
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

    /// Writes the index and the manifest, and sees that everything is on the disk.
    fn finish(mut self) -> Result<BuildSummary, DocsError> {
        let failed = |error| DocsError::io("write", &self.folder, error);
        let mut write_index = |index: IndexBuilder, terms, postings| {
            let missing = || failed(io::ErrorKind::NotFound.into());
            let mut terms_file = self.files.remove(terms).ok_or_else(missing)?;
            let mut postings_file = self.files.remove(postings).ok_or_else(missing)?;
            let count = index.write(&mut terms_file, &mut postings_file).map_err(failed)?;
            self.files.extend([(terms, terms_file), (postings, postings_file)]);
            Ok::<u64, DocsError>(count)
        };
        let terms = write_index(self.index, TERMS, POSTINGS)?;
        let chunk_terms = write_index(self.chunk_index, CHUNK_TERMS, CHUNK_POSTINGS)?;
        let bytes = self.files.get(CONTENTS).map_or(0, |file| file.bytes);
        let mut files = BTreeMap::new();
        for (name, file) in self.files {
            files.insert(name.to_owned(), file.finish()?);
        }
        let manifest = Manifest {
            format: Manifest::FORMAT,
            version: self.root.version(),
            documents: self.documents,
            bytes,
            chunks: self.chunks,
            chunking: chunker_version(),
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
        Ok(BuildSummary::of(&manifest, self.reused, self.vectors.embedded(), false))
    }
}

/// Whole seconds, or a number that none has.
pub(crate) fn date_bytes(date: Option<Timestamp>) -> [u8; 8] {
    let seconds = date.map(|date| date.unix_nanoseconds().div_euclid(1_000_000_000));
    seconds.and_then(|seconds| i64::try_from(seconds).ok()).unwrap_or(i64::MIN).to_le_bytes()
}

/// How many of these files are worked on at once.
fn batch_len(files: &[SourceFile]) -> usize {
    let mut bytes = 0;
    let sizes = files
        .iter()
        .take(BATCH_DOCUMENTS)
        .map(|file| fs::metadata(&file.file).map_or(0, |found| found.len()));
    let fitting = sizes.take_while(|size| {
        bytes += size;
        bytes <= BATCH_BYTES
    });
    fitting.count().max(1)
}

/// The records of a cache, by path. What cannot be read is left out, and made again.
fn records(cache: &DocumentIndex) -> BTreeMap<String, DocumentRecord> {
    let records = (0..cache.len()).filter_map(|document| cache.record(document).ok());
    records.map(|record| (record.path.clone(), record)).collect()
}

/// The hash of everything that a cache holds: how chunks are made, which model made the vectors, and of every document its
/// path, its title, its date, the hash of its content, and its chunks.
pub(crate) struct VersionHasher(blake3::Hasher);

impl VersionHasher {
    pub(crate) fn new(chunking: &str, model: Option<&Model>) -> Self {
        let mut root = Self(blake3::Hasher::new());
        root.put(b"pannier cache 2");
        root.put(chunking.as_bytes());
        root.put(model.map_or("", |model| &model.hash).as_bytes());
        root
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

    /// Adds bytes behind their number, so that no two lists of them are the same.
    fn put(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    pub(crate) fn version(&self) -> String {
        self.0.finalize().to_hex().to_string()
    }
}
