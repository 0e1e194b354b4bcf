//! Chunk search: a lexical and a semantic retriever, merged by their scores or ranks.
//!
//! The retrievers rank chunks independently. Their scores have different scales, so each is mapped to shares from 0 to 1, or
//! only ranks are fused. Fused scores are integers, so that ties are exact; they are broken by a total order: document path,
//! then position in the document.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use pannier_core::Timestamp;
use serde::{Deserialize, Serialize};

use crate::chunk::{analysis_version, chunk_id};
use crate::document_index::ChunkTable;
use crate::lexical::{Bm25Query, ExplainedScore, MAX_QUERY_BYTES, Ranking, TermScore};
use crate::source::glob_set;
use crate::vectors::{IMPORTED_MODEL, nearest};
use crate::{DocsError, DocumentIndex, Embedder, RerankerScore};

/// The fixed-point scale of fused scores. By RRF, a rank contributes `SCALE / (rrf_k + rank)`.
const SCALE: u64 = 1 << 32;

/// The retrievers of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SearchMode {
    /// Lexical, and semantic where the index has vectors.
    #[default]
    Hybrid,
    /// Lexical only.
    Lexical,
    /// Semantic only.
    Semantic,
}

/// How the rankings of two retrievers are merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Fusion {
    /// The sum of scores, each as a share between the lowest and the highest of its retriever. A retriever alone keeps its
    /// scores in proportion.
    #[default]
    Score,
    /// Reciprocal rank fusion.
    Rrf,
}

/// The options of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SearchOptions {
    /// The retrievers.
    pub mode: SearchMode,
    /// The text that the lexical retriever ranks chunks by.
    pub ranking: Ranking,
    /// How the rankings of both retrievers are merged.
    pub fusion: Fusion,
    /// The number of chunks that the lexical retriever returns. Default: 50.
    pub lexical_k: usize,
    /// The number of chunks that the semantic retriever returns. Default: 50.
    pub semantic_k: usize,
    /// The number of chunks after fusion. Default: 100.
    pub top_k: usize,
    /// The RRF constant k; larger values flatten rank differences. Default: 60.
    pub rrf_k: u32,
    /// The weight of the lexical retriever. Default: 1.
    pub lexical_weight: u32,
    /// The weight of the semantic retriever. Default: 1.
    pub semantic_weight: u32,
    /// Breaks ties by date, the latest document first. Default: by path.
    pub prefer_recent: bool,
    /// The chunks that are searched.
    pub filters: Filters,
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self {
            mode: SearchMode::default(),
            ranking: Ranking::default(),
            fusion: Fusion::default(),
            lexical_k: 50,
            semantic_k: 50,
            top_k: 100,
            rrf_k: 60,
            lexical_weight: 1,
            semantic_weight: 1,
            prefer_recent: false,
            filters: Filters::default(),
        }
    }
}

/// Restricts a search to some chunks. Empty filters allow all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Filters {
    /// Glob patterns; a document's path must match one of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// The earliest document date, inclusive. Documents without a date are excluded.
    #[serde(skip_serializing_if = "Option::is_none", with = "timestamp")]
    pub after: Option<Timestamp>,
    /// The latest document date, exclusive. Documents without a date are excluded.
    #[serde(skip_serializing_if = "Option::is_none", with = "timestamp")]
    pub before: Option<Timestamp>,
    /// Strings that a chunk must contain, ignoring case.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contains: Vec<String>,
}

/// Timestamps as strings.
mod timestamp {
    use pannier_core::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::ref_option, reason = "serde asks for this form")]
    pub(super) fn serialize<S: Serializer>(
        timestamp: &Option<Timestamp>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match timestamp {
            Some(timestamp) => serializer.serialize_str(&timestamp.to_string()),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
    }
}

