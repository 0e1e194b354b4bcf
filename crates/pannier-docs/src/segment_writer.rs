//! Writes a segment.
//!
//! Documents are read, chunked and analyzed in parallel batches, and written in the order of their ids.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::xxh3_64;

use crate::build::Progress;
use crate::catalog::{self, date_bytes};
use crate::chunk::{self, Chunk, ChunkRow, ChunkSizes};
use crate::impacts::ChunkLengths;
use crate::inverted_index::IndexBuilder;
use crate::manifest::{
    CHUNK_POSTINGS, CHUNK_TABLE, CHUNK_TERMS, CHUNK_WORDS, CHUNKS, CONTENTS, PATHS, POSTINGS,
    RECORDS, SEGMENT_FILES, SegmentInfo, TABLE, TERMS, VECTOR_KEYS, VECTORS,
};
use crate::metadata::front_matter;
use crate::segment::{RECORD_BYTES, Segment, TableRow, record_check};
use crate::source::{SkippedFile, SourceFile};
use crate::store::{ChecksummedFile, sync_folder};
use crate::vectors::ChunkVectors;
use crate::word_counts::TermCounts;
use crate::{DocsError, DocumentMetadata};

/// The maximum number of documents in a batch.
pub(crate) const BATCH_DOCUMENTS: usize = 2_048;
/// The maximum total size of a batch.
pub(crate) const BATCH_BYTES: u64 = 32 << 20;

/// The number of texts that are embedded at once. An interrupted build loses at most one batch.
const EMBED_BATCH_TEXTS: usize = 64;

/// The number of items that are mapped by one thread: waking the others costs more.
const MAX_SERIAL_ITEMS: usize = 4;

/// Maps items on all cores.
pub(crate) fn map_parallel<T: Sync, R: Send>(
    items: &[T],
    f: impl Fn(&T) -> R + Send + Sync,
) -> Vec<R> {
    match items.len() <= MAX_SERIAL_ITEMS {
        true => items.iter().map(f).collect(),
        false => items.par_iter().map(f).collect(),
    }
}

/// A document to be written.
#[derive(Debug)]
pub(crate) struct Source<'s> {
    pub(crate) file: &'s SourceFile,
    /// The title and date that the caller gave.
    pub(crate) given: DocumentMetadata,
    /// Where the same document is stored: a segment, and its number in it.
    pub(crate) stored: Option<(&'s Segment, u32)>,
}

impl Source<'_> {
    fn bytes(&self) -> u64 {
        match self.stored {
            Some((segment, document)) => segment.content_bytes(document),
            None => fs::metadata(self.file.location()).map_or(0, |metadata| metadata.len()),
        }
    }
}

/// A document, chunked and analyzed.
pub(crate) struct PreparedDocument {
    pub(crate) content: String,
    pub(crate) hash: [u8; 32],
    pub(crate) metadata: DocumentMetadata,
    pub(crate) chunks: Vec<Chunk>,
    words: TermCounts,
    /// The terms of each chunk.
    terms: Vec<TermCounts>,
}

impl PreparedDocument {
    /// Prepares a file, or returns why it is not indexed.
    pub(crate) fn from_file(
        file: &SourceFile,
        given: &DocumentMetadata,
        sizes: ChunkSizes,
    ) -> Result<Self, SkippedFile> {
        let content = file.read()?;
        let hash = <[u8; 32]>::from(Sha256::digest(content.as_bytes()));
        let metadata = given.or_else(front_matter(&content));
        let chunks = chunk::chunks(&file.path, &content, metadata.title.as_deref(), sizes);
        Ok(Self::new(&file.path, content, hash, metadata, chunks))
    }

    /// Prepares a stored document, or returns `None` if it is damaged.
    fn from_segment(segment: &Segment, document: u32) -> Option<Self> {
        let record = segment.record(document).ok()?;
        let content = segment.content(document, &record).ok()?;
        let chunks = segment.chunks(document, &record).ok()?;
        let is_intact = chunk::are_char_boundaries(&chunks, &content);
        is_intact.then(|| Self::new(&record.path, content, record.hash, record.metadata, chunks))
    }

    fn new(
        path: &str,
        content: String,
        hash: [u8; 32],
        metadata: DocumentMetadata,
        chunks: Vec<Chunk>,
    ) -> Self {
        let words = TermCounts::of_document(&content);
        let terms = chunks.iter().map(|chunk| chunk.terms(path, &content)).collect();
        Self { content, hash, metadata, chunks, words, terms }
    }
}

