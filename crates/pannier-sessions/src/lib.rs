//! Remembers what was given to the sessions of a host: a small file for each.
//!
//! Context that a session has already need not be given to it again. [`SessionId`] is a name that cannot lead anywhere,
//! and [`SessionFiles`] keeps a file for each session and for what it is about, in a folder that the caller names. Files are
//! replaced at once, so that none is ever half written, and [`SessionFile::update`] lets no two processes lose what the
//! other one wrote. No clock is read here: the caller says what time it is.
//!
//! ```
//! use pannier_sessions::{SessionFiles, SessionId};
//!
//! # let folder = std::env::temp_dir().join(format!("pannier-sessions-{}", std::process::id()));
//! let files = SessionFiles::in_folder(&folder, ".seen");
//! let file = files.file(&SessionId::new("6d40ae08")?, &[&std::env::temp_dir()])?;
//! file.write(b"lunch\n")?;
//! assert_eq!(file.read(100).as_deref(), Some(&b"lunch\n"[..]));
//! # std::fs::remove_dir_all(&folder).unwrap();
//! # Ok::<(), pannier_sessions::SessionError>(())
//! ```

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

mod error;
mod file;
mod id;

pub use error::SessionError;
pub use file::{SessionFile, SessionFiles};
pub use id::SessionId;