/// The vector of a query.
#[derive(Clone, Copy, Debug, Default)]
pub enum QueryVector<'q> {
    /// No vector.
    #[default]
    None,
    /// Computed by the embedder of the index's vectors.
    Embedder(&'q dyn Embedder),
    /// Computed by the caller.
    Given(&'q [i16]),
}

/// A chunk with its scores.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Hit {
    /// Its id: a hash of its document's path and content, its position and its text.
    pub id: String,
    /// The path of its document.
    pub path: String,
    /// The number of its document in the index.
    pub document: u32,
    /// Its position among the chunks of its document, from 0.
    pub sequence: u32,
    /// Its byte range in the document.
    pub range: Range<usize>,
    /// The number of its first line in the document, from 1.
    pub line: usize,
    /// Its headings, from the outermost: `Guide > Install`.
    pub heading_path: String,
    /// The line that opens the fenced code block in which it starts; empty if it starts outside of one.
    pub fence: String,
    /// Its text.
    pub text: String,
    /// The date of its document.
    pub date: Option<Timestamp>,
    /// Its fused score; 0 outside of a search.
    pub score: u64,
    /// Its rank by the lexical retriever.
    pub lexical: Option<LexicalScore>,
    /// Its rank by the semantic retriever.
    pub semantic: Option<SemanticScore>,
    /// Its score by a reranker.
    pub reranker: Option<RerankerScore>,
}

/// The lexical rank of a chunk.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LexicalScore {
    /// Its rank, from 1.
    pub rank: u32,
    /// Its BM25 score.
    pub score: f64,
    /// The contribution of each query term.
    pub terms: Vec<TermScore>,
}

/// The semantic rank of a chunk.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SemanticScore {
    /// Its rank, from 1.
    pub rank: u32,
    /// Its cosine similarity to the query, from 0 to 1.
    pub score: f64,
}

/// A chunk with its fused score and its ranks.
struct Fused {
    chunk: u32,
    score: u64,
    lexical: Option<(u32, f64)>,
    semantic: Option<(u32, i32)>,
}

/// The number of passages whose documents [`DocumentIndex::rank_documents`] ranks.
const MAX_RANKED_PASSAGES: usize = 400;

impl DocumentIndex {
    /// Returns the documents of the best passages for a query, by number, best first. The score of a document is the BM25
    /// score of its best passage. Documents without a term of the query are not among them.
    ///
    /// # Errors
    ///
    /// As [`search`](Self::search).
    pub fn rank_documents(&self, query: &str) -> Result<Vec<(u32, f64)>, DocsError> {
        let mut options = SearchOptions { mode: SearchMode::Lexical, ..SearchOptions::default() };
        (options.lexical_k, options.top_k) = (MAX_RANKED_PASSAGES, MAX_RANKED_PASSAGES);
        let hits = self.search(query, &options, QueryVector::None)?;
        let mut ranked: Vec<(u32, f64)> = Vec::new();
        for hit in hits {
            let score = hit.lexical.map_or(0.0, |lexical| lexical.score);
            if ranked.iter().all(|(document, _)| *document != hit.document) {
                ranked.push((hit.document, score));
            }
        }
        Ok(ranked)
    }

