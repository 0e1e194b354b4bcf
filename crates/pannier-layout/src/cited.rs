//! Renders passages under citations of their lines.
//!
//! Adjacent and overlapping passages are merged as in a [`DocumentLayout`](crate::DocumentLayout), and have one citation. So
//! every line of the text that is not a citation is a line of the document that the citation before it names.

use std::fmt;
use std::sync::Arc;

use pannier_core::item::{Form, Passage};
use pannier_core::layout::{Around, PlacedItems, Plan, RenderCost};
use pannier_core::score::Pool;
use pannier_core::{ContextItem, Error, Layout, TokenCounter};

use crate::count::{above, count, count_up_to};
use crate::document::{OutputTail, write_line, write_name};
use crate::{SentItem, rejected_references};

/// What a text of passages says besides their contents.
pub trait Citations: Send + Sync {
    /// Returns the first and last line of each part of a passage, in order.
    fn lines(&self, sent: SentItem<'_>) -> Vec<[usize; 2]>;

    /// Returns the text of an empty selection.
    fn empty_text(&self) -> String;
}

/// The text of passages, each under a line `[path:first-last]`, with an empty line before it unless it is the first.
///
/// A pipeline with this layout counts the rendered text, and never selects one above its target.
///
/// ```
/// use std::sync::Arc;
///
/// use pannier_core::ContextItem;
/// use pannier_core::item::Passage;
/// use pannier_layout::{Citations, CitedLayout, SentItem};
/// # struct Bytes;
/// # impl pannier_core::TokenCounter for Bytes {
/// #     fn name(&self) -> &str { "bytes" }
/// #     fn exactness(&self) -> pannier_core::item::Exactness { pannier_core::item::Exactness::Exact }
/// #     fn count(&self, text: &str) -> usize { text.len() }
/// # }
///
/// struct Lines;
///
/// impl Citations for Lines {
///     fn lines(&self, _: SentItem<'_>) -> Vec<[usize; 2]> {
///         vec![[3, 4]]
///     }
///     fn empty_text(&self) -> String {
///         "Nothing matches.\n".to_owned()
///     }
/// }
///
/// let passage = Passage { document: "a.md", sequence: 0, range: 10..17 };
/// let item = ContextItem::builder("one\ntwo", 7).passage(&passage).build()?;
/// let layout = CitedLayout::new(Lines, Arc::new(Bytes));
/// assert_eq!(layout.render([(0, &item)].into_iter()), "[a.md:3-4]\none\ntwo\n");
/// assert_eq!(layout.render([].into_iter()), "Nothing matches.\n");
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone)]
pub struct CitedLayout<C> {
    citations: C,
    counter: Arc<dyn TokenCounter>,
}

/// A text without a gap, and its lines.
struct Run<'i> {
    document: Option<&'i str>,
    lines: Vec<[usize; 2]>,
    text: String,
}

impl Run<'_> {
    /// Adds the lines of a passage that was merged.
    fn extend(&mut self, lines: Vec<[usize; 2]>) {
        for [first, last] in lines {
            match self.lines.last_mut() {
                Some(end) if first <= end[1] + 1 => end[1] = end[1].max(last),
                _ => self.lines.push([first, last]),
            }
        }
    }
}

impl<C: Citations> CitedLayout<C> {
    /// Cites these lines, and counts with this counter.
    pub fn new(citations: C, counter: Arc<dyn TokenCounter>) -> Self {
        Self { citations, counter }
    }

    /// Returns the text of these items, in this order.
    pub fn render<'i>(&self, sent: impl Iterator<Item = SentItem<'i>>) -> String {
        let mut runs: Vec<Run<'i>> = Vec::new();
        let mut tail: Option<OutputTail> = None;
        for (index, item) in sent {
            let lines = self.citations.lines((index, item));
            let (passage, content) = (Passage::from_item(item), item.content());
            let document = passage.as_ref().map(|passage| passage.document);
            let last = runs.last_mut().filter(|run| run.document == document);
            if let (Some(run), Some(passage), Some(end)) = (last, &passage, tail.take())
                && let Some(joined) = end.join(&mut run.text, passage, content)
            {
                run.extend(lines);
                tail = Some(joined);
                continue;
            }
            let mut text = String::new();
            write_line(&mut text, content);
            runs.push(Run { document, lines, text });
            tail = passage.and_then(|passage| OutputTail::new(&passage, content));
        }
        if runs.is_empty() {
            return self.citations.empty_text();
        }
        let mut text = String::new();
        for run in runs {
            if !text.is_empty() {
                text.push('\n');
            }
            if let Some(document) = run.document {
                write_citation(&mut text, document, &run.lines);
            }
            text.push_str(&run.text);
        }
        text
    }

    /// Counts the citation of an item alone.
    fn citation_tokens(&self, sent: SentItem<'_>) -> i64 {
        let mut text = String::from("\n");
        if let Some(passage) = Passage::from_item(sent.1) {
            write_citation(&mut text, passage.document, &self.citations.lines(sent));
        }
        count(&*self.counter, &text)
    }
}

