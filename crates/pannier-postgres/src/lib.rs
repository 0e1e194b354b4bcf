//! A collection of documents in PostgreSQL with pgvector, searched like an index folder.
//!
//! [`Database`] writes collections, and opens them as a [`Snapshot`]: a [`Corpus`](pannier_docs::Corpus) that sees one version of
//! every document. The code of `pannier-docs` cuts documents, analyzes them and scores them. SQL only narrows: it returns a
//! superset of the best chunks by upper bounds, and the exact scores decide. So a query ranks the same chunks in the same order as
//! in a folder with the same documents, to the bit.
//!
//! | table | a row is |
//! |---|---|
//! | `pannier.collection` | a collection with its settings |
//! | `pannier.document` | a document with its text |
//! | `pannier.chunk` | the location and the headings of a chunk |
//! | `pannier.posting` | the occurrences of a term in a document, with bounds on its score |
//! | `pannier.embedding` | the vector of a chunk |
//! | `pannier.delta` | a change of the collection's statistics |
//!
//! ```no_run
//! use pannier_docs::{BuildOptions, Corpus, DocumentSource, QueryVector, SearchOptions};
//! use pannier_postgres::Database;
//!
//! let database = Database::new("postgres://docs@db.example.org/team?collection=handbook")?;
//! database.build(&DocumentSource::new("handbook"), &BuildOptions::default(), &mut |_| {})?;
//! let hits = database.snapshot()?.search("deploy on Fridays", &SearchOptions::default(), QueryVector::None)?;
//! # Ok::<(), pannier_docs::DocsError>(())
//! ```

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

mod address;
mod batch;
mod collection;
mod connection;
mod copy;
mod database;
mod embed;
mod filter;
mod lexical;
mod load;
mod schema;
mod snapshot;
mod statistics;
mod tls;
mod vectors;
mod verify;

pub use address::is_address;
pub use database::Database;
pub use snapshot::Snapshot;
pub use vectors::{EXACT_MAX_CHUNKS, MAX_DIMENSIONS};
