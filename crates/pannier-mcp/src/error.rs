//! Errors of starting a server.

use std::io;
use std::net::SocketAddr;

use pannier::Failure;

/// An error of starting a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Other machines could reach the server, and it has no token.
    #[error("{address} can be reached from other machines, and there is no token")]
    Open {
        /// The address to listen at.
        address: SocketAddr,
    },

    /// A text is not an address.
    #[error(
        "'{text}' is not an address; write a port, or an address and a port, as in 127.0.0.1:8642"
    )]
    Address {
        /// The text.
        text: String,
    },

    /// A token is too short, too long or not printable.
    #[error(
        "the token has {bytes} bytes; use one of 16 to 4096 printable ASCII characters without spaces"
    )]
    Token {
        /// Its length.
        bytes: usize,
    },

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
