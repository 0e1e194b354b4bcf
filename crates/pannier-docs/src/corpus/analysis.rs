//! Documents as a store of its own kind writes them: chunked and analyzed by the same code as those of an index folder.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use crate::catalog::Entry;
use crate::chunk::{self, chunk_id, chunker_version, document_id};
use crate::embedder::Model;
use crate::file_kind::FileKind;
use crate::metadata::front_matter;
use crate::segment_writer::map_parallel;
use crate::source::{SkippedFile, SourceFile, glob_set};
use crate::varint::{ByteReader, write_str, write_varint};
use crate::word_counts::{FieldCounts, TermCounts};
use crate::{
    Chunk, ChunkSizes, DocsError, DocumentMetadata, DocumentSource, SkipReason, VectorSource,
};

/// The version of everything that chunks and terms depend on, for the manifest.
pub fn chunking_version(sizes: ChunkSizes) -> String {
    chunker_version(sizes)
}

/// The kind of a document by its path, as it is stored: 0 for prose, 1 for source code, 2 for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DocumentKind(pub(crate) FileKind);

impl DocumentKind {
    /// Returns the stored form.
    pub fn as_byte(self) -> u8 {
        self.0 as u8
    }

    /// Reads the stored form.
    pub fn from_byte(byte: u8) -> Option<Self> {
        FileKind::from_byte(byte).map(Self)
    }

    /// Returns whether it is source code, tests included.
    pub fn is_code(self) -> bool {
        self.0 != FileKind::Prose
    }

    /// Returns whether it is a test.
    pub fn is_test(self) -> bool {
        self.0 == FileKind::Test
    }
}

/// A document with its chunks and their terms.
#[derive(Debug)]
#[non_exhaustive]
pub struct AnalyzedDocument {
    /// Its path relative to the document folder.
    pub path: String,
    /// Its text.
    pub content: String,
    /// SHA-256 of its text.
    pub hash: [u8; 32],
    /// Its title and date.
    pub metadata: DocumentMetadata,
    /// The title and date that the caller gave.
    pub given: DocumentMetadata,
    /// Its kind.
    pub kind: DocumentKind,
    /// The number of words, separated by whitespace.
    pub words: u32,
    /// The number of analyzed words of all chunks.
    pub chunk_words: u32,
    /// Its chunks.
    pub chunks: Vec<Chunk>,
    terms: Vec<TermCounts>,
}

/// The occurrences of a term in a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TermChunk {
    /// The position of the chunk in its document, from 0.
    pub sequence: u32,
    /// The number of analyzed words of the chunk.
    pub words: u32,
    pub(crate) counts: FieldCounts,
    positions: Vec<u32>,
}

/// The occurrences of a term in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DocumentTerm<'t> {
    /// The term.
    pub term: &'t str,
    /// The chunks that contain it, ascending.
    pub chunks: Vec<TermChunk>,
}

impl AnalyzedDocument {
    /// Chunks and analyzes a text.
    pub fn new(path: &str, content: String, given: DocumentMetadata, sizes: ChunkSizes) -> Self {
        let hash = <[u8; 32]>::from(Sha256::digest(content.as_bytes()));
        let metadata = given.or_else(front_matter(&content));
        let chunks = chunk::chunks(path, &content, metadata.title.as_deref(), sizes);
        let terms: Vec<TermCounts> =
            chunks.iter().map(|chunk| chunk.terms(path, &content)).collect();
        Self {
            path: path.to_owned(),
            hash,
            metadata,
            given,
            kind: DocumentKind(FileKind::of_path(path)),
            words: TermCounts::of_document(&content).total,
            chunk_words: terms.iter().fold(0, |sum, terms| sum.saturating_add(terms.total)),
            content,
            chunks,
            terms,
        }
    }

    /// Returns the text of a chunk.
    pub fn text(&self, chunk: &Chunk) -> &str {
        &self.content[chunk.range.clone()]
    }

    /// Returns the number of analyzed words of each chunk.
    pub fn words_of_chunks(&self) -> impl Iterator<Item = u32> {
        self.terms.iter().map(|terms| terms.total)
    }

    /// Returns the id and the text to embed of each chunk.
    pub fn embedded_texts(&self) -> impl Iterator<Item = (String, String)> {
        let document = document_id(&self.path, &self.hash);
        self.chunks.iter().zip(0..).map(move |(chunk, sequence)| {
            let text = self.text(chunk);
            (chunk_id(&document, sequence, text), chunk.embedded_text(text))
        })
    }

