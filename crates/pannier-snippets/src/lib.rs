//! Snippets: Markdown files with front matter, listed first and fetched second, with their dependencies.
//!
//! The front matter of a snippet declares its id, description, type, scope and the snippets that it requires. [`index`]
//! writes the front matter of all files of a folder to one index file. An agent reads the
//! [list](SnippetCatalog::list) and [gets](SnippetCatalog::get) whole texts in topological order.
//!
//! ```
//! use pannier_snippets::*;
//! use pannier_tokens::BytesOverFour;
//!
//! # let folder = std::env::temp_dir().join(format!("pannier-snippets-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! let file = |id: &str, rest: &str| {
//!     format!("---\nid: {id}\ndescription: How we row.\ntype: policy\nscope: global\n{rest}---\nRow east.\n")
//! };
//! std::fs::write(folder.join("boats.md"), file("boats", ""))?;
//! std::fs::write(folder.join("row.md"), file("row", "requires: [boats]\n"))?;
//!
//! let roots = Roots::open([&folder], None)?;
//! index(&roots, &BytesOverFour)?;
//! let indexes = SnippetIndexes::read(roots)?;
//! let catalog = indexes.catalog()?;
//! let list = catalog.list(&ListOptions::default(), &BytesOverFour)?;
//! assert_eq!(list.snippets[1].id, "row");
//!
//! let ids = [SnippetId::new("row")?];
//! let response = catalog.get(&ids, &GetOptions::default(), &BytesOverFour)?;
//! let GetResponse::Snippets(bundle) = response else { unreachable!() };
//! assert_eq!(bundle.added[0].id, "boats");
//! assert!(bundle.render(ContextFormat::Text).ends_with("[SNIPPET: row]\nRow east.\n"));
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

mod catalog;
mod check;
mod drop_advice;
mod error;
mod front_matter;
mod get;
mod graph;
mod id;
mod index;
mod kind;
mod list;
mod reference;
mod render;
mod required_reads;
mod root;
mod scan;
mod session;
mod suggest;
#[cfg(test)]
mod test;
mod text;
mod text_hash;
mod warning;
mod yaml;

pub use catalog::{Snippet, SnippetCatalog, SnippetIndexes};
pub use check::{CheckReport, check};
pub use error::{DuplicateId, OverBudget, SnippetCost, SnippetsError, UnknownId};
pub use get::{
    AddedDependency, ContextFormat, GetOptions, GetResponse, SentSnippet, SnippetBundle,
};
pub use id::SnippetId;
pub use index::{IndexSummary, index};
pub use kind::{Scope, SnippetType};
pub use list::{ListFormat, ListOptions, SnippetList, SnippetSummary};
pub use pannier_files::SessionId;
pub use reference::Alias;
pub use root::{Root, Roots};
pub use scan::Problem;
pub use session::DeliveryLog;
pub use text::Body;
pub use text_hash::TextHash;
pub use warning::Warning;
