//! Document search for context: index a folder, search its chunks, assemble contexts within a token budget.
//!
//! - [`build`] writes or updates a [`DocumentIndex`]: documents with their hashes, their chunks, posting lists and optional
//!   vectors. Equal documents give the same version and the same answers on every machine, regardless of earlier versions.
//! - [`DocumentIndex::resolve`] returns whole documents by term frequency, [`DocumentIndex::search`] chunks by BM25, vectors or both.
//! - [`Assembler`] packs passages into a context. [`eval`] measures retrieval quality.
//!
//! ```
//! use pannier_docs::{BuildOptions, DocumentIndex, DocumentSource, build};
//!
//! # let folder = std::env::temp_dir().join(format!("pannier-docs-{}", std::process::id()));
//! # let (docs, index) = (folder.join("docs"), folder.join("index"));
//! # std::fs::create_dir_all(&docs)?;
//! std::fs::write(docs.join("deploy.md"), "How to deploy on Fridays: do not.")?;
//! std::fs::write(docs.join("lunch.md"), "The canteen closes at two.")?;
//! build(&DocumentSource::new(&docs), &index, &BuildOptions::default(), &mut |_| {})?;
//!
//! let answer = DocumentIndex::open(&index)?.resolve("deploy fridays:", 10)?;
//! assert_eq!(answer.documents[0].id, "deploy.md");
//! assert_eq!(answer.documents[0].why.term_matches, 2);
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

#[cfg(doctest)]
#[doc = include_str!("../../../docs/reference/documents.md")]
struct Guide;

mod assemble;
mod build;
mod catalog;
mod chunk;
pub mod corpus;
mod document_index;
mod embedder;
mod error;
pub mod eval;
mod file_kind;
mod folder_search;
mod impacts;
mod inspect;
mod inverted_index;
mod lexical;
mod manifest;
mod max_score;
mod merge;
mod metadata;
mod packed;
mod recent;
mod reranker;
mod resolve;
mod search;
mod segment;
mod segment_writer;
mod sized_file;
mod source;
mod stamps;
mod store;
mod term_postings;
mod varint;
mod vector_log;
mod vectors;
mod verify;
mod word_counts;

pub use assemble::{
    AssembledContext, Assembler, AssemblyConfig, Candidates, ContextChunk, OmittedChunk,
    OmittedReason, PassageSpans, TokenBudget, verify_determinism,
};
pub use build::{
    BuildOptions, BuildSummary, PathCount, Progress, RemovalReason, build, for_each_chunk,
};
pub use chunk::{Chunk, ChunkSizes};
pub use corpus::Corpus;
pub use document_index::{Document, DocumentIndex};
pub use embedder::{Embedder, EmbedderError, Model, quantize};
pub use error::DocsError;
pub use inspect::{DocumentInfo, IndexStats, SizeStats};
pub use lexical::{ExplainedScore, Ranking, TermScore};
pub use manifest::{Manifest, ManifestFile, ManifestSource, SegmentInfo};
pub use metadata::{DocumentMetadata, parse_date};
pub use reranker::{MAX_RERANKED, Reranker, RerankerScore, Reranking};
pub use resolve::{Resolved, ResolvedDocument, ResolvedSelection, TermFrequency, resolve_policy};
pub use search::{
    Filters, Fusion, Hit, LexicalScore, QueryVector, SearchMode, SearchOptions, SemanticScore,
};
pub use source::{DocumentSource, FileRules, SkipReason};
pub use store::remove_drafts;
pub use vectors::{ImportedVectors, VectorSource, dot_product};
pub use verify::verify;

/// The fuzz target: reading any bytes must not panic, and encoding must roundtrip.
#[cfg(fuzzing)]
pub fn fuzz(data: &[u8]) {
    // With a valid checksum, so that the content is decoded.
    let mut sealed = data.to_vec();
    sealed.extend_from_slice(&xxhash_rust::xxh3::xxh3_64(data).to_le_bytes());
    if let Some(entries) = inverted_index::read_block(&sealed) {
        assert!(!entries.is_empty());
    }
    if let Some(list) = inverted_index::PostingList::read(sealed.clone(), data.len() % 2 == 0) {
        if let Some(postings) = list.postings() {
            assert!(postings.is_sorted_by(|a, b| a.0 < b.0));
            assert!(postings.last().map(|(doc, _)| *doc) <= list.last());
            let _ = inverted_index::read_positions(&sealed, &postings);
        }
        let _ = list.for_each_of(&[0, 1, 5, 1_000], |_, _| {});
    }
    let _ = ImportedVectors::read(data);
    let _ = (catalog::read(data), stamps::Stamps::decode(&sealed));
    for length in [0, 1, 10, 1_000] {
        if let Some(chunks) = chunk::read(data, length) {
            assert_eq!(chunk::write(&chunks), data);
        }
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = serde_json::from_str::<Manifest>(text);
        for path in ["a.md", "a.txt", "a.rs", "a.py", "a.ts"] {
            let chunks = chunk::chunks(path, text, None, ChunkSizes::default());
            assert_eq!(chunk::read(&chunk::write(&chunks), text.len()), Some(chunks));
        }
        let metadata = DocumentMetadata::default().or_else(metadata::front_matter(text));
        assert!(metadata.title.is_none_or(|title| !title.is_empty() && title.len() <= 256));
        let mut positions = 0;
        let words = pannier_text::for_each_term(text, 0, |term| {
            assert!(!term.text.is_empty());
            positions = positions.max(term.position + 1);
        });
        assert!(positions <= words);
        let _ = lexical::clauses(text);
        let (words, mut counted) = (word_counts::TermCounts::of_document(text), 0);
        words.for_each(|_, _, count, _| counted += count.body);
        assert_eq!(counted, words.total);
    }
}
