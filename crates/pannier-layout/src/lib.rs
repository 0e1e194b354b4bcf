//! Renders selections as text, and counts the tokens of the rendered text.
//!
//! [`TextLayout`] writes items by a [`Template`]. [`DocumentLayout`] writes passages under the names of their
//! documents. A pipeline that knows its layout never selects a text above its target.
//!
//! This crate does no input or output, reads no clock and starts no threads.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

mod count;
mod document;
mod template;

pub use document::{DocumentLayout, render_documents};
pub use template::{ItemTemplate, Template, TextLayout};
