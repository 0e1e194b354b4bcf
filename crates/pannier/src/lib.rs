//! Packs the right context into a model's window: one engine, and front ends for chats, documents, memories and snippets.
//!
//! This crate is a facade. The root has the names that a first selection needs, [`ops`] has the operations of the command
//! and of the server, [`engine`] has all of the engine, and each front end is a module behind a feature of the same name.
//! Depend on a single crate, such as `pannier-core`, if you need only that.
//!
//! # Trim a chat
//!
//! ```
//! # #[cfg(feature = "chat")] {
//! use pannier::chat::{Provider, Transcript};
//! use pannier::*;
//!
//! let messages = r#"[
//!     { "role": "user", "content": "Hello! I am looking for a book about bridges, or rather about two." },
//!     { "role": "assistant", "content": "There are many. Old ones or new ones?" },
//!     { "role": "user", "content": "Old ones." }
//! ]"#;
//! let counter = tokens::counter_by_name("script")?;
//! let transcript = Transcript::read(Provider::OpenAi, messages, &counter)?;
//! let registry = PolicyRegistry::default();
//! let trimmer = transcript.trimmer(&registry, registry.policy("transcript")?, None)?;
//! let trimmed = trimmer.trim(&ContextBudget::new(30, 30)?)?;
//! assert_eq!(trimmed.json(), r#"[{"role":"user","content":"Old ones."}]"#);
//! # }
//! # Ok::<(), pannier::Failure>(())
//! ```
//!
//! # Pack retrieved chunks
//!
//! ```
//! use pannier::*;
//!
//! let hits = [("Refunds take five days.", 0.9), ("We ship on Mondays.", 0.3), ("A page about our whole company and its history ...", 0.1)];
//! let counter = tokens::counter_by_name("script")?;
//! let item = |(text, score): &(&str, f64)| {
//!     let item = ContextItem::builder(*text, counter.count(text) as i64);
//!     item.kind(ContextKind::DOCUMENT).future_relevance_hint(*score).build()
//! };
//! let items: Vec<ContextItem> = hits.iter().map(item).collect::<Result<_, _>>()?;
//!
//! let registry = PolicyRegistry::default();
//! let pipeline = registry.pipeline(registry.policy("rag")?, None)?;
//! let selection = pipeline.run(&items, &ContextBudget::new(8, 8)?)?;
//! assert_eq!(layout::Template::default().render(&selection), "Refunds take five days.\n");
//! # Ok::<(), Failure>(())
//! ```
//!
//! # Select with a scorer of your own
//!
//! ```
//! use pannier::*;
//!
//! let notes = ["todo: rotate the key", "lunch at noon", "todo: reply to Ann"];
//! let items = notes.map(|note| ContextItem::new(note, 5)).into_iter().collect::<Result<Vec<_>, _>>()?;
//! let scorer = engine::score::FnScorer(|item: &ContextItem| f64::from(item.content().starts_with("todo")));
//! let pipeline = Pipeline::builder(scorer).build();
//!
//! let selection = pipeline.run(&items, &ContextBudget::new(10, 10)?)?;
//! assert_eq!(selection.indices().collect::<Vec<_>>(), [0, 2]);
//! println!("{}", selection.report().excluded[0].reason);
//! # Ok::<(), Error>(())
//! ```

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(all(doctest, feature = "chat", feature = "docs"))]
#[doc = include_str!("../../../docs/tutorial-rust.md")]
struct Tutorial;

mod advice;
mod failure;
pub mod ops;
mod shelf;

pub use advice::Audience;
pub use failure::{Category, Failure};
pub use shelf::{Defaults, FolderKind, NamedFolder, NamedSettings, Shelf, ShelfError};

pub use pannier_core::place::UShapedPlacer;
pub use pannier_core::report::SelectionReport;
pub use pannier_core::score::{CompositeScorer, RecencyScorer, ReflexiveScorer};
pub use pannier_core::slice::{GreedySlice, KnapsackSlice};
pub use pannier_core::{
    ContextBudget, ContextItem, ContextKind, Error, Pipeline, Selection, Timestamp, TokenCounter,
};
pub use pannier_policy::{Policy, PolicyRegistry};

#[cfg(feature = "chat")]
pub use pannier_chat as chat;
pub use pannier_core as engine;
#[cfg(feature = "docs")]
pub use pannier_docs as docs;
#[cfg(feature = "embed")]
pub use pannier_embed as embed;
#[cfg(feature = "http")]
pub use pannier_http as http;
pub use pannier_layout as layout;
#[cfg(feature = "memory")]
pub use pannier_memory as memory;
pub use pannier_policy as policy;
#[cfg(feature = "snippets")]
pub use pannier_snippets as snippets;
pub use pannier_tokens as tokens;