/// The result of writing a segment.
pub(crate) struct WrittenSegment {
    /// Its name is empty until it is published.
    pub(crate) info: SegmentInfo,
    /// The catalog entry of each document.
    pub(crate) entries: Vec<catalog::Entry>,
    /// Files that turned out not to be texts.
    pub(crate) skipped: Vec<SkippedFile>,
    pub(crate) embedded: u64,
}

/// Writes one segment.
pub(crate) struct SegmentWriter<'v> {
    folder: PathBuf,
    files: BTreeMap<&'static str, ChecksummedFile>,
    document_terms: IndexBuilder,
    chunk_terms: IndexBuilder,
    lengths: ChunkLengths,
    vectors: ChunkVectors<'v>,
    sizes: ChunkSizes,
    entries: Vec<catalog::Entry>,
    chunks: u64,
    skipped: Vec<SkippedFile>,
}

impl<'v> SegmentWriter<'v> {
    pub(crate) fn new(
        folder: &Path,
        vectors: ChunkVectors<'v>,
        sizes: ChunkSizes,
    ) -> Result<Self, DocsError> {
        fs::create_dir(folder).map_err(|error| DocsError::io("write", folder, error))?;
        let mut files = BTreeMap::new();
        for name in SEGMENT_FILES {
            files.insert(name, ChecksummedFile::new(folder.join(name))?);
        }
        Ok(Self {
            folder: folder.to_owned(),
            files,
            document_terms: IndexBuilder::default(),
            chunk_terms: IndexBuilder::default(),
            lengths: ChunkLengths::default(),
            sizes,
            vectors,
            entries: Vec::new(),
            chunks: 0,
            skipped: Vec::new(),
        })
    }

    /// Writes documents in this order, which must be that of their ids.
    pub(crate) fn write(
        mut self,
        sources: &[Source<'_>],
        progress: &mut dyn FnMut(Progress),
    ) -> Result<WrittenSegment, DocsError> {
        let (sizes, of) = (self.sizes, sources.len());
        let mut rest = sources;
        progress(Progress { done: 0, of, embedded: 0 });
        while !rest.is_empty() {
            let (batch, after) = rest.split_at(batch_len(rest));
            let prepare = |source: &Source<'_>| {
                let stored = source.stored.and_then(|(segment, document)| {
                    PreparedDocument::from_segment(segment, document)
                });
                // A damaged document is read again.
                stored.map_or_else(
                    || PreparedDocument::from_file(source.file, &source.given, sizes),
                    Ok,
                )
            };
            let prepared = map_parallel(batch, prepare);
            let mut sound = Vec::with_capacity(batch.len());
            for (source, prepared) in batch.iter().zip(prepared) {
                match prepared {
                    Ok(prepared) => sound.push((source, prepared)),
                    Err(skipped) => self.skipped.push(skipped),
                }
            }
            let done = of - rest.len();
            self.add(&sound, &mut |documents, embedded| {
                progress(Progress { done: done + documents, of, embedded });
            })?;
            rest = after;
            progress(Progress { done: of - rest.len(), of, embedded: self.vectors.embedded() });
        }
        self.vectors.check()?;
        self.finish()
    }

