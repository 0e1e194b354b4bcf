//! Renders selections as text, and counts the tokens of the rendered text.
//!
//! [`TextLayout`] writes items by a [`Template`]. [`DocumentLayout`] writes passages under the names of their
//! documents, [`CitedLayout`] under citations of their lines. [`RecordLayout`] writes an answer of JSON records. A pipeline that knows its layout never selects a text
//! above its target.
//!
//! This crate does no input or output, reads no clock and starts no threads.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unwrap_used))]

mod cited;
mod count;
mod document;
mod record;
mod template;

use std::borrow::Cow;

use pannier_core::score::Pool;

pub use cited::{Citations, CitedLayout};
pub use document::{DocumentLayout, render_documents};
pub use record::{RecordLayout, Records, SentItem};
pub use template::{ItemTemplate, Template, TextLayout};

/// Returns the items whose content is elsewhere: there is nothing to write for them.
fn rejected_references(pool: &Pool<'_>) -> Vec<(u32, Cow<'static, str>)> {
    let rule = "a reference has no content to send; read its content first";
    let references = pool.items().iter().zip(0..).filter(|(item, _)| item.is_reference());
    references.map(|(_, index)| (index, rule.into())).collect()
}