    /// Searches chunks, and returns them best first.
    ///
    /// ```
    /// # use pannier_docs::{BuildOptions, DocumentIndex, QueryVector, SearchOptions, DocumentSource, build};
    /// # let folder = std::env::temp_dir().join(format!("pannier-search-{}", std::process::id()));
    /// # let (docs, index) = (folder.join("docs"), folder.join("cache"));
    /// # std::fs::create_dir_all(&docs)?;
    /// # std::fs::write(docs.join("http.md"), "# Requests\n\nCall parse_http_header first.\n\n# Bread\n\nBake it.")?;
    /// # build(&DocumentSource::new(&docs), &index, &BuildOptions::default(), &mut |_| {})?;
    /// let hits = DocumentIndex::open(&index)?.search("parseHttpHeader", &SearchOptions::default(), QueryVector::None)?;
    /// assert_eq!(hits[0].heading_path, "Requests");
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`DocsError::LongQuery`], [`DocsError::Pattern`], [`DocsError::Model`] if the query vector is missing or of another
    /// model, [`DocsError::Outdated`], and [`DocsError::Invalid`] if a file that the search reads is damaged.
    pub fn search(
        &self,
        query: &str,
        options: &SearchOptions,
        vector: QueryVector<'_>,
    ) -> Result<Vec<Hit>, DocsError> {
        check_length(query)?;
        self.check_mode(options.mode, vector)?;
        if !self.manifest().chunking.ends_with(&analysis_version()) {
            return Err(DocsError::Outdated { path: self.root().to_owned() });
        }
        let table = self.chunk_table()?;
        let filter = ChunkFilter::new(self, &options.filters)?;
        let tie_break = TieBreak::new(self, table, options.prefer_recent)?;
        let has_vectors = self.manifest().model.is_some() && options.mode != SearchMode::Lexical;
        let lexical = || self.lexical_search(query, options, &tie_break, &filter);
        let semantic =
            || self.vector_search(query, vector, options.semantic_k, &tie_break, &filter);
        // Handing work to another thread costs more than a lexical search.
        let (lexical, semantic) = match options.mode {
            SearchMode::Semantic => (Ok(Vec::new()), semantic()),
            _ if !has_vectors => (lexical(), Ok(Vec::new())),
            _ => rayon::join(lexical, semantic),
        };
        let mut explained: BTreeMap<u32, Vec<TermScore>> = BTreeMap::new();
        let mut ranked = Vec::new();
        for (chunk, own) in lexical? {
            ranked.push((chunk, own.score));
            explained.insert(chunk, own.terms);
        }
        let fused = fuse(options, &ranked, &semantic?, &tie_break);
        let mut hits = Vec::with_capacity(fused.len());
        for fused in fused {
            let mut hit = self.hit(table, fused.chunk)?;
            hit.score = fused.score;
            if let Some((rank, score)) = fused.lexical {
                let terms = explained.remove(&fused.chunk).unwrap_or_default();
                hit.lexical = Some(LexicalScore { rank, score, terms });
            }
            hit.semantic = fused.semantic.map(|(rank, product)| SemanticScore {
                rank,
                score: f64::from(product) / (32_767.0 * 32_767.0),
            });
            hits.push(hit);
        }
        Ok(hits)
    }

    /// Returns the chunks immediately before and after a hit.
    ///
    /// # Errors
    ///
    /// [`DocsError::Invalid`] if they are damaged.
    pub fn neighbors(&self, hit: &Hit) -> Result<Vec<Hit>, DocsError> {
        let table = self.chunk_table()?;
        if hit.document >= self.len() {
            return Ok(Vec::new());
        }
        let sequences = [hit.sequence.checked_sub(1), hit.sequence.checked_add(1)];
        let chunks = table.chunks_of(hit.document);
        let chunks =
            sequences.into_iter().flatten().map(|sequence| chunks.start.saturating_add(sequence));
        chunks
            .filter(|chunk| table.chunks_of(hit.document).contains(chunk))
            .map(|chunk| self.hit(table, chunk))
            .collect()
    }

    /// Returns every chunk, in document order.
    ///
    /// # Errors
    ///
    /// As [`document`](Self::document).
    pub fn all_chunks(&self) -> Result<impl Iterator<Item = Result<Hit, DocsError>>, DocsError> {
        let table = self.chunk_table()?;
        Ok((0..table.len()).map(move |chunk| self.hit(table, chunk)))
    }

    /// Checks that the query has a vector if the mode needs one, and that its model is that of the index.
    fn check_mode(&self, mode: SearchMode, vector: QueryVector<'_>) -> Result<(), DocsError> {
        let mismatch = |problem: String| Err(DocsError::model(self.root(), problem));
        let Some(model) = &self.manifest().model else {
            let has_vector = !matches!(vector, QueryVector::None) && mode == SearchMode::Hybrid;
            return match mode == SearchMode::Semantic || has_vector {
                true => Err(DocsError::NoVectors { path: self.root().to_owned() }),
                false => Ok(()),
            };
        };
        if mode == SearchMode::Lexical {
            return Ok(());
        }
        match vector {
            QueryVector::None if model.name == IMPORTED_MODEL => mismatch(
                "the index has imported vectors, but the query has no vector; add one, or use lexical search"
                    .to_owned(),
            ),
            QueryVector::None => mismatch(format!(
                "the index has vectors by {}, but the query has none; add the embedder, or use lexical search",
                model.name
            )),
            QueryVector::Embedder(embedder) if !embedder.is_compatible(model) => mismatch(format!(
                "the index has vectors by {} {:.12}…, but the embedder is {} {:.12}…; use the embedder of the index, or build the index again",
                model.name,
                model.hash,
                embedder.model().name,
                embedder.model().hash
            )),
            QueryVector::Given(vector) if vector.len() != model.dimensions as usize => {
                mismatch(format!(
                    "its vectors have {} dimensions, but the query vector has {}; compute both with one model",
                    model.dimensions,
                    vector.len()
                ))
            }
            _ => Ok(()),
        }
    }

    /// Computes the vector of a query that a search would use; `None` if it uses none.
    pub(crate) fn query_vector(
        &self,
        query: &str,
        embedder: &dyn Embedder,
        mode: SearchMode,
    ) -> Result<Option<Vec<i16>>, DocsError> {
        check_length(query)?;
        self.check_mode(mode, QueryVector::Embedder(embedder))?;
        if mode == SearchMode::Lexical {
            return Ok(None);
        }
        let vectors = embedder.embed(&[query]).map_err(DocsError::Embedder)?;
        Ok(vectors.into_iter().next())
    }

    fn lexical_search(
        &self,
        query: &str,
        options: &SearchOptions,
        tie_break: &TieBreak<'_>,
        filter: &ChunkFilter<'_>,
    ) -> Result<Vec<(u32, ExplainedScore)>, DocsError> {
        let lexical = Bm25Query::new(self, query, options.ranking)?;
        filter.take_matching(options.lexical_k, tie_break.table, |count| {
            lexical.top_k(
                count,
                |document| filter.allows_document(document),
                |chunk| tie_break.key(chunk),
            )
        })
    }

    fn vector_search(
        &self,
        query: &str,
        vector: QueryVector<'_>,
        count: usize,
        tie_break: &TieBreak<'_>,
        filter: &ChunkFilter<'_>,
    ) -> Result<Vec<(u32, i32)>, DocsError> {
        let query_vector = match vector {
            QueryVector::None => Vec::new(),
            QueryVector::Given(vector) => vector.to_vec(),
            QueryVector::Embedder(embedder) => {
                let vectors = embedder.embed(&[query]).map_err(DocsError::Embedder)?;
                vectors.into_iter().next().unwrap_or_default()
            }
        };
        let dimensions = self.manifest().model.as_ref().map_or(0, |model| model.dimensions);
        if query_vector.len() != dimensions as usize {
            let length = query_vector.len();
            let problem =
                format!("the query vector has {length} dimensions instead of {dimensions}");
            return Err(DocsError::model(self.root(), problem));
        }
        let vectors = self.vectors()?;
        tie_break.table.expect_many();
        filter.take_matching(count, tie_break.table, |count| {
            let is_allowed = |chunk| filter.allows_document(tie_break.table.document_of(chunk));
            Ok(nearest(vectors, &query_vector, count, is_allowed, |chunk| tie_break.key(chunk)))
        })
    }
}