    /// Returns the distinct terms, ordered by their bytes, with the chunks that contain each.
    pub fn terms(&self) -> Vec<DocumentTerm<'_>> {
        let mut all: BTreeMap<&str, Vec<TermChunk>> = BTreeMap::new();
        for (terms, sequence) in self.terms.iter().zip(0..) {
            terms.for_each(|_, term, counts, positions| {
                let (words, positions) = (terms.total, positions.to_vec());
                let chunk = TermChunk { sequence, words, counts, positions };
                all.entry(term).or_default().push(chunk);
            });
        }
        all.into_iter().map(|(term, chunks)| DocumentTerm { term, chunks }).collect()
    }

    /// Returns the hash of what the version of a collection depends on: path, title, date and content.
    pub fn version_hash(&self) -> [u8; 32] {
        let entry = Entry::new(&self.path, self.hash, self.metadata.clone(), &self.given);
        entry.version_hash()
    }

    /// Returns whether a stored document with this hash and these given fields is the same.
    pub fn is_same(&self, hash: &[u8], given: &DocumentMetadata) -> bool {
        self.hash == hash && self.given == *given
    }
}

impl<'t> DocumentTerm<'t> {
    /// Creates the occurrences of a term in ascending chunks.
    pub fn new(term: &'t str, chunks: Vec<TermChunk>) -> Self {
        Self { term, chunks }
    }

    /// Returns the weighted count in the whole document.
    pub fn count(&self) -> u32 {
        self.chunks.iter().fold(0, |sum, chunk| sum.saturating_add(chunk.weighted_count()))
    }

    /// Returns the number of chunks that contain it in their body.
    pub fn body_chunks(&self) -> u32 {
        self.chunks.iter().filter(|chunk| chunk.counts.body > 0).count() as u32
    }

    /// Returns the highest weighted count and the lowest number of words of the chunks. No chunk scores higher than one with
    /// both.
    pub fn bound(&self) -> (u32, u32) {
        let counts = self.chunks.iter().map(TermChunk::weighted_count);
        let words = self.chunks.iter().map(|chunk| chunk.words);
        (counts.max().unwrap_or_default(), words.min().unwrap_or_default())
    }

    /// Encodes the chunks.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(8 * self.chunks.len());
        let mut next = 0;
        for TermChunk { sequence, words, counts, positions } in &self.chunks {
            write_varint(&mut bytes, u64::from(sequence - next));
            next = sequence + 1;
            for number in [*words, counts.body, counts.path, counts.symbols] {
                write_varint(&mut bytes, number.into());
            }
            let mut last = 0;
            for position in positions {
                write_varint(&mut bytes, u64::from(position - last));
                last = *position;
            }
        }
        bytes
    }
}

impl TermChunk {
    /// Creates the occurrences of a phrase, which count in the body.
    pub(crate) fn of_phrase(sequence: u32, words: u32, count: u32) -> Self {
        Self { sequence, words, counts: FieldCounts::in_body(count), positions: Vec::new() }
    }

    pub(crate) fn weighted_count(&self) -> u32 {
        crate::impacts::weighted_count(self.counts)
    }

    /// Decodes what [`DocumentTerm::encode`] wrote, or returns `None` if it is malformed.
    pub fn decode(bytes: &[u8]) -> Option<Vec<Self>> {
        let (mut reader, mut chunks, mut next) = (ByteReader(bytes), Vec::new(), 0_u32);
        while !reader.is_empty() {
            let sequence = next.checked_add(reader.read_varint_u32()?)?;
            next = sequence.checked_add(1)?;
            let words = reader.read_varint_u32()?;
            let mut number = || reader.read_varint_u32();
            let counts = FieldCounts { body: number()?, path: number()?, symbols: number()? };
            let (mut positions, mut last) = (Vec::new(), 0_u32);
            for _ in 0..counts.body {
                last = last.checked_add(reader.read_varint_u32()?)?;
                positions.push(last);
            }
            chunks.push(Self { sequence, words, counts, positions });
        }
        Some(chunks)
    }

    /// Returns the chunks in which terms follow each other, with the number of times. `terms` has the occurrences of each.
    pub fn phrase(terms: &[Vec<Self>]) -> Vec<Self> {
        let Some((first, rest)) = terms.split_first() else { return Vec::new() };
        let count = |chunk: &Self| {
            let mut starts = chunk.positions.clone();
            for (others, offset) in rest.iter().zip(1..) {
                let other = others.binary_search_by_key(&chunk.sequence, |other| other.sequence);
                let positions = other.map_or(&[][..], |index| &others[index].positions);
                starts.retain(|start| {
                    let position = start.checked_add(offset);
                    position.is_some_and(|position| positions.binary_search(&position).is_ok())
                });
            }
            starts.len() as u32
        };
        let matches = first.iter().map(|chunk| (chunk, count(chunk)));
        let matches = matches.filter(|(_, count)| *count > 0);
        matches.map(|(chunk, count)| Self::of_phrase(chunk.sequence, chunk.words, count)).collect()
    }
}

/// Returns the id of a chunk, by the path and the hash of its document, its position and its text.
pub fn id_of_chunk(path: &str, hash: &[u8; 32], sequence: u32, text: &str) -> String {
    chunk_id(&document_id(path, hash), sequence, text)
}

