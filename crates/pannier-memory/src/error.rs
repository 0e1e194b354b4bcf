//! The errors of this crate.

use std::io;
use std::path::{Path, PathBuf};

use pannier_files::SessionError;

/// A failure to read or write a context folder or its settings, or to build a packet.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// There is no context folder.
    #[error("there is no .context folder in {} or above it", start.display())]
    NoFolder {
        /// The path where the search started.
        start: PathBuf,
    },

    /// A file exceeds the size limit.
    #[error(
        "{} has more than {max_bytes} bytes and is not read; move old entries to another file",
        path.display()
    )]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The limit.
        max_bytes: u64,
    },

    /// A file could not be read: the warning about it.
    #[error("{0}")]
    Unread(String),

    /// A configuration file is not valid YAML.
    #[error("{}: {problem}; fix or remove the file", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// The parser's message.
        problem: String,
    },

    /// A key of a configuration has an invalid value.
    #[error("{}: {key} is {value} but must be {allowed}", path.display())]
    ConfigValue {
        /// The file.
        path: PathBuf,
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// The allowed values.
        allowed: &'static str,
    },

    /// The file of a session cannot be read or written.
    #[error(transparent)]
    Session(#[from] SessionError),

    /// The input of a hook is not the JSON object that hosts write.
    #[error("the hook's input is not a JSON object: {problem}; run it as a hook, or without input")]
    HookInput {
        /// The parser's message.
        problem: String,
    },

    /// The host does not show the model the output of hooks for this event.
    #[error("{host} takes no context from a hook of '{event}'; use one of {}", known.join(", "))]
    HookEvent {
        /// The host.
        host: &'static str,
        /// The event.
        event: String,
        /// The events whose output the host shows.
        known: &'static [&'static str],
    },

    /// The folder to create already exists.
    #[error("{} already exists and nothing was written; remove it first to start over", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },

    /// An entry cannot be added to the folder.
    #[error("the entry was not added: {problem}")]
    NotAdded {
        /// The reason.
        problem: String,
    },

    /// A receipt has another source than a packet.
    #[error("the receipt is not the receipt of a packet")]
    NoPacket,

    /// No entry has one of these ids.
    #[error("there is no entry with the id {}; the packet lists ids under \"Also noted\"", ids.join(", "))]
    UnknownEntry {
        /// The ids.
        ids: Vec<String>,
    },

    /// No policy of packets has this name.
    #[error("there is no policy '{name}' for packets; use memory or packet-seed")]
    UnknownPolicy {
        /// The name.
        name: String,
    },

    /// The engine rejects an option or an item.
    #[error(transparent)]
    Engine(#[from] pannier_core::Error),

    /// Reading or writing failed.
    #[error("cannot {action} {}: {error}", path.display())]
    Io {
        /// The attempted action, a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
}

impl MemoryError {
    pub(crate) fn io(action: &'static str, path: &Path, error: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), error }
    }
}
