//! Trims chat transcripts to a token budget so that the provider still accepts them.
//!
//! A transcript that is truncated naively loses the result of some tool call, and the provider rejects it. Here a tool call
//! and its results form one group. The system prompt and the last user message are pinned. Messages that were invalid on
//! input are excluded and reported.
//!
//! ```
//! use pannier_chat::{Provider, Transcript};
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
//! let transcript = Transcript::read(Provider::OpenAi, messages, &BytesOverFour)?;
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
//! # Token counts
//!
//! Providers delimit messages by special tokens, which never merge with text. The count of a transcript is therefore the
//! sum over its messages: the tokens of their texts, plus the constants listed at [`Transcript`].

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

#[cfg(doctest)]
#[doc = include_str!("../../../docs/reference/chat-formats.md")]
struct Guide;

mod anthropic;
mod detect;
mod error;
mod gemini;
mod input;
mod item_pairing;
mod items;
mod json;
mod logs;
mod message;
mod openai;
mod receipt;
pub mod replay;
mod responses;
mod scan;
mod session;
mod tool_pairing;
mod transcript;
mod trimmed;

pub use error::ChatError;
pub use input::ChatInput;
pub use logs::{History, LogFormat, RecordedRequest, RecordedUsage, SessionLog};
pub use receipt::FitConfig;
pub use session::{
    BlockPosition, ChatSession, Cut, CutForm, CutReason, Fitted, RecallRange, RecallStore,
    RecallStoreOptions, SentBlock,
};
pub use transcript::{Provider, Repair, Transcript, Trimmer};
pub use trimmed::{ReusedPrefix, TrimmedTranscript};
