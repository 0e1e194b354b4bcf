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

use std::borrow::Cow;

use pannier_core::Pool;

pub use document::{DocumentLayout, render_documents};
pub use template::{ItemTemplate, Template, TextLayout};

/// Returns the items whose content is elsewhere: there is nothing to write for them.
fn rejected_references(pool: &Pool<'_>) -> Vec<(u32, Cow<'static, str>)> {
    let rule = "a reference has no content to send; read its content first";
    let references = pool.items().iter().zip(0..).filter(|(item, _)| item.is_reference());
    references.map(|(_, index)| (index, rule.into())).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pannier_core::{
        ContextBudget, ContextItem, Exactness, Pipeline, ReflexiveScorer, TokenCounter,
    };

    use super::*;

    struct Bytes;

    impl TokenCounter for Bytes {
        fn name(&self) -> &str {
            "bytes"
        }

        fn exactness(&self) -> Exactness {
            Exactness::Exact
        }

        fn count(&self, text: &str) -> usize {
            text.len()
        }
    }

    #[test]
    fn references_are_rejected_by_both_layouts() {
        let reference = ContextItem::reference("a.md", 1).unwrap();
        let items = [ContextItem::new("text", 4).unwrap(), reference];
        let text = TextLayout::new(Template::default(), Arc::new(Bytes));
        let documents = DocumentLayout::new(Arc::new(Bytes));
        let pipeline = Pipeline::builder(ReflexiveScorer).build();
        for pipeline in [pipeline.clone().with_layout(text), pipeline.with_layout(documents)] {
            let budget = ContextBudget::new(50, 50).unwrap();
            let selection = pipeline.run(&items, &budget).unwrap();
            assert_eq!(selection.indices().collect::<Vec<_>>(), [0]);
            let reason = selection.report().excluded[0].reason.clone();
            assert!(format!("{reason:?}").contains("a reference has no content"), "{reason:?}");
        }
    }
}
