//! Renders selections as text, and counts the tokens of the rendered text.
//!
//! [`TextRendering`] writes items by a [`Template`]. [`DocumentRendering`] writes passages under the names of their
//! documents. A pipeline that knows its rendering never selects a text above its target.
//!
//! This crate does no input or output, reads no clock and starts no threads.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

mod document;
mod template;

pub use document::{DocumentRendering, render_documents};
pub use template::{ItemTemplate, Template, TextRendering};
