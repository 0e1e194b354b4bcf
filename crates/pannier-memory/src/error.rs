//! What can go wrong between a folder and what is made of it.

use std::io;
use std::path::{Path, PathBuf};

use pannier_files::SessionError;

/// Why a context folder, or something beside it, cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// There is no context folder.
    #[error("there is no .context folder in {} or above it", start.display())]
    NoFolder {
        /// Where it was looked for.
        start: PathBuf,
    },

    /// A file is longer than any that people write.
    #[error(
        "{} has more than {most} bytes, and is not read; move what is old to another file",
        path.display()
    )]
    TooLong {
        /// The file.
        path: PathBuf,
        /// How long it may be.
        most: u64,
    },

    /// A configuration cannot be read at all.
    #[error("{}: {problem}; correct it, or remove the file", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },

    /// A key of a configuration has a value that it cannot have.
    #[error("{}: {key} is {value}, and must be {allowed}", path.display())]
    ConfigValue {
        /// The file.
        path: PathBuf,
        /// The key.
        key: &'static str,
        /// What it says, as it was read.
        value: String,
        /// What it may say.
        allowed: &'static str,
    },

    /// Nothing can be remembered about a session.
    #[error(transparent)]
    Session(#[from] SessionError),

    /// What a host wrote to its hook is not what hosts write.
    #[error(
        "what the host wrote to the hook is not its JSON: {problem}; run it as a hook, or without input"
    )]
    HookInput {
        /// What is wrong with it.
        problem: String,
    },

    /// A host does not show the model what a hook of this event prints.
    #[error("{host} takes no context from a hook of '{event}'; use one of {}", known.join(", "))]
    HookEvent {
        /// The host.
        host: &'static str,
        /// The event.
        event: String,
        /// Those that it takes context from.
        known: &'static [&'static str],
    },

    /// Something is there that would be written over.
    #[error("{} is there already, and nothing was written; remove it first to begin anew", path.display())]
    Exists {
        /// What is there.
        path: PathBuf,
    },

    /// A receipt is not of a packet.
    #[error("the receipt is not of a packet")]
    NoPacket,

    /// The engine refuses what it was given.
    #[error(transparent)]
    Engine(#[from] pannier_core::Error),

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

impl MemoryError {
    pub(crate) fn io(action: &'static str, path: &Path, error: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), error }
    }
}
