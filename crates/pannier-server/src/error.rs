//! Errors of starting a server.

use std::io;
use std::net::SocketAddr;

/// An error of starting a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
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

    /// A text is not a host.
    #[error("'{text}' is not a host; write a name with or without a port, as in box.example:8642")]
    Host {
        /// The text.
        text: String,
    },

    /// A text is not an origin.
    #[error(
        "'{text}' is not an origin; write a scheme, a host and a port, as in https://app.example:8443"
    )]
    Origin {
        /// The text.
        text: String,
    },

    /// A token is too short, too long or not printable.
    #[error(
        "the token in line {line} has {bytes} bytes; use one of 16 to 4096 printable ASCII characters without spaces"
    )]
    Token {
        /// Its line.
        line: usize,
        /// Its length.
        bytes: usize,
    },

    /// The name of a token is invalid, or occurs twice.
    #[error(
        "the name in line {line} is invalid or occurs twice; use 1 to 64 letters, digits, '.', '_' and '-'"
    )]
    TokenName {
        /// Its line.
        line: usize,
    },

    /// A file of tokens has no token.
    #[error("there is no token; write one line for each client, as in: ci 0123456789abcdef")]
    NoToken,

    /// The operating system reports an error.
    #[error("cannot {action}: {error}")]
    Io {
        /// What failed.
        action: String,
        /// The error.
        error: io::Error,
    },
}

impl HttpError {
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        |error| Self::Io { action, error }
    }
}
