//! Reads a project's memory for its agents: rules, tasks, conventions, decisions and learnings.
//!
//! People and agents write them by hand, in the Markdown files of a `.context` folder. [`Folder`] finds and reads the
//! folder. [`Memory`] holds its entries, each with a path, line, date and stable id. [`PacketBuilder`] selects the entries
//! that fit a token budget and renders them.
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
#[doc = include_str!("../../../docs/reference/memory-format.md")]
struct Guide;

mod add;
mod config;
mod date;
mod dated_entries;
mod entry;
mod entry_heading;
mod error;
pub mod eval;
mod excerpt;
mod file;
mod folder;
mod hook;
mod init;
mod keywords;
mod line_map;
mod list_entries;
mod markdown;
mod memory;
mod packer;
mod packet_options;
mod policy;
mod render;
mod session;
mod source;
mod superseded;
mod table_entries;
#[cfg(test)]
mod test;
mod text;

pub use config::Config;
pub use entry::{Entry, Section};
pub use error::MemoryError;
pub use folder::Folder;
pub use hook::{HookHost, HookInput, hook_output};
pub use init::init;
pub use keywords::keywords;
pub use line_map::Coverage;
pub use memory::{Memory, Warning};
pub use packer::{Packet, PacketBuilder, render_entries};
pub use packet_options::PacketOptions;
pub use pannier_files::SessionId;
pub use policy::PacketPolicy;
pub use render::PacketFormat;
pub use session::Cooldowns;
pub use source::{Sources, UserFolder};
