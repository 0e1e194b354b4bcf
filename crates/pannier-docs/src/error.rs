//! What can go wrong with sources and caches.

use std::io;
use std::path::{Path, PathBuf};

use pannier_core::Error;

use crate::EmbedderError;

/// Why a cache cannot be built or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DocsError {
    /// There is nothing to build from.
    #[error("there are no sources at {}; give a folder with documents", path.display())]
    NoSources {
        /// The folder.
        path: PathBuf,
    },

    /// Documents that cannot be taken, each with its problem.
    #[error(
        "{} cannot be used, and nothing was changed:\n{}",
        if problems.len() == 1 { "a document".to_owned() } else { format!("{} documents", problems.len()) },
        problems.join("\n")
    )]
    Sources {
        /// A line for each.
        problems: Vec<String>,
    },

    /// A pattern for file names is not one.
    #[error(
        "'{pattern}' is not a pattern for file names: {problem}; write one as in *.txt or notes/**/*.md"
    )]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        problem: String,
    },

    /// There is no cache.
    #[error("there is no cache at {}", path.display())]
    NoCache {
        /// Where it was looked for.
        path: PathBuf,
    },

    /// A folder holds something else.
    #[error("{} is not empty, and not a cache; choose another folder", path.display())]
    NotACache {
        /// The folder.
        path: PathBuf,
    },

    /// A cache is not as it was built.
    #[error("the cache is damaged: {}: {problem}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },

    /// A cache was made in another way than queries are read.
    #[error("the cache at {} was built by another version of Pannier or of Unicode", path.display())]
    Outdated {
        /// The cache.
        path: PathBuf,
    },

    /// What is asked of a cache does not go with the model of its vectors.
    #[error("{}: {problem}", path.display())]
    Model {
        /// The cache.
        path: PathBuf,
        /// What does not go, and what to do.
        problem: String,
    },

    /// A line of given vectors is not one.
    #[error(
        "line {line} of the vectors: {problem}; write each as {{\"id\": \"…\", \"vector\": [0.1, …]}}"
    )]
    Vectors {
        /// The line.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },

    /// Chunks have no vector.
    #[error("the vectors have none for {count} chunks, of which the first is {id} ('{text}')")]
    NoVector {
        /// How many.
        count: u64,
        /// The id of the first.
        id: String,
        /// How it begins.
        text: String,
    },

    /// A query is too long.
    #[error("the query has {bytes} bytes, and at most {most} are taken; shorten it")]
    LongQuery {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        most: usize,
    },

    /// An embedder cannot compute a vector.
    #[error("{0}")]
    Embedder(EmbedderError),

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

    /// Another build is at work.
    #[error("another build is at work on {}; wait until it is done", path.display())]
    Busy {
        /// The cache.
        path: PathBuf,
    },

    /// Reading or writing failed.
    #[error("cannot {action} {}: {error}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
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