pub(crate) fn check_length(query: &str) -> Result<(), DocsError> {
    let (bytes, max_bytes) = (query.len(), MAX_QUERY_BYTES);
    if bytes > max_bytes {
        return Err(DocsError::LongQuery { bytes, max_bytes });
    }
    Ok(())
}

/// Maps scores to shares: from 0 to 1 between the lowest and the highest, or in proportion to the highest.
fn shares(scores: impl Iterator<Item = f64> + Clone, is_alone: bool) -> impl Iterator<Item = f64> {
    let highest = scores.clone().fold(0.0, f64::max);
    let lowest = if is_alone { 0.0 } else { scores.clone().fold(highest, f64::min) };
    let range = highest - lowest;
    scores.map(move |score| if range > 0.0 { (score - lowest).max(0.0) / range } else { 1.0 })
}

/// Merges both rankings.
fn fuse(
    options: &SearchOptions,
    lexical: &[(u32, f64)],
    semantic: &[(u32, i32)],
    tie_break: &TieBreak<'_>,
) -> Vec<Fused> {
    let mut fused: BTreeMap<u32, Fused> = BTreeMap::new();
    let contribution = |rank: u32, share: f64, weight: u32| {
        let score = match options.fusion {
            Fusion::Score => (share * SCALE as f64) as u64,
            Fusion::Rrf => SCALE / (u64::from(options.rrf_k) + u64::from(rank)),
        };
        score.saturating_mul(weight.into())
    };
    let is_alone = lexical.is_empty() || semantic.is_empty();
    let lexical_shares = shares(lexical.iter().map(|(_, score)| *score), is_alone);
    let semantic_shares = shares(semantic.iter().map(|(_, product)| f64::from(*product)), is_alone);
    let new = |chunk| Fused { chunk, score: 0, lexical: None, semantic: None };
    for (((chunk, score), rank), share) in lexical.iter().zip(1..).zip(lexical_shares) {
        let entry = fused.entry(*chunk).or_insert_with(|| new(*chunk));
        let score_of_rank = contribution(rank, share, options.lexical_weight);
        entry.score = entry.score.saturating_add(score_of_rank);
        entry.lexical = Some((rank, *score));
    }
    for (((chunk, product), rank), share) in semantic.iter().zip(1..).zip(semantic_shares) {
        let entry = fused.entry(*chunk).or_insert_with(|| new(*chunk));
        let score_of_rank = contribution(rank, share, options.semantic_weight);
        entry.score = entry.score.saturating_add(score_of_rank);
        entry.semantic = Some((rank, *product));
    }
    let mut fused: Vec<Fused> = fused.into_values().collect();
    fused.sort_unstable_by_key(|fused| {
        // Rounded scores do not change the order of a retriever alone.
        let ranks = match is_alone && options.fusion == Fusion::Score {
            true => (fused.lexical.map(|own| own.0), fused.semantic.map(|own| own.0)),
            false => (None, None),
        };
        (Reverse(fused.score), ranks, tie_break.key(fused.chunk))
    });
    fused.truncate(options.top_k);
    fused
}

