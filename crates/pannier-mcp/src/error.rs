//! Why a server cannot be started.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use pannier_core::ErrorCategory;
use pannier_docs::DocsError;
use pannier_memory::MemoryError;
use pannier_snippets::SnippetsError;

/// Why a server cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A folder cannot be named.
    #[error(
        "'{name}' cannot name a folder; use 1 to 64 of the letters A-Z and a-z, digits, '.', '_' and '-', as in docs={}",
        path.display()
    )]
    Name {
        /// What it would be called.
        name: String,
        /// The folder.
        path: PathBuf,
    },

    /// Two folders have the same name.
    #[error("two folders are called '{name}'; give one another name, as in {name}-2={}", path.display())]
    SameName {
        /// The name.
        name: String,
        /// The second of them.
        path: PathBuf,
    },

    /// What is remembered lies above the folder that was given.
    #[error("there is no folder .context in {}; name the root of a project that has one", path.display())]
    NoContext {
        /// The folder.
        path: PathBuf,
    },

    /// Anybody could reach the server.
    #[error(
        "{address} can be reached from other machines; add a token with --token-file FILE, or listen to 127.0.0.1:{}",
        address.port()
    )]
    Open {
        /// Where it would listen.
        address: SocketAddr,
    },

    /// An address cannot be listened to.
    #[error("'{text}' is no address; write a port, or an address and a port, as in 127.0.0.1:8642")]
    Address {
        /// What was given.
        text: String,
    },

    /// A token is not one.
    #[error(
        "the token has {bytes} bytes; use one of 16 to 4096 printable ASCII characters without spaces"
    )]
    Token {
        /// How long it is.
        bytes: usize,
    },

    /// A cache cannot be opened.
    #[error(transparent)]
    Docs(#[from] DocsError),

    /// Snippets cannot be opened.
    #[error(transparent)]
    Snippets(#[from] SnippetsError),

    /// A context folder cannot be opened.
    #[error(transparent)]
    Memory(#[from] MemoryError),

    /// The system refuses something.
    #[error("cannot {action}: {error}")]
    Io {
        /// What was tried.
        action: String,
        /// Why it failed.
        error: io::Error,
    },
}

impl ServeError {
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        |error| Self::Io { action, error }
    }

    /// What sort of failure it is.
    pub fn category(&self) -> ErrorCategory {
        match self {
            Self::Docs(error) => error.category(),
            Self::Snippets(error) => error.category(),
            Self::Memory(error) => error.category(),
            Self::Io { .. } => ErrorCategory::Io,
            _ => ErrorCategory::InvalidInput,
        }
    }
}
