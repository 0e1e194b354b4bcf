//! Reads what a project remembers for its agents: rules, tasks, conventions, decisions and learnings.
//!
//! They stand in Markdown files in a folder `.context`, which people and agents write by hand. [`Folder`] finds and reads
//! it, and [`Memory`] holds what it says, entry by entry, each with its place, its date and an id that lasts.
//!
//! ```
//! use pannier_memory::{Memory, Section};
//!
//! let memory = Memory::from_files([
//!     ("CONSTITUTION.md", "- [ ] Never row alone.\n"),
//!     ("DECISIONS.md", "## [2026-07-25] Row east\n\n**Status**: Superseded\n"),
//! ]);
//! assert_eq!(memory.section(Section::Constitution)[0].text(), "Never row alone.");
//! assert!(memory.section(Section::Decisions)[0].is_superseded());
//! ```

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

#[cfg(doctest)]
#[doc = include_str!("../../../docs/memory.md")]
struct Guide;

mod config;
mod date;
mod dated;
mod entry;
mod error;
mod file;
mod folder;
mod hook;
mod keywords;
mod list;
mod markdown;
mod memory;
mod packer;
mod policy;
mod render;
mod session;
mod starter;
#[cfg(test)]
mod test;
mod text;

pub use config::Config;
pub use entry::{Entry, Section};
pub use error::MemoryError;
pub use folder::Folder;
pub use hook::{HookInput, Host, envelope};
pub use keywords::keywords;
pub use memory::{Memory, Warning};
pub use packer::{Packer, Packet, PacketOptions};
pub use pannier_files::SessionId;
pub use render::PacketFormat;
pub use session::Cooldowns;
pub use starter::init;
