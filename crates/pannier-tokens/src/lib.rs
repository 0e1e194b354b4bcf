//! Counts tokens, for budgets that hold.
//!
//! | counter | what it is | worth |
//! |---|---|---|
//! | [`BytesOverFour`] | a quarter of the bytes, rounded up | estimate |
//! | [`ScriptEstimate`] | knows words, code, digits and scripts | estimate |
//! | `o200k`, `cl100k` | the encodings of OpenAI's models (feature `openai`) | exact |
//! | a `tokenizer.json` | whatever it says (feature `tokenizer-json`) | exact |
//! | [`UpperBound`] | another counter times a factor, for models whose vocabulary is not published | upper bound |
//!
//! [`counter`] finds one by the name of a model or an encoding:
//!
//! ```
//! use pannier_tokens::{TokenCounter, counter};
//!
//! let estimate = counter("bytes/4")?;
//! assert_eq!(estimate.count("Refunds take five days."), 6);
//! # Ok::<(), pannier_tokens::TokenError>(())
//! ```
//!
//! Spellings of special tokens (`<|endoftext|>`) are counted as the plain text they are: in an item they come from
//! somebody's document, and a provider treats them so.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

#[cfg(doctest)]
#[doc = include_str!("../../../docs/tokens.md")]
struct Guide;

mod calibrate;
mod estimate;
#[cfg(feature = "openai")]
mod memo;
mod models;
#[cfg(feature = "openai")]
mod openai;
#[cfg(feature = "tokenizer-json")]
mod tokenizer_file;
mod upper_bound;

pub use calibrate::{Calibration, calibrate};
pub use estimate::{BytesOverFour, ScriptEstimate};
pub use models::{TokenError, built_in, counter, names};
#[cfg(feature = "openai")]
pub use openai::{cl100k, o200k};
pub use pannier_core::{Exactness, TokenCounter};
#[cfg(feature = "tokenizer-json")]
pub use tokenizer_file::TokenizerFile;
pub use upper_bound::UpperBound;
