//! Pipelines as data.
//!
//! A [`Policy`] names the scorers, the slicer and the placer of a pipeline, with their options. It is read from and
//! written to TOML or JSON, and carries no budget. A [`PolicyRegistry`] holds the presets and custom components by name.
//! With the feature `receipt`, a `Receipt` records a run so that it can be replayed and compared.
//!
//! This crate does no input or output, reads no clock and starts no threads.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

mod component;
mod layout;
mod placer;
mod policy;
#[cfg(feature = "receipt")]
mod receipt;
mod registry;
#[cfg(feature = "schema")]
mod schema;
mod scorer;
mod sensitivity;
mod session;
mod slicer;
mod tree;

pub use layout::LayoutPolicy;
pub use placer::PlacerPolicy;
pub use policy::{FloorOptions, Policy};
#[cfg(feature = "receipt")]
pub use receipt::{
    BudgetScope, DiffEntry, Digest, Receipt, ReceiptDiff, ReceiptItem, ReceiptSource, Replay,
    RunConfig, SourceRun,
};
pub use registry::{CustomOptions, PolicyInputs, PolicyRegistry};
pub use scorer::{
    Bm25Options, ByKindOptions, CompositeOptions, CurvePolicy, DecayOptions, ExponentialOptions,
    KeywordOptions, KindOptions, KindWeight, KindsScorer, MetadataKeyOptions, MetadataTrustOptions,
    ProductOptions, ScaledOptions, ScorerPolicy, StepOptions, StepWindow, SumOptions, TagOptions,
    TagWeight, WeightedScorer, WindowOptions,
};
pub use sensitivity::{
    ItemStatus, PolicySensitivityDiffEntry, PolicySensitivityReport, pipeline_sensitivity,
    policy_sensitivity,
};
pub use session::{SessionOptions, SessionPrices, SessionWeights};
pub use slicer::{
    CountConstrainedKnapsackOptions, CountQuotaOptions, DocumentOptions, FairOptions, FillOptions,
    KindCount, KindQuota, KindShare, KnapsackOptions, Packing, QuotaOptions, SlicerPolicy,
    TierOptions, TieredOptions,
};