/// The order of chunks with equal scores: by document, then by position.
struct TieBreak<'c> {
    table: &'c ChunkTable,
    index: &'c DocumentIndex,
    /// The rank of each document, unless it is that of its path.
    document_ranks: Option<Vec<u32>>,
}

impl<'c> TieBreak<'c> {
    /// Ranks documents by path, or by date first, the latest in front.
    fn new(
        index: &'c DocumentIndex,
        table: &'c ChunkTable,
        by_date: bool,
    ) -> Result<Self, DocsError> {
        if !by_date {
            return Ok(Self { table, index, document_ranks: None });
        }
        let mut documents = Vec::with_capacity(index.len() as usize);
        for document in 0..index.len() {
            let date = Reverse(index.record(document)?.metadata.date);
            documents.push((date, index.path_rank(document), document));
        }
        documents.sort_unstable();
        let mut document_ranks = vec![0; documents.len()];
        for ((_, _, document), rank) in documents.into_iter().zip(0..) {
            document_ranks[document as usize] = rank;
        }
        Ok(Self { table, index, document_ranks: Some(document_ranks) })
    }

    fn key(&self, chunk: u32) -> (u32, u32) {
        let document = self.table.document_of(chunk);
        let ranks = self.document_ranks.as_ref();
        (
            ranks.map_or_else(|| self.index.path_rank(document), |ranks| ranks[document as usize]),
            chunk,
        )
    }
}

