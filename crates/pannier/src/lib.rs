//! Packs the right context into a model's window: one engine, and front ends for chats, documents, memories and snippets.
//!
//! This crate is a facade. The root has the names that a first selection needs, [`engine`] has all of the engine, and each
//! front end is a module behind a feature of the same name. Depend on a single crate, such as `pannier-core`, if you need only
//! that.
//!
//! ```
//! use pannier::*;
//!
//! let items = vec![
//!     ContextItem::builder("You are a helpful assistant.", 6)
//!         .kind(ContextKind::SYSTEM_PROMPT)
//!         .pinned(true)
//!         .build()?,
//!     ContextItem::builder("API keys are rotated in Settings > Security.", 9).build()?,
//!     ContextItem::builder("A very long changelog that nobody asked about ...", 4_000).build()?,
//! ];
//! let pipeline = Pipeline::builder(RecencyScorer).build();
//! let selection = pipeline.run(&items, &ContextBudget::new(1_000, 800)?)?;
//! assert_eq!(selection.len(), 2);
//! # Ok::<(), Error>(())
//! ```

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

mod advice;
mod failure;
pub mod ops;
mod shelf;

pub use advice::Audience;
pub use failure::{Category, Failure};
pub use shelf::{Defaults, FolderKind, NamedFolder, Shelf, ShelfError};

pub use pannier_core::{
    CompositeScorer, ContextBudget, ContextItem, ContextKind, Error, GreedySlice, KnapsackSlice,
    Pipeline, RecencyScorer, ReflexiveScorer, Selection, SelectionReport, Timestamp, TokenCounter,
    UShapedPlacer,
};
pub use pannier_policy::{Policy, PolicyRegistry};

#[cfg(feature = "chat")]
pub use pannier_chat as chat;
pub use pannier_core as engine;
#[cfg(feature = "docs")]
pub use pannier_docs as docs;
#[cfg(feature = "embed")]
pub use pannier_embed as embed;
pub use pannier_layout as layout;
#[cfg(feature = "memory")]
pub use pannier_memory as memory;
pub use pannier_policy as policy;
#[cfg(feature = "snippets")]
pub use pannier_snippets as snippets;
pub use pannier_tokens as tokens;
