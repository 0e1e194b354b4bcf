//! Errors of document folders, indexes and searches.
//!
//! An error names paths and problems, never commands or flags: the caller knows how its user can act.

use std::io;
use std::path::{Path, PathBuf};

use pannier_core::Error;

use crate::EmbedderError;

/// The reason why an index cannot be built or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DocsError {
    /// The document folder does not exist.
    #[error("there is no document folder at {}", path.display())]
    NoSources {
        /// The folder.
        path: PathBuf,
    },

    /// Some documents cannot be indexed.
    #[error(
        "{} cannot be indexed, and nothing was changed:\n{}",
        if problems.len() == 1 { "a document".to_owned() } else { format!("{} documents", problems.len()) },
        problems.join("\n")
    )]
    Sources {
        /// One line for each document: its path, and what is wrong with it.
        problems: Vec<String>,
    },

    /// A glob pattern is malformed.
    #[error("'{pattern}' is not a glob pattern: {problem}; write it as in *.txt or notes/**/*.md")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        problem: String,
    },

    /// The index does not exist.
    #[error("there is no index at {}", path.display())]
    NoIndex {
        /// Its path.
        path: PathBuf,
    },

    /// The folder for an index contains something else.
    #[error("{} is not empty and not an index; choose another folder", path.display())]
    NotAnIndex {
        /// The folder.
        path: PathBuf,
    },

    /// A file of the index is damaged.
    #[error("the index is damaged: {}: {problem}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },

    /// The index was built with other rules of chunking or text analysis.
    #[error("the index at {} was built by another version of Pannier or of Unicode", path.display())]
    Outdated {
        /// The index.
        path: PathBuf,
    },

    /// The vectors of the index and those of the request do not match.
    #[error("{}: {problem}", path.display())]
    Model {
        /// The index.
        path: PathBuf,
        /// What does not match, and what to do.
        problem: String,
    },

    /// A semantic search needs vectors, and the index has none.
    #[error("{}: the index has no vectors; build it with an embedder, or use lexical search", path.display())]
    NoVectors {
        /// The index.
        path: PathBuf,
    },

    /// A line of imported vectors is malformed.
    #[error(
        "line {line} of the vectors: {problem}; write each as {{\"id\": \"…\", \"vector\": [0.1, …]}}"
    )]
    Vectors {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },

    /// Imported vectors do not cover all chunks.
    #[error("there is no vector for {count} of the chunks; the first is {id} ('{text}')")]
    NoVector {
        /// The number of chunks without a vector.
        count: u64,
        /// The id of the first one.
        id: String,
        /// The beginning of its text.
        text: String,
    },

    /// A query is too long.
    #[error("the query has {bytes} bytes, but the limit is {max_bytes}; shorten it")]
    LongQuery {
        /// The length of the query.
        bytes: usize,
        /// The maximum length.
        max_bytes: usize,
    },

    /// An embedder cannot compute a vector.
    #[error("{0}")]
    Embedder(EmbedderError),

    /// A reranker cannot score passages.
    #[error("the reranker failed: {0}")]
    Reranker(EmbedderError),

    /// The engine cannot select passages.
    #[error(transparent)]
    Engine(#[from] Error),

    /// A receipt does not belong to an assembled context.
    #[error("the receipt is not of an assembled context: {problem}")]
    Receipt {
        /// What does not match.
        problem: String,
    },

    /// A line of an evaluation data set is malformed.
    #[error("{}, line {line}: {problem}", path.display())]
    EvalData {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },

    /// Another build holds the lock.
    #[error("another build of {} is running; wait until it ends", path.display())]
    Busy {
        /// The index.
        path: PathBuf,
    },

    /// A database that stores a collection failed.
    #[error("{location}: {problem}")]
    Store {
        /// The address, without credentials.
        location: String,
        /// What happened, and what to do.
        problem: String,
    },

    /// Reading or writing failed.
    #[error("cannot {action} {}: {error}", path.display())]
    Io {
        /// The operation: `read`, `write` or `lock`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
}

impl DocsError {
    pub(crate) fn io(action: &'static str, path: &Path, error: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), error }
    }

    pub(crate) fn model(path: &Path, problem: impl Into<String>) -> Self {
        Self::Model { path: path.to_owned(), problem: problem.into() }
    }

    pub(crate) fn invalid(path: &Path, problem: impl Into<String>) -> Self {
        Self::Invalid { path: path.to_owned(), problem: problem.into() }
    }
}
