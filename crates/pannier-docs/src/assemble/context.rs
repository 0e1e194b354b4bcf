//! What comes out: passages in the order they are sent, the text of them, and what was left out, with the reasons.

use pannier_core::{ContextItem, ExcludedItem, ExclusionReason, Passage};
use serde::Serialize;

use crate::{Hit, LexicalScore, SemanticScore};

/// A context for a query.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AssembledContext {
    /// BLAKE3 of the query.
    pub query_hash: String,
    /// The version of the cache: every document, its date, its chunks, and the model of the vectors.
    pub state_root: String,
    /// How many tokens there were.
    pub available_tokens: usize,
    /// What the passages cost by themselves.
    pub total_tokens: usize,
    /// What is charged for the lines that name documents, and between passages.
    pub overhead_tokens: usize,
    /// Whether a passage was cut, because none fits as a whole.
    pub truncated: bool,
    /// The passages, in the order they are sent.
    pub chunks: Vec<ContextChunk>,
    /// The passages that were found and left out, best first.
    pub omitted: Vec<OmittedChunk>,
    /// What is sent.
    pub text: String,
}

/// A passage of a context.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ContextChunk {
    /// What it is called.
    pub chunk_id: String,
    /// The path of its document.
    pub document_path: String,
    /// Its number among the passages of its document.
    pub sequence: u32,
    /// Where it begins in the document, in bytes.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// Its fused score; a neighbour has none.
    pub score: u64,
    /// How it was found by its words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lexical: Option<RankedScore>,
    /// How it was found by its vector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub semantic: Option<RankedScore>,
    /// What it costs by itself.
    pub tokens: i64,
    /// Its text.
    pub text: String,
    /// What else is known, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ChunkMetadata>,
}

/// A rank, from 1, and the score behind it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RankedScore {
    /// The rank.
    pub rank: u32,
    /// The score.
    pub score: f64,
}

/// What is known about a passage.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ChunkMetadata {
    /// The headings it stands under.
    pub context: String,
    /// When its document was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// What each term of the query adds to its score by words.
    pub terms: Vec<crate::TermScore>,
}

/// A passage that was found and left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct OmittedChunk {
    /// What it is called.
    pub chunk_id: String,
    /// The path of its document.
    pub document_path: String,
    /// Its number among the passages of its document.
    pub sequence: u32,
    /// Where it begins in the document, in bytes.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// Its fused score.
    pub score: u64,
    /// What it costs by itself.
    pub tokens: i64,
    /// Why it was left out.
    #[serde(flatten)]
    pub reason: OmittedReason,
}

/// Why a passage was left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum OmittedReason {
    /// Another one says the same.
    Duplicate {
        /// `Deduplicated` or `NearDuplicate`.
        reason: String,
        /// The one that says the same.
        duplicate_of: String,
    },
    /// Whatever else the engine says.
    Other(ExclusionReason),
}

impl From<&LexicalScore> for RankedScore {
    fn from(score: &LexicalScore) -> Self {
        Self { rank: score.rank, score: score.score }
    }
}

impl From<&SemanticScore> for RankedScore {
    fn from(score: &SemanticScore) -> Self {
        Self { rank: score.rank, score: score.score }
    }
}

impl ContextChunk {
    pub(crate) fn new(hit: &Hit, item: &ContextItem, include_metadata: bool) -> Self {
        let metadata = || ChunkMetadata {
            context: hit.heading_path.clone(),
            date: hit.date.map(|date| date.to_string()),
            terms: hit.lexical.as_ref().map(|lexical| lexical.terms.clone()).unwrap_or_default(),
        };
        Self {
            chunk_id: hit.id.clone(),
            document_path: hit.path.clone(),
            sequence: hit.sequence,
            start: hit.range.start,
            // Before that of the passage, if it was cut.
            end: Passage::from_item(item)
                .map_or(hit.range.end, |passage| passage.range.end as usize),
            score: hit.score,
            lexical: hit.lexical.as_ref().map(RankedScore::from),
            semantic: hit.semantic.as_ref().map(RankedScore::from),
            tokens: item.tokens(),
            text: item.content().to_owned(),
            metadata: include_metadata.then(metadata),
        }
    }
}

impl OmittedChunk {
    /// Names the passage that was kept for this one by its id, where the engine names it by its content.
    pub(crate) fn new(
        hit: &Hit,
        excluded: ExcludedItem<&ContextItem>,
        pool: &[ContextItem],
    ) -> Self {
        let name = excluded.reason.name().to_owned();
        let reason = match excluded.reason {
            ExclusionReason::Deduplicated { deduplicated_against: content }
            | ExclusionReason::NearDuplicate { near_duplicate_of: content, .. } => {
                let kept = pool.iter().find(|item| *item.content() == *content);
                let duplicate_of = kept.and_then(ContextItem::id).unwrap_or_default().to_owned();
                OmittedReason::Duplicate { reason: name, duplicate_of }
            }
            other => OmittedReason::Other(other),
        };
        Self {
            chunk_id: hit.id.clone(),
            document_path: hit.path.clone(),
            sequence: hit.sequence,
            start: hit.range.start,
            end: hit.range.end,
            score: hit.score,
            tokens: excluded.item.tokens(),
            reason,
        }
    }
}
