//! How a context is assembled, besides the query and the budget.

use pannier_core::Deduplication;
use pannier_policy::{DocumentOptions, Packing, PlacerPolicy, Policy, ScorerPolicy};
use serde::{Deserialize, Serialize};

use crate::SearchOptions;

/// How passages are found, freed of what says the same, packed and written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct AssemblyConfig {
    /// How passages are found.
    pub search: SearchOptions,
    /// In which order passages are taken, and how they are laid out.
    pub packing: Packing,
    /// Above which share, in thousandths, what a passage has in common with a better one makes it superfluous.
    pub dedup_threshold: u16,
    /// How many passages of one document may be taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_chunks_per_doc: Option<usize>,
    /// Takes the passages before and after each one with it, or none of them.
    #[serde(rename = "neighbours")]
    pub neighbors: bool,
    /// Tells headings, dates and the terms that were found.
    pub include_metadata: bool,
}

impl Default for AssemblyConfig {
    fn default() -> Self {
        Self {
            search: SearchOptions::default(),
            packing: Packing::Greedy,
            dedup_threshold: 800,
            max_chunks_per_doc: None,
            neighbors: false,
            include_metadata: false,
        }
    }
}

impl AssemblyConfig {
    /// The policy of the engine that packs passages.
    pub fn policy(&self, per_doc_overhead: usize) -> Policy {
        let placer = match self.packing {
            Packing::Greedy => PlacerPolicy::Document,
            _ => PlacerPolicy::SliceOrder,
        };
        Policy::new([(ScorerPolicy::Reflexive, 1.0)])
            .with_name("assemble")
            .with_slicer(DocumentOptions {
                packing: self.packing,
                overhead: i64::try_from(per_doc_overhead).unwrap_or(i64::MAX),
                max_per_document: self.max_chunks_per_doc,
            })
            .with_placer(placer)
            .with_deduplication(Deduplication::Near { threshold: self.dedup_threshold.min(1_000) })
    }
}
