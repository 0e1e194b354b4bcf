//! Errors of session files.

use std::io;
use std::path::{Path, PathBuf};

/// The reason why a session file cannot be named, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The session id has characters or a length that no file name can have.
    #[error(
        "'{id}' cannot name a session; use 1 to 128 of the letters A-Z and a-z, digits, '.', '_' and '-', and no '.' at the beginning"
    )]
    Id {
        /// The first 40 characters of the id.
        id: String,
    },

    /// Reading or writing failed.
    #[error("cannot {action} {}: {error}", path.display())]
    Io {
        /// The operation: `read`, `write`, `lock` or `look into`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
}

impl SessionError {
    pub(crate) fn io(action: &'static str, path: &Path, error: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), error }
    }
}