    /// Adds documents that follow those before.
    fn add(
        &mut self,
        documents: &[(&Source<'_>, PreparedDocument)],
        progress: &mut dyn FnMut(usize, u64),
    ) -> Result<(), DocsError> {
        let (first, first_chunk) = (self.entries.len() as u32, self.chunks);
        for (source, prepared) in documents {
            self.add_document(source, prepared)?;
        }
        let words: Vec<&TermCounts> =
            documents.iter().map(|(_, prepared)| &prepared.words).collect();
        self.document_terms.add(first, &words);
        let terms: Vec<&TermCounts> =
            documents.iter().flat_map(|(_, prepared)| &prepared.terms).collect();
        let numbers = (u32::try_from(first_chunk), u32::try_from(self.chunks));
        let (Ok(first_chunk), Ok(_)) = numbers else { return Err(too_many_chunks()) };
        self.chunk_terms.add(first_chunk, &terms);
        self.add_vectors(documents, progress)
    }

    /// Adds the vectors of documents' chunks, some at a time, so that they are logged and progress is seen.
    fn add_vectors(
        &mut self,
        documents: &[(&Source<'_>, PreparedDocument)],
        progress: &mut dyn FnMut(usize, u64),
    ) -> Result<(), DocsError> {
        if self.vectors.model().is_none() {
            return Ok(());
        }
        let mut texts = Vec::with_capacity(EMBED_BATCH_TEXTS);
        for (done, (source, prepared)) in documents.iter().enumerate() {
            let document = chunk::document_id(&source.file.path, &prepared.hash);
            for (chunk, sequence) in prepared.chunks.iter().zip(0..) {
                let text = &prepared.content[chunk.range.clone()];
                let id = chunk::chunk_id(&document, sequence, text);
                texts.push((id, chunk.embedded_text(text)));
                if texts.len() == EMBED_BATCH_TEXTS {
                    self.embed(&mut texts)?;
                    progress(done, self.vectors.embedded());
                }
            }
        }
        self.embed(&mut texts)
    }

    fn embed(&mut self, texts: &mut Vec<(String, String)>) -> Result<(), DocsError> {
        let (keys, vectors) = self.vectors.next(texts)?;
        texts.clear();
        self.put(VECTOR_KEYS, &keys)?;
        self.put(VECTORS, &vectors)
    }

    fn add_document(
        &mut self,
        source: &Source<'_>,
        prepared: &PreparedDocument,
    ) -> Result<(), DocsError> {
        let PreparedDocument { content, hash, metadata, words, terms, .. } = prepared;
        let path = &source.file.path;
        let chunks = chunk::write(&prepared.chunks);
        let mut record = Vec::with_capacity(RECORD_BYTES);
        for start in [self.bytes(PATHS), self.bytes(CHUNKS)] {
            record.extend_from_slice(&start.to_le_bytes());
        }
        let chunk_count = prepared.chunks.len() as u32;
        let title = metadata.title.as_deref().unwrap_or_default();
        let lengths = [path.len() as u32, title.len() as u32, chunks.len() as u32 + 8];
        for number in lengths.into_iter().chain([chunk_count]) {
            record.extend_from_slice(&number.to_le_bytes());
        }
        record.extend_from_slice(&date_bytes(metadata.date));
        record.extend_from_slice(hash);
        let names = [path.as_bytes(), title.as_bytes()].concat();
        record.extend_from_slice(&record_check(&record, &names).to_le_bytes());
        self.put(RECORDS, &record)?;
        self.put(PATHS, &names)?;
        let row = TableRow::new(path, content, words, terms);
        self.put(TABLE, &row.bytes())?;
        self.put(CONTENTS, content.as_bytes())?;
        self.put(CHUNKS, &chunks)?;
        self.put(CHUNKS, &xxh3_64(&chunks).to_le_bytes())?;
        for (chunk, terms) in prepared.chunks.iter().zip(terms) {
            self.put(CHUNK_TABLE, &ChunkRow::new(chunk, content).bytes())?;
            self.put(CHUNK_WORDS, &terms.total.to_le_bytes())?;
        }
        self.lengths.add_document(terms.iter().map(|terms| terms.total));
        self.entries.push(catalog::Entry::new(path, *hash, metadata.clone(), &source.given));
        self.chunks += u64::from(chunk_count);
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

    /// Writes the inverted indexes, and syncs everything to disk.
    fn finish(mut self) -> Result<WrittenSegment, DocsError> {
        let failed = |error| DocsError::io("write", &self.folder, error);
        let mut write_index = |builder: IndexBuilder, lengths, terms, postings| {
            let missing = || failed(io::ErrorKind::NotFound.into());
            let mut terms_file = self.files.remove(terms).ok_or_else(missing)?;
            let mut postings_file = self.files.remove(postings).ok_or_else(missing)?;
            let count = builder.write(lengths, &mut terms_file, &mut postings_file);
            let count = count.map_err(failed)?;
            self.files.extend([(terms, terms_file), (postings, postings_file)]);
            Ok::<u64, DocsError>(count)
        };
        let terms = write_index(self.document_terms, None, TERMS, POSTINGS)?;
        let chunk_terms =
            write_index(self.chunk_terms, Some(&self.lengths), CHUNK_TERMS, CHUNK_POSTINGS)?;
        let mut files = BTreeMap::new();
        for (name, file) in self.files {
            files.insert(name.to_owned(), file.finish()?);
        }
        sync_folder(&self.folder)?;
        let info = SegmentInfo {
            name: String::new(),
            documents: self.entries.len() as u32,
            chunks: self.chunks,
            terms,
            chunk_terms,
            files,
        };
        let embedded = self.vectors.embedded();
        Ok(WrittenSegment { info, entries: self.entries, skipped: self.skipped, embedded })
    }
}

pub(crate) fn too_many_chunks() -> DocsError {
    let problem = "there are more than 4294967295 chunks; split the folder into several indexes";
    DocsError::Sources { problems: vec![problem.to_owned()] }
}

/// Returns the number of documents in the next batch.
fn batch_len(sources: &[Source<'_>]) -> usize {
    let mut bytes = 0;
    let sizes = sources.iter().take(BATCH_DOCUMENTS).map(Source::bytes);
    let fitting = sizes.take_while(|size| {
        bytes += size;
        bytes <= BATCH_BYTES
    });
    fitting.count().max(1)
}
