//! From a selection to the text that is sent, and a bound on that text.
//!
//! Tokens of parts do not add up to the tokens of the whole: something stands between the parts, and encodings
//! merge across borders. So a selection that fits its budget may still be a text that does not. The text itself
//! is counted, and while it is over, the item with the lowest rank goes.

use crate::{
    ContextBudget, ContextItem, Error, OverflowStrategy, Pipeline, Selection, TokenCounter,
};

/// How a selection is written as text: the contents in placed order, with something around and between them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
#[non_exhaustive]
pub struct Template {
    /// What stands before everything.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "String::is_empty"))]
    pub before: String,
    /// What stands between two contents.
    pub separator: String,
    /// What stands after everything. A line end follows in any case.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "String::is_empty"))]
    pub after: String,
}

impl Default for Template {
    /// An empty line between contents, and nothing around them.
    fn default() -> Self {
        Self { before: String::new(), separator: "\n\n".to_owned(), after: String::new() }
    }
}

impl Template {
    /// The text, piece by piece, with a line end if there is anything.
    pub fn pieces<'t>(&'t self, selection: &Selection<'t>) -> impl Iterator<Item = &'t str> {
        self.pieces_of(selection.items())
    }

    fn pieces_of<'t>(
        &'t self,
        items: impl ExactSizeIterator<Item = &'t ContextItem>,
    ) -> impl Iterator<Item = &'t str> {
        let is_empty = items.len() == 0 && self.before.is_empty() && self.after.is_empty();
        let mut lead = "";
        let contents = items.flat_map(move |item| {
            let lead = std::mem::replace(&mut lead, &self.separator);
            [lead, item.content()]
        });
        let end = if is_empty { "" } else { "\n" };
        [self.before.as_str()].into_iter().chain(contents).chain([self.after.as_str(), end])
    }

    /// The text as one.
    pub fn render(&self, selection: &Selection<'_>) -> String {
        self.pieces(selection).collect()
    }
}

/// Where the tokens of a window go. The lines add up: the window is the sum of all others.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Ledger {
    /// The window: `maxTokens`.
    pub window: i64,
    /// What is kept for the answer.
    pub output_reserve: i64,
    /// What stands around everything, counted by itself.
    pub fixed: i64,
    /// What stands between contents, each counted by itself.
    pub framing: i64,
    /// What the items say that they cost.
    pub items: i64,
    /// What the whole text counts beyond its parts. Below zero where an encoding merges across borders.
    pub joins: i64,
    /// What is left.
    pub slack: i64,
}

impl Ledger {
    /// What the text counts: all parts and their joins.
    pub fn rendered(&self) -> i64 {
        self.fixed + self.framing + self.items + self.joins
    }
}

/// A selection whose text has been counted.
#[derive(Debug)]
pub struct Rendered<'a> {
    /// The selection: what is in the text, and why the rest is not.
    pub selection: Selection<'a>,
    /// The text.
    pub text: String,
    /// Where the tokens go.
    pub ledger: Ledger,
}

impl Pipeline {
    /// As [`run`](Self::run), with a bound on the text: by this counter it has no more tokens than the target.
    ///
    /// While it has, the unit with the lowest rank goes, for the reason
    /// [`RenderedOverBudget`](crate::ExclusionReason::RenderedOverBudget). Pinned items stay. If the strategy is to
    /// proceed on overflow, the text is left as it is.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run); [`Error::FixedOverBudget`] if what cannot go is over the target by itself.
    pub fn run_rendered<'a>(
        &self,
        items: &'a [ContextItem],
        budget: &ContextBudget,
        template: &Template,
        counter: &dyn TokenCounter,
    ) -> Result<Rendered<'a>, Error> {
        let mut selection = self.run(items, budget)?;
        let limit = budget.target_tokens().min(budget.input_tokens());
        let mut text = template.render(&selection);
        let fits = |text: &str| counter.count_up_to(text, limit.unsigned_abs() as usize).is_some();
        if self.overflow_strategy() != OverflowStrategy::Proceed && !fits(&text) {
            let rendered_tokens = counted(counter, &text);
            let ranked = selection.droppable();
            let without = |dropped: usize| {
                let left = selection.indices_without(&ranked[ranked.len() - dropped..]);
                let left: Vec<&ContextItem> = left.iter().map(|i| &items[*i as usize]).collect();
                template.pieces_of(left.into_iter()).collect::<String>()
            };
            // As few as possible go, found by leaps and halves; what is kept has been counted.
            let (mut over, mut step) = (0, 1);
            let enough = loop {
                let dropped = (over + step).min(ranked.len());
                if fits(&without(dropped)) {
                    break dropped;
                }
                if dropped == ranked.len() {
                    let fixed_tokens = counted(counter, &without(dropped));
                    return Err(Error::FixedOverBudget { fixed_tokens, target_tokens: limit });
                }
                over = dropped;
                step *= 2;
            };
            let mut enough = enough;
            while enough - over > 1 {
                let middle = over + (enough - over) / 2;
                if fits(&without(middle)) { enough = middle } else { over = middle }
            }
            text = without(enough);
            let dropped = ranked[ranked.len() - enough..].to_vec();
            selection.drop_rendered(dropped, rendered_tokens, limit);
        }
        let ledger = ledger(&selection, template, counter, &text);
        Ok(Rendered { selection, text, ledger })
    }
}

fn counted(counter: &dyn TokenCounter, text: &str) -> i64 {
    i64::try_from(counter.count(text)).unwrap_or(i64::MAX)
}

fn ledger(
    selection: &Selection<'_>,
    template: &Template,
    counter: &dyn TokenCounter,
    text: &str,
) -> Ledger {
    let budget = selection.budget();
    let (window, output_reserve) = (budget.max_tokens(), budget.output_reserve());
    let fixed =
        counted(counter, &template.before).saturating_add(counted(counter, &template.after));
    let gaps = i64::try_from(selection.len().saturating_sub(1)).unwrap_or(i64::MAX);
    let framing = counted(counter, &template.separator).saturating_mul(gaps);
    let items = selection.tokens();
    let rendered = counted(counter, text);
    let joins = rendered.saturating_sub(items).saturating_sub(framing).saturating_sub(fixed);
    let slack = window.saturating_sub(output_reserve).saturating_sub(rendered);
    Ledger { window, output_reserve, fixed, framing, items, joins, slack }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReflexiveScorer;

    #[test]
    fn contents_are_joined_and_end_with_a_line() {
        let items = ["one", "two\n", "three"].map(|text| ContextItem::new(text, 1).unwrap());
        let pipeline = Pipeline::builder(ReflexiveScorer).build();
        let render = |tokens, template: &Template| {
            let budget = ContextBudget::new(tokens, tokens).unwrap();
            template.render(&pipeline.run(&items, &budget).unwrap())
        };
        let plain = Template::default();
        assert_eq!(render(3, &plain), "one\n\ntwo\n\n\nthree\n");
        assert_eq!(render(1, &plain), "one\n");
        assert_eq!(render(0, &plain), "");
        let framed = Template {
            before: "<context>\n".to_owned(),
            separator: "\n".to_owned(),
            after: "\n</context>".to_owned(),
        };
        assert_eq!(render(1, &framed), "<context>\none\n</context>\n");
        assert_eq!(render(0, &framed), "<context>\n\n</context>\n");
    }
}
