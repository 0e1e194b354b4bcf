//! Pipelines as data.
//!
//! A [`Policy`] names the scorers, the slicer and the placer of a pipeline, with their options. It is read from and
//! written to TOML or JSON, and carries no budget. A [`PolicyRegistry`] holds the presets and custom components by name.
//! With the feature `receipt`, a `Receipt` records a run so that it can be replayed and compared.
//!
//! This crate does no input or output, reads no clock and starts no threads.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

mod policy;
#[cfg(feature = "receipt")]
mod receipt;
mod sensitivity;

pub use policy::{
    CurvePolicy, Moment, Packing, PlacerPolicy, Policy, PolicyRegistry, ScorerPolicy, SlicerPolicy,
};
#[cfg(feature = "receipt")]
pub use receipt::{
    Bound, Circumstances, DiffEntry, Digest, Receipt, ReceiptDiff, ReceiptItem, ReceiptSource,
    Replay,
};
pub use sensitivity::policy_sensitivity;
