//! Selects the items that fit a model's context window, deterministically, with a reason for every item.
//!
//! The engine takes candidate items and a token budget. It returns the best selection that fits, in sending order, and
//! reports for every item why it is in or out. The same input gives the same bytes on every machine.
//!
//! ```
//! use pannier_core::place::UShapedPlacer;
//! use pannier_core::score::{CompositeScorer, KindScorer, RecencyScorer};
//! use pannier_core::{ContextBudget, ContextItem, ContextKind, Error, Pipeline};
//!
//! let items = vec![
//!     ContextItem::builder("You are a helpful assistant.", 6)
//!         .kind(ContextKind::SYSTEM_PROMPT)
//!         .pinned(true)
//!         .build()?,
//!     ContextItem::builder("How do I rotate the API key?", 8)
//!         .timestamp("2026-03-01T12:00:00Z".parse()?)
//!         .build()?,
//!     ContextItem::builder("API keys are rotated in Settings > Security.", 9)
//!         .kind(ContextKind::DOCUMENT)
//!         .build()?,
//!     ContextItem::builder("A very long changelog that nobody asked about ...", 4_000)
//!         .kind(ContextKind::DOCUMENT)
//!         .build()?,
//! ];
//! let scorer = CompositeScorer::builder()
//!     .add(RecencyScorer, 1.0)
//!     .add(KindScorer::default(), 1.0)
//!     .build()?;
//! let pipeline = Pipeline::builder(scorer).placer(UShapedPlacer).build();
//!
//! let selection = pipeline.run(&items, &ContextBudget::new(1_000, 800)?)?;
//! assert_eq!(selection.len(), 3);
//!
//! let report = selection.report();
//! assert_eq!(
//!     report.excluded[0].reason.to_string(),
//!     "BudgetExceeded: 4000 tokens requested, 777 available"
//! );
//! # Ok::<(), Error>(())
//! ```
//!
//! A run has six stages in a fixed order: classify, score, deduplicate, sort, slice, place. A [`Scorer`] assigns
//! relevance, a [`Slicer`] chooses the items that fit, a [`Placer`] orders them, and a [`Layout`] renders them. All four
//! are traits that you can implement. Scorers, slicers and placers have built-in implementations.
//!
//! Start with [`Pipeline`]. [`Selection::report`] has the reasons, [`Prepared`] runs several budgets, and
//! [`Pipeline::explain`] shows what would change the decision about one item.
//!
//! This crate does no input or output, reads no clock and starts no threads.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

#[macro_use(forward)]
extern crate pannier_text;

/// Implements `Debug` by name, for types with fields that have no `Debug`.
macro_rules! opaque_debug {
    ($($name:ident $(<$($generic:tt),+>)?),+ $(,)?) => {
        $(impl$(<$($generic),+>)? std::fmt::Debug for $name$(<$($generic),+>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        })+
    };
}

/// Declares the methods of a builder that set one field of the value in it.
macro_rules! setters {
    ($($(#[$docs:meta])* $field:ident: $type:ty => $value:expr;)+) => {
        $($(#[$docs])*
        pub fn $field(mut self, $field: $type) -> Self {
            self.0.$field = $value;
            self
        })+
    };
}

/// Writes a type as its text (`Display`) and reads it back (`FromStr`).
#[cfg(feature = "serde")]
macro_rules! serde_as_text {
    ($name:ident) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

mod analytics;
mod diagnostics;
mod error;
pub mod layout;
mod model;
mod order;
mod pipeline;
mod placer;
mod scorer;
mod slicer;
pub mod whatif;

/// Items, their forms and metadata, and budgets.
pub mod item {
    #[cfg(feature = "serde")]
    pub use crate::model::UncountedItem;
    pub use crate::model::{
        ContextBudgetBuilder, ContextItemBuilder, ContextSource, Deduplication, Floor, Form,
        FormName, FormWorths, Level, Metadata, MetadataValue, OverflowStrategy, Passage,
        PreviousPrompt, ScoredItem, Sent, SliceBudget, find_item, sum_tokens,
    };
    pub use pannier_text::Exactness;
}

/// Orders of sending: the built-in [placers](crate::Placer).
pub mod place {
    pub use crate::placer::{
        ChronologicalPlacer, DocumentPlacer, Placing, PrefixStablePlacer, RankPlacer,
        SliceOrderPlacer, UShapedPlacer,
    };
}

/// What a run did: reports with a reason for every item, and traces.
pub mod report {
    pub use crate::analytics::{QuotaLimit, QuotaUnit, QuotaUtilization};
    pub use crate::diagnostics::{
        DiagnosticTraceCollector, ExcludedItem, ExclusionReason, ExclusionVariant,
        FanOutTraceCollector, IncludedItem, InclusionReason, ItemDecision, ItemEvent, Note,
        NullTraceCollector, OverflowEvent, PipelineStage, ReportedItem, SelectionReport,
        StageCount, TraceCollector, TraceDetailLevel, TraceEvent, collect_runs,
    };
    pub use crate::slicer::CountRequirementShortfall;
}

/// Relevance: the built-in [scorers](crate::Scorer), and what custom ones read.
pub mod score {
    pub use crate::scorer::{
        Bm25Scorer, ByKindScorer, ByKindScorerBuilder, CompositeScorer, CompositeScorerBuilder,
        DecayCurve, DecayScorer, FnScorer, FrequencyScorer, KeywordScorer, KindScorer,
        MetadataKeyScorer, MetadataTrustScorer, Pool, PrefixStabilityScorer, PriorityScorer,
        ProductScorer, ProductScorerBuilder, RecencyScorer, ReflexiveScorer, ScaledScorer,
        ScoreExplanation, SumScorer, SumScorerBuilder, TagScorer, TimeProvider,
    };
}

/// Choices within a budget: the built-in [slicers](crate::Slicer), and what custom ones read and write.
pub mod slice {
    pub use crate::slicer::{
        BestSlice, Candidate, CountConstrainedKnapsackSlice, CountQuotaEntry, CountQuotaSlice,
        FairSlice, FillOrder, FillSlice, GreedySlice, KnapsackSlice, Move, Offer, Offers, Quota,
        QuotaSlice, Release, ScarcityBehavior, Share, SlicerProperties, StreamOutcome, StreamSlice,
        SweepRequest, SweepResult, Tally, TargetRanges, Tier, TieredSlice, Verdict,
    };
}

pub use error::{Error, ErrorKind, ForeignError};
pub use layout::Layout;
pub use model::{ContextBudget, ContextItem, ContextKind, Timestamp};
pub use pannier_text::TokenCounter;
pub use pipeline::{Explanation, Pipeline, PipelineBuilder, Prepared, Selection};
pub use placer::Placer;
pub use scorer::Scorer;
pub use slicer::Slicer;

// The crate itself uses every name from its root.
#[allow(unused_imports)]
use {item::*, layout::*, place::*, report::*, score::*, slice::*, whatif::*};