/// Writes a citation as a line.
fn write_citation(text: &mut String, document: &str, lines: &[[usize; 2]]) {
    text.push('[');
    write_name(text, document);
    for (position, [first, last]) in lines.iter().enumerate() {
        text.push_str(&format!("{}{first}-{last}", if position == 0 { ':' } else { ',' }));
    }
    text.push_str("]\n");
}

impl<C: Citations> Layout for CitedLayout<C> {
    fn plan(&self, pool: &Pool<'_>) -> Result<Plan, Error> {
        let mut plan = Plan::default();
        plan.rejected = rejected_references(pool);
        let forms = |(index, item): (usize, &&'_ ContextItem)| {
            let forms = std::iter::once(*item).chain(item.forms().iter().map(Form::item));
            forms.map(|form| self.citation_tokens((index, form))).collect::<Vec<i64>>()
        };
        plan.around = Around::Forms(pool.items().iter().enumerate().flat_map(forms).collect());
        Ok(plan)
    }

    fn measure(&self, placed: &PlacedItems<'_>, up_to: i64) -> Result<Option<RenderCost>, Error> {
        let text = self.render(placed.indices().zip(placed.items()));
        let Some(total) = count_up_to(&*self.counter, &text, up_to) else {
            return Ok(Some(above(up_to)));
        };
        let items = placed.tokens();
        let framing = total.saturating_sub(items).max(0);
        Ok(Some(RenderCost::from_total(total, 0, framing, items)))
    }
}

impl<C> fmt::Debug for CitedLayout<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CitedLayout").field("counter", &self.counter).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "one\ntwo\nthree\nfour\nfive\n";

    struct Bytes;

    impl TokenCounter for Bytes {
        fn name(&self) -> &str {
            "bytes"
        }

        fn exactness(&self) -> pannier_core::item::Exactness {
            pannier_core::item::Exactness::Exact
        }

        fn count(&self, text: &str) -> usize {
            text.len()
        }
    }

    /// The lines of verbatim passages of `FILE`.
    struct Lines;

    impl Citations for Lines {
        fn lines(&self, (_, item): SentItem<'_>) -> Vec<[usize; 2]> {
            let start = FILE.find(item.content()).unwrap();
            let first = 1 + FILE[..start].matches('\n').count();
            vec![[first, first + item.content().trim_end().matches('\n').count()]]
        }

        fn empty_text(&self) -> String {
            "Nothing.\n".to_owned()
        }
    }

    fn passage(document: &str, sequence: u64, content: &str) -> ContextItem {
        let start = FILE.find(content).unwrap() as u64;
        let range = start..start + content.len() as u64;
        let passage = Passage { document, sequence, range };
        ContextItem::builder(content, content.len() as i64).passage(&passage).build().unwrap()
    }

    fn render(items: &[ContextItem]) -> String {
        CitedLayout::new(Lines, Arc::new(Bytes)).render(items.iter().enumerate())
    }

    #[test]
    fn merged_passages_have_one_citation_and_gaps_a_new_one() {
        let [one, two, four] = ["one\n", "two\n", "four\n"];
        let items = [
            passage("a.md", 0, one),
            passage("a.md", 1, two),
            passage("a.md", 3, four),
            passage("b.md", 0, two),
        ];
        let expected = "[a.md:1-2]\none\ntwo\n\n[a.md:4-4]\nfour\n\n[b.md:2-2]\ntwo\n";
        assert_eq!(render(&items), expected);
        let overlapping =
            [passage("a.md", 0, "one\ntwo\nthree\n"), passage("a.md", 1, "three\nfour\n")];
        assert_eq!(render(&overlapping), "[a.md:1-4]\none\ntwo\nthree\nfour\n");
        // Out of order, they are apart.
        let items = [passage("a.md", 1, two), passage("a.md", 0, one)];
        assert_eq!(render(&items), "[a.md:2-2]\ntwo\n\n[a.md:1-1]\none\n");
    }

    #[test]
    fn a_path_cannot_end_its_citation() {
        let items = [passage("a]\n[b.md", 0, "one\n")];
        assert_eq!(render(&items), "[a%5D%0A[b.md:1-1]\none\n");
        assert_eq!(render(&[]), "Nothing.\n");
    }

    #[test]
    fn the_text_fits_the_budget() {
        use pannier_core::score::ReflexiveScorer;
        use pannier_core::{ContextBudget, Pipeline};
        let items: Vec<ContextItem> = ["one\n", "two\n", "three\n", "four\n", "five\n"]
            .iter()
            .zip(0..)
            .map(|(content, sequence)| passage("a.md", sequence, content))
            .collect();
        let layout = Arc::new(CitedLayout::new(Lines, Arc::new(Bytes)));
        let pipeline = Pipeline::builder(ReflexiveScorer).layout(Arc::clone(&layout)).build();
        for budget in 9..60 {
            let budget = ContextBudget::new(budget, budget).unwrap();
            let selection = pipeline.run(&items, &budget).unwrap();
            let text = layout.render(selection.indices().zip(selection.items()));
            assert!(text.len() as i64 <= budget.target_tokens(), "{budget:?}: {text}");
        }
        let budget = ContextBudget::new(100, 100).unwrap();
        assert_eq!(pipeline.run(&items, &budget).unwrap().len(), 5);
    }
}