/// Returns the version of a collection, by the chunker, the model and the sum of the documents' version hashes. Equal
/// documents give equal versions, in any order of writing.
pub fn collection_version(chunking: &str, model: Option<&Model>, sum: &[u8]) -> String {
    let mut bytes = Vec::new();
    for text in ["pannier collection 1", chunking, model.map_or("", |model| &model.hash)] {
        write_str(&mut bytes, text);
    }
    bytes.extend_from_slice(sum);
    blake3::hash(&bytes).to_hex().to_string()
}

/// Returns the key of a vector, by the text that it was computed from: texts with equal keys have equal vectors.
pub fn vector_key(text: &str) -> [u8; 16] {
    crate::vectors::key(text)
}

/// Fails if an update would drop the vectors of a collection unasked.
///
/// # Errors
///
/// [`DocsError::Model`].
pub fn check_vectors(
    location: &Path,
    model: Option<&Model>,
    vectors: VectorSource<'_>,
) -> Result<(), DocsError> {
    crate::build::check_vectors(location, model, vectors)
}

/// Returns a function that checks if a path matches one of these glob patterns.
///
/// # Errors
///
/// [`DocsError::Pattern`].
pub fn glob_matcher(patterns: &[String]) -> Result<impl Fn(&str) -> bool + use<>, DocsError> {
    let globs = glob_set(patterns)?;
    Ok(move |path: &str| globs.is_match(path))
}

/// A file of a source that is not read yet.
#[derive(Debug)]
pub struct SourceDocument<'s>(&'s SourceFile);

impl SourceDocument<'_> {
    /// Returns its path relative to the document folder.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Returns the title and date that the caller gives now; `None` keeps those of before.
    pub fn given(&self) -> Option<&DocumentMetadata> {
        self.0.metadata.as_deref()
    }

    /// Reads the text and its SHA-256, or returns why the file is not indexed.
    ///
    /// # Errors
    ///
    /// The reason, and a line with the path and the problem.
    pub fn read(&self) -> Result<(String, [u8; 32]), (SkipReason, String)> {
        let skipped = |file: SkippedFile| (file.reason, file.message());
        let content = self.0.read().map_err(skipped)?;
        let hash = Sha256::digest(content.as_bytes()).into();
        Ok((content, hash))
    }
}

/// Calls `f` with all files of a source in the order of their ids, and with the files that are not indexed.
///
/// # Errors
///
/// [`DocsError::NoSources`], [`DocsError::Pattern`], [`DocsError::Sources`] if the rules are strict, and the errors of `f`.
pub fn with_files<T>(
    source: &DocumentSource,
    f: impl FnOnce(&[SourceDocument<'_>], Vec<(String, SkipReason)>) -> Result<T, DocsError>,
) -> Result<T, DocsError> {
    let found = source.files(None::<&Path>, SystemTime::UNIX_EPOCH)?;
    let files: Vec<SourceDocument<'_>> = found.files.iter().map(SourceDocument).collect();
    let skipped = found.skipped.iter().map(|file| (file.path.clone(), file.reason));
    f(&files, skipped.collect())
}

/// Maps items on all cores, in order.
pub fn map_all<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> R + Send + Sync) -> Vec<R> {
    map_parallel(items, f)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn terms_of_a_document_have_bounds_and_roundtrip() {
        let text = "# One\n\nalpha beta alpha\n\n# Two\n\nalpha gamma".to_owned();
        let given = DocumentMetadata::default();
        let document = AnalyzedDocument::new("alpha.md", text, given, ChunkSizes::default());
        assert_eq!(document.chunks.len(), 2);
        let terms = document.terms();
        let alpha = terms.iter().find(|own| own.term == "alpha").unwrap();
        // Two and one in the body, and one in the path of each chunk, which counts twice.
        assert_eq!((alpha.count(), alpha.body_chunks(), alpha.bound()), (7, 2, (4, 3)));
        for own in &terms {
            let bytes = own.encode();
            assert_eq!(TermChunk::decode(&bytes).as_ref(), Some(&own.chunks));
            assert!((1..bytes.len()).all(|cut| {
                TermChunk::decode(&bytes[..cut]).is_none_or(|some| some.len() < own.chunks.len())
            }));
        }
        let chunks = |term: &str| terms.iter().find(|own| own.term == term).unwrap().chunks.clone();
        let phrase = TermChunk::phrase(&[chunks("beta"), chunks("alpha")]);
        assert_eq!(phrase, [TermChunk::of_phrase(0, 4, 1)]);
        assert!(TermChunk::phrase(&[chunks("gamma"), chunks("alpha")]).is_empty());
        assert!(TermChunk::phrase(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Some(chunks) = TermChunk::decode(&bytes) {
                prop_assert_eq!(DocumentTerm { term: "", chunks }.encode(), bytes);
            }
        }
    }
}
