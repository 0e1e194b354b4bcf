//! Errors of opening a model and of computing vectors.

use std::io;
use std::path::{Path, PathBuf};

/// The reason why a model cannot be opened or a vector not be computed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// The name is not that of an embedder.
    #[error("there is no embedder '{name}'; use none, static:FOLDER or minilm:FOLDER")]
    UnknownName {
        /// The name.
        name: String,
    },

    /// The folder of the model does not exist.
    #[error(
        "there is no folder {}; a model folder has a .safetensors file and a tokenizer.json",
        path.display()
    )]
    NoFolder {
        /// Its path.
        path: PathBuf,
    },

    /// The folder lacks a file of the model.
    #[error("there is no {file} in {}; add the model's", folder.display())]
    MissingFile {
        /// The folder.
        folder: PathBuf,
        /// The name of the file.
        file: String,
    },

    /// A file is malformed, or does not belong to the model.
    #[error("{} cannot be used: {problem}", path.display())]
    Invalid {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },

    /// Reading failed.
    #[error("cannot {action} {}: {error}", path.display())]
    Io {
        /// The operation.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
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
