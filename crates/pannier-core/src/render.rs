//! From a selection to the text that is sent.

use crate::Selection;

/// How a selection is written as text: the contents in placed order, with something between them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
#[non_exhaustive]
pub struct Template {
    /// What stands between two contents.
    pub separator: String,
}

impl Default for Template {
    /// An empty line between contents.
    fn default() -> Self {
        Self { separator: "\n\n".to_owned() }
    }
}

impl Template {
    /// The text, piece by piece: contents and what stands between them, and a line end if there is anything.
    pub fn pieces<'t>(&'t self, selection: &Selection<'t>) -> impl Iterator<Item = &'t str> {
        let mut lead = "";
        let end = if selection.is_empty() { "" } else { "\n" };
        let contents = selection.items().flat_map(move |item| {
            let lead = std::mem::replace(&mut lead, &self.separator);
            [lead, item.content()]
        });
        contents.chain([end])
    }

    /// The text as one.
    pub fn render(&self, selection: &Selection<'_>) -> String {
        self.pieces(selection).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ContextBudget, ContextItem, Pipeline, ReflexiveScorer};

    #[test]
    fn contents_are_joined_and_end_with_a_line() {
        let items = ["one", "two\n", "three"].map(|text| ContextItem::new(text, 1).unwrap());
        let pipeline = Pipeline::builder(ReflexiveScorer).build();
        let render = |tokens| {
            let budget = ContextBudget::new(tokens, tokens).unwrap();
            Template::default().render(&pipeline.run(&items, &budget).unwrap())
        };
        assert_eq!(render(3), "one\n\ntwo\n\n\nthree\n");
        assert_eq!(render(1), "one\n");
        assert_eq!(render(0), "");
    }
}
