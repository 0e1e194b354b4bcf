//! Context assembly: from a query to the passages that fit a token budget.
//!
//! Pannier searches a [`DocumentIndex`](crate::DocumentIndex), removes near-duplicates, packs passages into the budget and
//! renders them under the names of their documents. The engine packs by a [policy](crate::AssemblyConfig::policy), so every
//! omitted passage has a reason, and a receipt replays the selection.
//!
//! ```
//! use pannier_docs::{
//!     Assembler, AssemblyConfig, BuildOptions, DocumentIndex, DocumentSource, QueryVector, TokenBudget, build,
//! };
//!
//! # let folder = std::env::temp_dir().join(format!("pannier-assembly-{}", std::process::id()));
//! # let (docs, path) = (folder.join("docs"), folder.join("index"));
//! # std::fs::create_dir_all(&docs)?;
//! std::fs::write(docs.join("deploy.md"), "Deploy on any day but Friday.\n")?;
//! std::fs::write(docs.join("lunch.md"), "The canteen closes at two.\n")?;
//! build(&DocumentSource::new(&docs), &path, &BuildOptions::default(), &mut |_| {})?;
//!
//! let index = DocumentIndex::open(&path)?;
//! let assembler = Assembler::new(&index, AssemblyConfig::default());
//! let context = assembler.assemble("when do we deploy?", &TokenBudget::available(100), QueryVector::None)?;
//! assert_eq!(context.text, "[DOC: deploy.md]\nDeploy on any day but Friday.\n");
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod assembler;
mod budget;
mod candidates;
mod config;
mod context;
mod window;

pub use assembler::{Assembler, verify_determinism};
pub use budget::TokenBudget;
pub use candidates::{Candidates, PassageSpans};
pub use config::AssemblyConfig;
pub use context::{AssembledContext, ContextChunk, OmittedChunk, OmittedReason};
