//! What a search needs from a collection of documents, regardless of where it is stored.
//!
//! A [`Corpus`] retrieves candidates by terms and by vector, and reads chunks and documents by number. Everything else (fusion,
//! packing, explanations, evaluation) is written once, on this trait. An index folder is one implementation; tables of a
//! database can be another. An open corpus is one version of its documents: a later update does not change it.

mod analysis;
mod scorer;

pub use analysis::{
    AnalyzedDocument, DocumentKind, DocumentTerm, SourceDocument, TermChunk, check_vectors,
    chunking_version, collection_version, glob_matcher, id_of_chunk, map_all, vector_key,
    with_files,
};
pub use scorer::{Bm25Parameters, CollectionStats, QueryClause, Scorer, query_clauses};

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use crate::lexical::ExplainedScore;
use crate::search::{self, check_length};
use crate::{
    DocsError, Document, DocumentIndex, DocumentInfo, Embedder, Hit, IndexStats, Manifest,
    QueryVector, SearchMode, SearchOptions,
};

/// A chunk of a corpus, by the number of its document and its position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkRef {
    /// The number of its document.
    pub document: u32,
    /// Its position among the chunks of its document, from 0.
    pub sequence: u32,
}

/// A query for the retrievers of a corpus.
#[derive(Clone, Copy, Debug)]
pub struct Retrieval<'q> {
    query: &'q str,
    options: &'q SearchOptions,
    vector: QueryVector<'q>,
    manifest: &'q Manifest,
    location: &'q Path,
}

impl<'q> Retrieval<'q> {
    /// Checks a query for a corpus.
    pub(crate) fn new<C: Corpus + ?Sized>(
        corpus: &'q C,
        query: &'q str,
        options: &'q SearchOptions,
        vector: QueryVector<'q>,
    ) -> Result<Self, DocsError> {
        check_length(query)?;
        search::check_mode(corpus, options.mode, vector)?;
        let (manifest, location) = (corpus.manifest(), corpus.location());
        if !manifest.chunking.ends_with(&crate::chunk::analysis_version()) {
            return Err(DocsError::Outdated { path: location.to_owned() });
        }
        Ok(Self { query, options, vector, manifest, location })
    }

    /// Returns the text of the query.
    pub fn query(&self) -> &'q str {
        self.query
    }

    /// Returns the options: the number of candidates of each retriever, the ranking and the filters.
    pub fn options(&self) -> &'q SearchOptions {
        self.options
    }

    /// Returns whether candidates by terms are needed.
    pub fn is_lexical(&self) -> bool {
        self.options.mode != SearchMode::Semantic
    }

    /// Returns whether candidates by vector are needed.
    pub fn is_semantic(&self) -> bool {
        self.manifest.model.is_some() && self.options.mode != SearchMode::Lexical
    }

    /// Returns the vector of the query, which may have to be computed.
    ///
    /// # Errors
    ///
    /// [`DocsError::Embedder`], and [`DocsError::Model`] if its number of dimensions is not that of the corpus.
    pub fn vector(&self) -> Result<Vec<i16>, DocsError> {
        let vector = match self.vector {
            QueryVector::None => Vec::new(),
            QueryVector::Given(vector) => vector.to_vec(),
            QueryVector::Embedder(embedder) => {
                let vectors = embedder.embed(&[self.query]).map_err(DocsError::Embedder)?;
                vectors.into_iter().next().unwrap_or_default()
            }
        };
        let dimensions = self.manifest.model.as_ref().map_or(0, |model| model.dimensions);
        if vector.len() != dimensions as usize {
            let length = vector.len();
            let problem =
                format!("the query vector has {length} dimensions instead of {dimensions}");
            return Err(DocsError::model(self.location, problem));
        }
        Ok(vector)
    }
}

/// The candidates of both retrievers.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Retrieved {
    /// All candidates, in the order that breaks ties.
    pub chunks: Vec<ChunkRef>,
    /// The candidates by terms, best first: positions in `chunks`, and scores.
    pub lexical: Vec<(usize, ExplainedScore)>,
    /// The candidates by vector, best first: positions in `chunks`, and dot products.
    pub semantic: Vec<(usize, i32)>,
}

impl Retrieved {
    /// Unites the candidates of both retrievers, best first. `tie_break` returns the key that orders candidates with equal
    /// scores.
    pub fn new<K: Ord>(
        lexical: Vec<(ChunkRef, ExplainedScore)>,
        semantic: Vec<(ChunkRef, i32)>,
        tie_break: impl Fn(ChunkRef) -> K,
    ) -> Self {
        let all = lexical.iter().map(|(chunk, _)| *chunk);
        let all = all.chain(semantic.iter().map(|(chunk, _)| *chunk));
        let ordered: BTreeMap<K, ChunkRef> = all.map(|chunk| (tie_break(chunk), chunk)).collect();
        let chunks: Vec<ChunkRef> = ordered.into_values().collect();
        let positions: BTreeMap<ChunkRef, usize> = chunks.iter().copied().zip(0..).collect();
        let position = |chunk: ChunkRef| positions.get(&chunk).copied();
        Self {
            lexical: lexical
                .into_iter()
                .filter_map(|own| Some((position(own.0)?, own.1)))
                .collect(),
            semantic: semantic
                .into_iter()
                .filter_map(|own| Some((position(own.0)?, own.1)))
                .collect(),
            chunks,
        }
    }
}

