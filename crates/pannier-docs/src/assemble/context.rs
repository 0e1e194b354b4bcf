//! The result of context assembly: the text, its passages, and the omitted ones with reasons.

use std::ops::Range;

use pannier_core::ContextItem;
use pannier_core::item::Passage;
use pannier_core::report::{ExcludedItem, ExclusionReason};
use serde::Serialize;

use crate::Hit;

/// An assembled context.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AssembledContext {
    /// BLAKE3 of the query.
    pub query_hash: String,
    /// The version of the index.
    pub state_root: String,
    /// The tokens that were available for passages.
    pub available_tokens: usize,
    /// The token count of the passages.
    pub total_tokens: usize,
    /// The token count of heading lines and separators.
    pub overhead_tokens: usize,
    /// Whether the best passage was truncated because none fits whole.
    pub truncated: bool,
    /// The selected passages, in sending order.
    pub chunks: Vec<ContextChunk>,
    /// The omitted passages, best first.
    pub omitted: Vec<OmittedChunk>,
    /// The rendered text.
    pub text: String,
}

/// A selected passage.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ContextChunk {
    /// The id of the chunk.
    pub chunk_id: String,
    /// The path of its document.
    pub document_path: String,
    /// Its position among the chunks of its document, from 0.
    pub sequence: u32,
    /// Its start in the document, in bytes.
    pub start: usize,
    /// Its end in the document, in bytes.
    pub end: usize,
    /// The bytes of the document that it has, if it is cut to some sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<Range<usize>>,
    /// Its fused score; 0 for a neighbor.
    pub score: u64,
    /// Its lexical rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lexical: Option<RankedScore>,
    /// Its semantic rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub semantic: Option<RankedScore>,
    /// Its rank by the reranker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reranker: Option<RankedScore>,
    /// Its token count.
    pub tokens: i64,
    /// Its text.
    pub text: String,
    /// More fields, if the configuration includes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ChunkMetadata>,
}

/// A rank and its score.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RankedScore {
    /// The rank, from 1.
    pub rank: u32,
    /// The score.
    pub score: f64,
}

/// More fields of a passage.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ChunkMetadata {
    /// Its headings, from the outermost.
    pub context: String,
    /// The date of its document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// The contribution of each query term to its lexical score.
    pub terms: Vec<crate::TermScore>,
}

/// An omitted passage.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct OmittedChunk {
    /// The id of the chunk.
    pub chunk_id: String,
    /// The path of its document.
    pub document_path: String,
    /// Its position among the chunks of its document, from 0.
    pub sequence: u32,
    /// Its start in the document, in bytes.
    pub start: usize,
    /// Its end in the document, in bytes.
    pub end: usize,
    /// Its fused score.
    pub score: u64,
    /// Its token count.
    pub tokens: i64,
    /// The reason.
    #[serde(flatten)]
    pub reason: OmittedReason,
}

/// The reason why a passage was omitted.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum OmittedReason {
    /// A duplicate or near-duplicate of another passage.
    Duplicate {
        /// `Deduplicated` or `NearDuplicate`.
        reason: String,
        /// The id of the other passage.
        duplicate_of: String,
    },
    /// Any other reason of the engine.
    Other(ExclusionReason),
}

impl ContextChunk {
    /// Returns the bytes of the document that it has.
    pub fn spans(&self) -> Vec<Range<usize>> {
        match self.spans.is_empty() {
            true => std::iter::once(self.start..self.end).collect(),
            false => self.spans.clone(),
        }
    }

    pub(crate) fn new(
        hit: &Hit,
        item: &ContextItem,
        spans: Vec<Range<usize>>,
        include_metadata: bool,
    ) -> Self {
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
            // A truncated passage ends earlier.
            end: Passage::from_item(item)
                .map_or(hit.range.end, |passage| passage.range.end as usize),
            spans,
            score: hit.score,
            lexical: hit
                .lexical
                .as_ref()
                .map(|hit| RankedScore { rank: hit.rank, score: hit.score }),
            semantic: hit
                .semantic
                .as_ref()
                .map(|hit| RankedScore { rank: hit.rank, score: hit.score }),
            reranker: hit
                .reranker
                .as_ref()
                .map(|hit| RankedScore { rank: hit.rank, score: hit.score }),
            tokens: item.tokens(),
            text: item.content().to_owned(),
            metadata: include_metadata.then(metadata),
        }
    }
}

impl OmittedChunk {
    /// Creates an entry. The engine names a duplicate by its content, this names it by its id.
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
