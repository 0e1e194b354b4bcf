//! What can go wrong with what is remembered.

use std::io;
use std::path::{Path, PathBuf};

/// Why nothing can be remembered about a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The name of a session cannot be one.
    #[error(
        "'{id}' cannot name a session; use 1 to 128 of the letters A-Z and a-z, digits, '.', '_' and '-', and no '.' at the beginning"
    )]
    Id {
        /// How it begins.
        id: String,
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

impl SessionError {
    pub(crate) fn io(action: &'static str, path: &Path, error: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), error }
    }
}
