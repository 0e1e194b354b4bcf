//! What can go wrong with the folder of a model, and with its name.

use std::io;
use std::path::{Path, PathBuf};

/// Why texts cannot be turned into vectors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// Nothing goes by this name.
    #[error("there is no embedder '{name}'; write none, static:FOLDER or minilm:FOLDER")]
    UnknownName {
        /// The name.
        name: String,
    },

    /// There is no folder to take a model from.
    #[error(
        "there is no folder {}; give the one that holds a .safetensors file and a tokenizer.json",
        path.display()
    )]
    NoFolder {
        /// Where it was looked for.
        path: PathBuf,
    },

    /// A folder lacks a file of the model.
    #[error("there is no {file} in {}; put the one of the model there", folder.display())]
    MissingFile {
        /// The folder.
        folder: PathBuf,
        /// The name of the file.
        file: String,
    },

    /// A file is not what the model needs.
    #[error("{} cannot be used: {problem}", path.display())]
    Invalid {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        problem: String,
    },

    /// Reading failed.
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

impl EmbedError {
    pub(crate) fn io(action: &'static str, path: &Path, error: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), error }
    }

    pub(crate) fn invalid(path: &Path, problem: impl Into<String>) -> Self {
        Self::Invalid { path: path.to_owned(), problem: problem.into() }
    }
}
