//! Trims chat transcripts to a token budget, and leaves nothing behind that a provider would refuse.
//!
//! Whoever cuts a transcript by hand cuts a tool's result from its call sooner or later, and the provider answers with
//! an error. Here a call and its results are one item, the system's words and the user's last ones stay, and what
//! was already broken when it came in is left out and named.
//!
//! ```
//! use pannier_chat::{Format, Transcript};
//! use pannier_core::ContextBudget;
//! use pannier_policy::PolicyRegistry;
//! use pannier_tokens::BytesOverFour;
//!
//! let messages = r#"[
//!     { "role": "system", "content": "You are a librarian." },
//!     { "role": "user", "content": "Hello! I am looking for a book about bridges, or rather about two." },
//!     { "role": "assistant", "content": "There are many. Old ones or new ones?" },
//!     { "role": "user", "content": "Old ones." }
//! ]"#;
//! let transcript = Transcript::read(Format::OpenAi, messages, &BytesOverFour)?;
//! let registry = PolicyRegistry::default();
//! let trimmer = transcript.trimmer(&registry, registry.policy("transcript")?, None)?;
//!
//! let trimmed = trimmer.trim(&ContextBudget::new(40, 40)?)?;
//! assert_eq!(
//!     trimmed.json(),
//!     r#"[{"role":"system","content":"You are a librarian."},{"role":"user","content":"Old ones."}]"#
//! );
//! # Ok::<(), pannier_chat::ChatError>(())
//! ```
//!
//! # What a message costs
//!
//! Providers put every message between special tokens, and nothing merges across those, so a transcript costs the sum
//! of its messages. A message costs the tokens of its texts, and [`Transcript`] says what it takes besides.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

#[cfg(doctest)]
#[doc = include_str!("../../../docs/chat.md")]
struct Guide;

mod anthropic;
mod error;
mod items;
mod json;
mod message;
mod openai;
mod pairs;
mod transcript;
mod trimmed;

pub use error::ChatError;
pub use transcript::{Format, Repair, Transcript, Trimmer, model};
pub use trimmed::{Prefix, Trimmed};
