//! Files on disk: atomic replacement, locks, bounded reads, front matter, and session files.
//!
//! - [`replace_file`] writes a temporary file next to the target and renames it, so that readers see the old or the new content.
//! - [`FileLock`] is an exclusive lock that the operating system releases when its process ends.
//! - [`read_bounded`] and [`read_file_bounded`] stop at a byte limit, because the files come from other programs.
//! - [`find_agent_files`] lists the files in which other tools instruct agents, such as `AGENTS.md`.
//! - [`split_front_matter`] separates YAML front matter from the body of a document.
//! - [`SessionStore`] keeps one small file per session and set of folders.
//!
//! The crate reads no clock: callers pass the time.
//!
//! ```
//! use pannier_files::{SessionId, SessionStore};
//!
//! # let folder = std::env::temp_dir().join(format!("pannier-files-{}", std::process::id()));
//! let store = SessionStore::in_folder(&folder, ".seen");
//! let file = store.file(&SessionId::new("6d40ae08")?, &[&std::env::temp_dir()])?;
//! file.write(b"lunch\n")?;
//! assert_eq!(file.read(100).as_deref(), Some(&b"lunch\n"[..]));
//! # std::fs::remove_dir_all(&folder).unwrap();
//! # Ok::<(), pannier_files::SessionError>(())
//! ```

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

mod agent_files;
mod error;
mod front_matter;
mod lock;
mod read;
mod replace;
mod session_id;
mod session_store;

pub use agent_files::{
    AgentFile, AgentFileKind, AgentFiles, AgentFront, MAX_AGENT_FILES, find_agent_files,
};
pub use error::SessionError;
pub use front_matter::{MAX_FRONT_MATTER_BYTES, SplitDocument, is_fence, split_front_matter};
pub use lock::FileLock;
pub use read::{read_bounded, read_file_bounded};
pub use replace::{
    replace_file, replace_file_through, replace_file_with, replace_private_file_unsynced,
};
pub use session_id::SessionId;
pub use session_store::{SessionFile, SessionStore};
