//! Errors of starting a server.

use std::io;

use pannier::Failure;

/// An error of starting a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A folder cannot be opened.
    #[error(transparent)]
    Folder(#[from] Failure),

    /// The operating system reports an error.
    #[error("cannot {action}: {error}")]
    Io {
        /// What failed.
        action: String,
        /// The error.
        error: io::Error,
    },
}

impl ServeError {
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        |error| Self::Io { action, error }
    }
}
