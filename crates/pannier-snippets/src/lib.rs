//! Documentation with front matter, found first and fetched second, with everything that it requires.
//!
//! A snippet is a Markdown file that says what it is: its id, a description, its type, how far it reaches, and which others
//! must be read before it. [`index`] gathers that of a folder in one file. An agent looks at the [listing](SnippetCatalog::list)
//! and then [gets](SnippetCatalog::get) what it needs, whole, in an order in which nothing comes before what it requires.
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
//! let listing = catalog.list(&ListOptions::default(), &BytesOverFour)?;
//! assert_eq!(listing.snippets[1].id, "row");
//!
//! let ids = [SnippetId::new("row")?];
//! let answer = catalog.get(&ids, &GetOptions::default(), &BytesOverFour)?;
//! let GetResponse::Snippets(context) = answer else { unreachable!() };
//! assert_eq!(context.added[0].id, "boats");
//! assert!(context.render(ContextFormat::Text).ends_with("[SNIPPET: row]\nRow east.\n"));
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
mod id_table;
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
pub use check::check;
pub use error::{DuplicateId, OverBudget, SnippetCost, SnippetsError, UnknownId};
pub use get::{
    AddedDependency, ContextFormat, GetOptions, GetResponse, SentSnippet, SnippetBundle,
};
pub use id::SnippetId;
pub use index::{IndexSummary, index};
pub use kind::{Scope, SnippetType};
pub use list::{ListOptions, SnippetList, SnippetSummary};
pub use pannier_files::SessionId;
pub use root::{Root, Roots};
pub use scan::Problem;
pub use session::DeliveryLog;
pub use text::Body;
pub use text_hash::TextHash;
pub use warning::Warning;