impl DocumentIndex {
    /// Reads a chunk.
    fn hit(&self, table: &ChunkTable, number: u32) -> Result<Hit, DocsError> {
        let document = table.document_of(number);
        let entry = self.chunked_document(document)?;
        let sequence = number - table.chunks_of(document).start;
        let text = self.chunk_text(document, &entry, sequence)?;
        let missing = || DocsError::invalid(self.folder(), "a chunk is missing");
        let chunk = entry.chunks.get(sequence as usize).ok_or_else(missing)?;
        Ok(Hit {
            id: chunk_id(&entry.id, sequence, &text),
            path: entry.record.path.clone(),
            document,
            sequence,
            range: chunk.range.clone(),
            line: chunk.line,
            heading_path: chunk.heading_path.clone(),
            fence: chunk.fence.clone(),
            text,
            date: entry.record.metadata.date,
            score: 0,
            lexical: None,
            semantic: None,
            reranker: None,
        })
    }
}

/// The compiled filters of a search.
struct ChunkFilter<'c> {
    index: &'c DocumentIndex,
    /// Whether each document is allowed; `None` allows all.
    documents: Option<Vec<bool>>,
    /// Lowercased strings.
    contains: Vec<String>,
}

impl<'c> ChunkFilter<'c> {
    fn new(index: &'c DocumentIndex, filters: &Filters) -> Result<Self, DocsError> {
        let Filters { paths, after, before, contains } = filters;
        let contains = contains.iter().map(|text| text.to_lowercase()).collect();
        if paths.is_empty() && after.is_none() && before.is_none() {
            return Ok(Self { index, documents: None, contains });
        }
        let globs = glob_set(paths)?;
        let is_allowed = |document: u32| {
            let record = index.record(document)?;
            let date = record.metadata.date;
            let is_after = after.is_none_or(|after| date.is_some_and(|date| date >= after));
            let is_before = before.is_none_or(|before| date.is_some_and(|date| date < before));
            Ok(is_after && is_before && (paths.is_empty() || globs.is_match(&record.path)))
        };
        let documents = (0..index.len()).map(is_allowed).collect::<Result<_, DocsError>>()?;
        Ok(Self { index, documents: Some(documents), contains })
    }

    /// Returns whether a document is allowed.
    fn allows_document(&self, document: u32) -> bool {
        self.documents.as_ref().is_none_or(|documents| documents[document as usize])
    }

    /// Returns the top `count` chunks of a retriever that contain all required strings. Only the texts of the highest ranks are
    /// read: the retriever is asked for more until enough remain.
    fn take_matching<S>(
        &self,
        count: usize,
        table: &ChunkTable,
        retrieve: impl Fn(usize) -> Result<Vec<(u32, S)>, DocsError>,
    ) -> Result<Vec<(u32, S)>, DocsError> {
        if self.contains.is_empty() {
            return retrieve(count);
        }
        let mut requested = count.max(1);
        loop {
            let ranked = retrieve(requested)?;
            let is_all = ranked.len() < requested;
            let mut kept = Vec::new();
            for (chunk, score) in ranked {
                let document = table.document_of(chunk);
                let entry = self.index.chunked_document(document)?;
                let sequence = chunk - table.chunks_of(document).start;
                let text = self.index.chunk_text(document, &entry, sequence)?;
                let text = text.to_lowercase();
                if self.contains.iter().all(|required| text.contains(required)) {
                    kept.push((chunk, score));
                }
            }
            if is_all || kept.len() >= count {
                kept.truncate(count);
                return Ok(kept);
            }
            requested = requested.saturating_mul(8);
        }
    }
}
