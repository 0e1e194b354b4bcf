//! Assembles the passages that answer a query into a context that fits a budget.
//!
//! Passages are found in a [`DocumentIndex`](crate::DocumentIndex), ranked, freed of what says the same, packed, and written under
//! the names of their documents. What is packed is the engine's decision, by a [policy](crate::AssemblyConfig::policy) that
//! could be written down, so that every passage that is left out has its reason.
//!
//! ```
//! use pannier_docs::{
//!     Assembler, AssemblyConfig, BuildOptions, DocumentIndex, QueryVector, DocumentSource, TokenBudget, build,
//! };
//!
//! # let folder = std::env::temp_dir().join(format!("pannier-assembly-{}", std::process::id()));
//! # let (docs, cache) = (folder.join("docs"), folder.join("cache"));
//! # std::fs::create_dir_all(&docs)?;
//! std::fs::write(docs.join("deploy.md"), "Deploy on any day but Friday.\n")?;
//! std::fs::write(docs.join("lunch.md"), "The canteen closes at two.\n")?;
//! build(&DocumentSource::new(&docs), &cache, &BuildOptions::default(), &mut |_| {})?;
//!
//! let cache = DocumentIndex::open(&cache)?;
//! let assembler = Assembler::new(&cache, AssemblyConfig::default());
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
mod context_cache;

pub use assembler::{Assembler, verify_determinism};
pub use budget::TokenBudget;
pub use candidates::Candidates;
pub use config::AssemblyConfig;
pub use context::{AssembledContext, ContextChunk, OmittedChunk, OmittedReason};
pub use context_cache::ContextCache;
