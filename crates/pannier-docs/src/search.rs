//! Chunk search: a lexical and a semantic retriever, merged by their scores or ranks.
//!
//! The retrievers rank chunks independently. Their scores have different scales, so each is mapped to shares from 0 to 1, or
//! only ranks are fused. Fused scores are integers, so that ties are exact; they are broken by a total order: document path,
//! then position in the document.

use std::cmp::Reverse;
use std::ops::Range;

use pannier_core::Timestamp;
use serde::{Deserialize, Serialize};

use crate::corpus::{Corpus, Retrieval, Retrieved};
use crate::lexical::{MAX_QUERY_BYTES, Ranking, TermScore};
use crate::vectors::IMPORTED_MODEL;
use crate::{Chunk, DocsError, Embedder, RerankerScore};

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

impl Hit {
    /// Creates a hit without scores from a chunk of a document: its number, path and date.
    pub fn new(
        id: String,
        (document, path, date): (u32, &str, Option<Timestamp>),
        sequence: u32,
        chunk: Chunk,
        text: String,
    ) -> Self {
        Self {
            id,
            path: path.to_owned(),
            document,
            sequence,
            range: chunk.range,
            line: chunk.line,
            heading_path: chunk.heading_path,
            fence: chunk.fence,
            text,
            date,
            score: 0,
            lexical: None,
            semantic: None,
            reranker: None,
        }
    }
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

/// A candidate with its fused score and its ranks.
#[derive(Clone, Copy, Default)]
struct Fused {
    /// Its position among the candidates, which breaks ties.
    position: usize,
    score: u64,
    lexical: Option<(u32, f64)>,
    semantic: Option<(u32, i32)>,
}

/// The number of passages whose documents [`Corpus::rank_documents`] ranks.
const MAX_RANKED_PASSAGES: usize = 400;

/// Returns the documents of the best passages, with the score of the best passage of each.
pub(crate) fn rank_documents<C: Corpus + ?Sized>(
    corpus: &C,
    query: &str,
) -> Result<Vec<(u32, f64)>, DocsError> {
    let mut options = SearchOptions { mode: SearchMode::Lexical, ..SearchOptions::default() };
    options.lexical_k = MAX_RANKED_PASSAGES;
    let retrieval = Retrieval::new(corpus, query, &options, QueryVector::None)?;
    let Retrieved { chunks, lexical, .. } = corpus.retrieve(&retrieval)?;
    let mut ranked: Vec<(u32, f64)> = Vec::new();
    for (position, own) in lexical {
        let document = chunks[position].document;
        if ranked.iter().all(|(other, _)| *other != document) {
            ranked.push((document, own.score));
        }
    }
    Ok(ranked)
}

/// Searches a corpus: retrieves candidates, merges their rankings, and reads the best.
pub(crate) fn search<C: Corpus + ?Sized>(
    corpus: &C,
    query: &str,
    options: &SearchOptions,
    vector: QueryVector<'_>,
) -> Result<Vec<Hit>, DocsError> {
    let retrieval = Retrieval::new(corpus, query, options, vector)?;
    let mut retrieved = corpus.retrieve(&retrieval)?;
    let fused = fuse(options, &retrieved);
    let mut terms: Vec<Vec<TermScore>> = vec![Vec::new(); retrieved.chunks.len()];
    for (position, own) in &mut retrieved.lexical {
        terms[*position] = std::mem::take(&mut own.terms);
    }
    let chunks: Vec<_> = fused.iter().map(|fused| retrieved.chunks[fused.position]).collect();
    let mut hits = corpus.read_chunks(&chunks)?;
    if hits.len() != chunks.len() {
        return Err(DocsError::invalid(corpus.location(), "a chunk is missing"));
    }
    for (hit, fused) in hits.iter_mut().zip(fused) {
        hit.score = fused.score;
        if let Some((rank, score)) = fused.lexical {
            let terms = std::mem::take(&mut terms[fused.position]);
            hit.lexical = Some(LexicalScore { rank, score, terms });
        }
        hit.semantic = fused.semantic.map(|(rank, product)| SemanticScore {
            rank,
            score: f64::from(product) / (32_767.0 * 32_767.0),
        });
    }
    Ok(hits)
}

/// Checks that the query has a vector if the mode needs one, and that its model is that of the index.
pub(crate) fn check_mode<C: Corpus + ?Sized>(
    corpus: &C,
    mode: SearchMode,
    vector: QueryVector<'_>,
) -> Result<(), DocsError> {
    let mismatch = |problem: String| Err(DocsError::model(corpus.location(), problem));
    let Some(model) = &corpus.manifest().model else {
        let has_vector = !matches!(vector, QueryVector::None) && mode == SearchMode::Hybrid;
        return match mode == SearchMode::Semantic || has_vector {
            true => Err(DocsError::NoVectors { path: corpus.location().to_owned() }),
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
    Retrieved { chunks, lexical, semantic }: &Retrieved,
) -> Vec<Fused> {
    let contribution = |rank: u32, share: f64, weight: u32| {
        let score = match options.fusion {
            Fusion::Score => (share * SCALE as f64) as u64,
            Fusion::Rrf => SCALE / (u64::from(options.rrf_k) + u64::from(rank)),
        };
        score.saturating_mul(weight.into())
    };
    let is_alone = lexical.is_empty() || semantic.is_empty();
    let lexical_shares = shares(lexical.iter().map(|(_, own)| own.score), is_alone);
    let semantic_shares = shares(semantic.iter().map(|(_, product)| f64::from(*product)), is_alone);
    let mut fused: Vec<Fused> =
        (0..chunks.len()).map(|position| Fused { position, ..Fused::default() }).collect();
    for (((position, own), rank), share) in lexical.iter().zip(1..).zip(lexical_shares) {
        let entry = &mut fused[*position];
        let score_of_rank = contribution(rank, share, options.lexical_weight);
        entry.score = entry.score.saturating_add(score_of_rank);
        entry.lexical = Some((rank, own.score));
    }
    for (((position, product), rank), share) in semantic.iter().zip(1..).zip(semantic_shares) {
        let entry = &mut fused[*position];
        let score_of_rank = contribution(rank, share, options.semantic_weight);
        entry.score = entry.score.saturating_add(score_of_rank);
        entry.semantic = Some((rank, *product));
    }
    fused.sort_unstable_by_key(|fused| {
        // Rounded scores do not change the order of a retriever alone.
        let ranks = match is_alone && options.fusion == Fusion::Score {
            true => (fused.lexical.map(|own| own.0), fused.semantic.map(|own| own.0)),
            false => (None, None),
        };
        (Reverse(fused.score), ranks, fused.position)
    });
    fused.truncate(options.top_k);
    fused
}
