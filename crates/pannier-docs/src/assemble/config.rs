//! The configuration of context assembly.

use pannier_core::item::{Deduplication, Floor};
use pannier_policy::{DocumentOptions, Packing, PlacerPolicy, Policy, ScorerPolicy};
use serde::{Deserialize, Serialize};

use crate::{Fusion, Ranking, Reranking, SearchOptions};

/// The number of best passages that are cut rather than skipped.
const SHORTENED_FIRST: usize = 2;

/// The options of search, deduplication, packing and rendering.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct AssemblyConfig {
    /// The search.
    pub search: SearchOptions,
    /// The order in which passages are taken and placed.
    pub packing: Packing,
    /// The power of its tokens by which the score of a passage is divided when passages are taken. Range 0–1; default 0.1.
    pub length_exponent: f64,
    /// Cuts passages that do not fit to their best sentences, and marks gaps by `[…]`. Default: yes.
    pub windows: bool,
    /// The share of a passage's shingles, in thousandths, above which a higher-ranked passage makes it a near-duplicate. Range
    /// 0–1000; default 800.
    pub dedup_threshold: u16,
    /// The maximum number of passages per document. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_chunks_per_doc: Option<usize>,
    /// The share of the best score below which passages are left out. Range 0–1; default: no floor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_score: Option<f64>,
    /// The policy to pack passages by, in place of the options above. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// Selects each passage together with its neighbors, or not at all. Default: no.
    #[serde(rename = "neighbours")]
    pub neighbors: bool,
    /// Adds headings, dates and term scores to the result. Default: no.
    pub include_metadata: bool,
    /// The recorded scores of a reranker. A receipt has them, so that a replay needs no reranker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reranking: Option<Reranking>,
    /// The recorded vector of the query, if its embedder is not reproducible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_vector: Option<Vec<i16>>,
}

impl Default for AssemblyConfig {
    fn default() -> Self {
        Self {
            search: SearchOptions::default(),
            packing: Packing::Greedy,
            length_exponent: 0.1,
            windows: true,
            dedup_threshold: 800,
            max_chunks_per_doc: None,
            min_score: None,
            policy: None,
            neighbors: false,
            include_metadata: false,
            reranking: None,
            query_vector: None,
        }
    }
}

impl AssemblyConfig {
    /// Returns the configuration that the policy `assemble` specifies: plain BM25, reciprocal rank fusion, whole passages by
    /// score.
    pub fn specified() -> Self {
        let search = SearchOptions {
            ranking: Ranking::Body,
            fusion: Fusion::Rrf,
            ..SearchOptions::default()
        };
        Self { search, length_exponent: 0.0, windows: false, ..Self::default() }
    }

    /// Returns the engine's policy for packing passages.
    pub fn policy(&self, per_doc_overhead: usize) -> Policy {
        let placer = match self.packing {
            Packing::Greedy => PlacerPolicy::Document,
            _ => PlacerPolicy::SliceOrder,
        };
        if let Some(policy) = &self.policy {
            return policy.clone();
        }
        let policy = Policy::new([(ScorerPolicy::Reflexive, 1.0)])
            .with_name(if self.windows { "search" } else { "assemble" })
            .with_slicer(DocumentOptions {
                packing: self.packing,
                overhead: i64::try_from(per_doc_overhead).unwrap_or(i64::MAX),
                max_per_document: self.max_chunks_per_doc,
                length_exponent: self.length_exponent,
                shortened_first: if self.windows { SHORTENED_FIRST } else { 0 },
            })
            .with_placer(placer)
            .with_deduplication(Deduplication::NearDuplicates {
                threshold: f64::from(self.dedup_threshold.min(1_000)) / 1_000.0,
            });
        match self.min_score {
            Some(share) => policy.with_floor(Floor::ShareOfBest(share)),
            None => policy,
        }
    }
}
