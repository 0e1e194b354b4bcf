//! Token counters: estimates, exact encodings and upper bounds behind one trait, [`TokenCounter`].
//!
//! | counter | count | exactness |
//! |---|---|---|
//! | [`BytesOverFour`] | bytes divided by four, rounded up | estimate |
//! | [`ScriptEstimate`] | by runs of words, code, digits and scripts | estimate |
//! | `o200k`, `cl100k` | the encodings of OpenAI's models (features `openai`, `encodings`) | exact |
//! | `TokenizerFile` | by a `tokenizer.json` (feature `tokenizer-json`) | exact |
//! | [`UpperBound`] | another counter times a factor, for models whose vocabulary is not published | upper bound |
//!
//! [`counter_by_name`] finds a counter by the name of a model or an encoding:
//!
//! ```
//! use pannier_tokens::{TokenCounter, counter_by_name};
//!
//! let estimate = counter_by_name("bytes/4")?;
//! assert_eq!(estimate.count("Refunds take five days."), 6);
//! # Ok::<(), pannier_tokens::TokenError>(())
//! ```
//!
//! All counters count the spelling of a special token (`<|endoftext|>`) as plain text. In an item it comes from a
//! document, and providers encode it as plain text, too.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

#[cfg(doctest)]
#[doc = include_str!("../../../docs/reference/tokenizers.md")]
struct Guide;

mod calibrate;
#[cfg(feature = "encodings")]
mod encoding;
mod estimate;
mod models;
mod parallel;
#[cfg(feature = "tokenizer-json")]
mod tokenizer_file;
mod upper_bound;

pub use calibrate::{Calibration, CalibrationSums, calibrate};
#[cfg(feature = "encodings")]
pub use encoding::load_vocabulary;
#[cfg(feature = "openai")]
pub use encoding::{cl100k, o200k, vocabulary_file, vocabulary_subset};
pub use estimate::{BytesOverFour, ScriptEstimate};
pub use models::{TokenError, builtin_counter, counter_by_name, counter_names};
pub use pannier_core::TokenCounter;
pub use pannier_core::item::Exactness;
pub use parallel::parallel_map;
#[cfg(feature = "tokenizer-json")]
pub use tokenizer_file::{TokenizerFile, disable_training_settings};
pub use upper_bound::UpperBound;