/// One version of a collection of documents that can be searched.
pub trait Corpus: fmt::Debug + Send + Sync {
    /// Returns counts, settings and the version, which receipts record.
    fn manifest(&self) -> &Manifest;

    /// Returns the location for messages: a folder, or an address without credentials.
    fn location(&self) -> &Path;

    /// Returns whether this is still the current version.
    ///
    /// # Errors
    ///
    /// [`DocsError::NoIndex`] if the collection is gone, and errors of reading.
    fn is_current(&self) -> Result<bool, DocsError>;

    /// Retrieves the best chunks by terms, by vector or both, as the query needs. The ranking must equal that of scoring every
    /// chunk, unless the corpus documents an approximation.
    ///
    /// # Errors
    ///
    /// Errors of the query's vector, its filters and reading.
    fn retrieve(&self, retrieval: &Retrieval<'_>) -> Result<Retrieved, DocsError>;

    /// Reads chunks, in this order. Those that do not exist are left out.
    ///
    /// # Errors
    ///
    /// Errors of reading.
    fn read_chunks(&self, chunks: &[ChunkRef]) -> Result<Vec<Hit>, DocsError>;

    /// Returns the number of the document with this path.
    ///
    /// # Errors
    ///
    /// Errors of reading.
    fn find_document(&self, path: &str) -> Result<Option<u32>, DocsError>;

    /// Reads documents, in this order.
    ///
    /// # Errors
    ///
    /// [`DocsError::Invalid`] if there is no such document, and errors of reading.
    fn read_documents(&self, numbers: &[u32]) -> Result<Vec<Document>, DocsError>;

    /// Returns the path, title, date and size of up to `count` documents in the order of their ids, from position `start`.
    ///
    /// # Errors
    ///
    /// Errors of reading.
    fn list_documents(&self, start: usize, count: usize) -> Result<Vec<DocumentInfo>, DocsError>;

    /// Computes statistics.
    ///
    /// # Errors
    ///
    /// Errors of reading.
    fn inspect(&self) -> Result<IndexStats, DocsError>;

    /// Checks everything that is stored, and returns the problems, one line each.
    ///
    /// # Errors
    ///
    /// Errors of reading.
    fn verify(&self) -> Result<Vec<String>, DocsError>;

    /// Returns the index folder, for operations that only folders have.
    fn as_index(&self) -> Option<&DocumentIndex> {
        None
    }

    /// Searches chunks, and returns them best first.
    ///
    /// # Errors
    ///
    /// [`DocsError::LongQuery`], [`DocsError::Pattern`], [`DocsError::Model`] if the query vector is missing or of another
    /// model, [`DocsError::Outdated`], and errors of reading.
    fn search(
        &self,
        query: &str,
        options: &SearchOptions,
        vector: QueryVector<'_>,
    ) -> Result<Vec<Hit>, DocsError> {
        search::search(self, query, options, vector)
    }

    /// Returns the chunks immediately before and after each hit, in no particular order.
    ///
    /// # Errors
    ///
    /// Errors of reading.
    fn neighbors(&self, hits: &[Hit]) -> Result<Vec<Hit>, DocsError> {
        let mut chunks: Vec<ChunkRef> = Vec::with_capacity(2 * hits.len());
        for hit in hits {
            let sequences = [hit.sequence.checked_sub(1), hit.sequence.checked_add(1)];
            let sequences = sequences.into_iter().flatten();
            chunks.extend(sequences.map(|sequence| ChunkRef { document: hit.document, sequence }));
        }
        chunks.sort_unstable();
        chunks.dedup();
        self.read_chunks(&chunks)
    }

    /// Returns the documents of the best passages for a query, by number, best first. The score of a document is the BM25
    /// score of its best passage. Documents without a term of the query are not among them.
    ///
    /// # Errors
    ///
    /// As [`search`](Self::search).
    fn rank_documents(&self, query: &str) -> Result<Vec<(u32, f64)>, DocsError> {
        search::rank_documents(self, query)
    }

    /// Computes the vector of a query that a search would use; `None` if it uses none.
    ///
    /// # Errors
    ///
    /// As [`search`](Self::search).
    fn query_vector(
        &self,
        query: &str,
        embedder: &dyn Embedder,
        mode: SearchMode,
    ) -> Result<Option<Vec<i16>>, DocsError> {
        check_length(query)?;
        search::check_mode(self, mode, QueryVector::Embedder(embedder))?;
        if mode == SearchMode::Lexical {
            return Ok(None);
        }
        let vectors = embedder.embed(&[query]).map_err(DocsError::Embedder)?;
        Ok(vectors.into_iter().next())
    }
}
