//! Renders passages under the names of their documents.
//!
//! Adjacent and overlapping passages are merged: shared bytes are written once, and no line break is added that the
//! document lacks. Passages are merged only if their contents are as long as their ranges, and agree in the bytes that
//! both ranges contain.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use pannier_core::item::{Passage, sum_tokens};
use pannier_core::layout::{Headings, PlacedItems, Plan, RenderCost, SectionId};
use pannier_core::score::Pool;
use pannier_core::{ContextItem, Error, Layout, TokenCounter};

use crate::count::{above, count, count_up_to};
use crate::rejected_references;

/// The text of passages under headings, and the counter of its tokens.
///
/// A line `[DOC: path]` precedes the passages wherever the document changes, with an empty line before it unless it is
/// the first. Each passage ends with its line. Items that are not [passages](Passage) have no heading and follow an
/// empty line.
///
/// A pipeline with this layout counts the rendered text, and never selects one above its target.
#[derive(Debug, Clone)]
pub struct DocumentLayout {
    /// `None`: headings cost the minimum, and no text is counted.
    counter: Option<Arc<dyn TokenCounter>>,
    min_heading_tokens: i64,
    headings: Headings,
    marks_gaps: bool,
}

impl DocumentLayout {
    /// The default minimum tokens of a heading.
    pub const MIN_HEADING_TOKENS: i64 = 10;

    /// Counts texts with this counter, and charges a heading once for each document.
    pub fn new(counter: Arc<dyn TokenCounter>) -> Self {
        Self { counter: Some(counter), ..Self::uncounted() }
    }

    /// Counts no texts, and charges the minimum for each heading.
    pub fn uncounted() -> Self {
        Self {
            counter: None,
            min_heading_tokens: Self::MIN_HEADING_TOKENS,
            headings: Headings::Once,
            marks_gaps: false,
        }
    }

    /// Sets the minimum tokens of a heading. A longer heading is charged its count. A negative minimum counts as 0.
    #[must_use]
    pub fn with_min_heading_tokens(mut self, tokens: i64) -> Self {
        self.min_heading_tokens = tokens.max(0);
        self
    }

    /// Sets when a heading is charged: once for each document where a placer brings the passages of a document
    /// together, or at every change where they are sent in the order they were taken.
    #[must_use]
    pub fn with_headings(mut self, headings: Headings) -> Self {
        self.headings = headings;
        self
    }

    /// Sets whether a line `[…]` is written between passages of a document that do not adjoin. Default: no.
    #[must_use]
    pub fn with_gap_marks(mut self, marks_gaps: bool) -> Self {
        self.marks_gaps = marks_gaps;
        self
    }

    /// Returns the text of placed items.
    pub fn text(&self, items: &PlacedItems<'_>) -> String {
        self.render(items.items())
    }

    /// Returns the text of these items, in this order.
    pub fn render<'i>(&self, items: impl Iterator<Item = &'i ContextItem>) -> String {
        render(items, self.marks_gaps)
    }

    /// Returns what a heading for an item's document is charged; 0 if the item is not a passage.
    pub fn heading_tokens(&self, item: &ContextItem) -> i64 {
        let charge = |passage: Passage<'_>| {
            self.count_heading(passage.document).max(self.min_heading_tokens)
        };
        Passage::from_item(item).map_or(0, charge)
    }

    /// Counts a heading.
    fn count_heading(&self, document: &str) -> i64 {
        let Some(counter) = &self.counter else {
            return 0;
        };
        let mut text = String::from("\n");
        write_heading(&mut text, document);
        count(&**counter, &text)
    }
}

impl Layout for DocumentLayout {
    fn plan(&self, pool: &Pool<'_>) -> Result<Plan, Error> {
        let mut plan = Plan::default();
        plan.rejected = rejected_references(pool);
        let mut sections: BTreeMap<&str, SectionId> = BTreeMap::new();
        for item in pool.items() {
            let section = Passage::from_item(item).map(|passage| {
                *sections.entry(passage.document).or_insert_with(|| {
                    plan.sections.push(self.heading_tokens(item));
                    SectionId::new(plan.sections.len() as u32 - 1)
                })
            });
            let forms = 1 + item.forms().len();
            plan.section_of.extend(std::iter::repeat_n(section.unwrap_or_default(), forms));
        }
        if plan.sections.is_empty() {
            plan.section_of.clear();
        }
        plan.headings = self.headings;
        plan.is_exact = self.counter.is_none();
        Ok(plan)
    }

    fn measure(&self, items: &PlacedItems<'_>, up_to: i64) -> Result<Option<RenderCost>, Error> {
        let Some(counter) = &self.counter else {
            return Ok(None);
        };
        let Some(total) = count_up_to(&**counter, &self.text(items), up_to) else {
            return Ok(Some(above(up_to)));
        };
        let mut last = None;
        let framing = items.items().map(|item| {
            let document = Passage::from_item(item).map(|passage| passage.document);
            let opens = document.filter(|_| document != last);
            last = document;
            opens.map_or(0, |document| self.count_heading(document))
        });
        // Line ends are mostly paid by what a heading is charged beyond what it costs, or are merged; where they are
        // not, the whole is counted, and they are among what it costs beyond its parts.
        let mut cost = RenderCost::from_total(total, 0, sum_tokens(framing), items.tokens());
        // The passages keep the budget by their own counts, too: readers add those up.
        cost.other_limit_tokens = Some(items.tokens());
        Ok(Some(cost))
    }
}

/// Returns the text of these items, in this order.
pub fn render_documents<'i>(items: impl Iterator<Item = &'i ContextItem>) -> String {
    render(items, false)
}

/// The line between passages that do not adjoin.
const GAP: &str = "[…]";

fn render<'i>(items: impl Iterator<Item = &'i ContextItem>, marks_gaps: bool) -> String {
    let mut text = String::new();
    let mut last: Option<&str> = None;
    let mut last_end = 0;
    let mut written: Option<OutputTail> = None;
    for item in items {
        let content = item.content();
        let Some(passage) = Passage::from_item(item) else {
            separate(&mut text);
            write_line(&mut text, content);
            (last, written) = (None, None);
            continue;
        };
        let same_document = last == Some(passage.document);
        let before = written.take().filter(|_| same_document);
        if let Some(joined) = before.and_then(|before| before.join(&mut text, &passage, content)) {
            written = Some(joined);
            last_end = passage.range.end.max(last_end);
            continue;
        }
        if !same_document {
            separate(&mut text);
            write_heading(&mut text, passage.document);
            last = Some(passage.document);
        } else if marks_gaps && passage.range.start != last_end {
            let is_marked = text.trim_end().ends_with(GAP) || content.trim_start().starts_with(GAP);
            if !is_marked {
                write_line(&mut text, GAP);
            }
        }
        last_end = passage.range.end;
        write_line(&mut text, content);
        written = OutputTail::new(&passage, content);
    }
    text
}

/// Adds an empty line, unless the text is empty.
fn separate(text: &mut String) {
    if !text.is_empty() {
        text.push('\n');
    }
}

pub(crate) fn write_line(text: &mut String, content: &str) {
    text.push_str(content.strip_suffix('\n').unwrap_or(content));
    text.push('\n');
}

fn write_heading(text: &mut String, document: &str) {
    text.push_str("[DOC: ");
    write_name(text, document);
    text.push_str("]\n");
}

/// Writes the name of a document in brackets. Characters that could end it or begin another one are percent-encoded.
pub(crate) fn write_name(text: &mut String, document: &str) {
    for letter in document.chars() {
        if letter == ']' || letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}') {
            let mut bytes = [0; 4];
            for byte in letter.encode_utf8(&mut bytes).bytes() {
                text.push_str(&format!("%{byte:02X}"));
            }
        } else {
            text.push(letter);
        }
    }
}

/// The bytes of a document with which the text ends, without a gap.
pub(crate) struct OutputTail {
    sequence: u64,
    start: u64,
    end: u64,
    line_end: LineEnd,
}

/// The line break at the end of the text, compared with the document.
#[derive(Clone, Copy)]
enum LineEnd {
    /// The document has it.
    Own,
    /// The document lacks it.
    Added,
    /// The document has a second one.
    Short,
}

impl LineEnd {
    /// Compares the last written content, which may lack a line break of the document.
    fn after(written: &str, lacks_final_newline: bool) -> Self {
        match (written.ends_with('\n'), lacks_final_newline) {
            (true, false) | (false, true) => Self::Own,
            (false, false) => Self::Added,
            (true, true) => Self::Short,
        }
    }
}

/// Returns whether a content lacks the final line break of its range. `None` if their lengths differ otherwise, so that its
/// end is unknown.
fn lacks_final_newline(passage: &Passage<'_>, content: &str) -> Option<bool> {
    let Range { start, end } = passage.range;
    match end.saturating_sub(start).checked_sub(content.len() as u64)? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

impl OutputTail {
    pub(crate) fn new(passage: &Passage<'_>, content: &str) -> Option<Self> {
        let line_end = LineEnd::after(content, lacks_final_newline(passage, content)?);
        let (start, end) = (passage.range.start, passage.range.end);
        Some(Self { sequence: passage.sequence, start, end, line_end })
    }

    /// Appends a later passage of the document if there is no gap. Otherwise writes nothing.
    pub(crate) fn join(
        self,
        text: &mut String,
        passage: &Passage<'_>,
        content: &str,
    ) -> Option<Self> {
        let lacks_final_newline = lacks_final_newline(passage, content)?;
        let is_next = passage.sequence > self.sequence
            && (self.start..=self.end).contains(&passage.range.start);
        if !is_next {
            return None;
        }
        // For a moment, the text ends where the document's bytes do.
        let before = text.len();
        match self.line_end {
            LineEnd::Own => {}
            LineEnd::Added => text.truncate(before - 1),
            LineEnd::Short => text.push('\n'),
        }
        let suffix = self.unwritten_suffix(text, passage, content);
        if let Some(suffix) = suffix.filter(|_| passage.range.end > self.end) {
            write_line(text, suffix);
            let line_end = LineEnd::after(suffix, lacks_final_newline);
            let (sequence, end) = (passage.sequence, passage.range.end);
            return Some(Self { sequence, end, line_end, ..self });
        }
        match self.line_end {
            LineEnd::Own => {}
            LineEnd::Added => text.push('\n'),
            LineEnd::Short => text.truncate(before),
        }
        suffix.map(|_| Self { sequence: passage.sequence, ..self })
    }

    /// Returns the content after the end of the text, if the content before it agrees with the text.
    fn unwritten_suffix<'c>(
        &self,
        text: &str,
        passage: &Passage<'_>,
        content: &'c str,
    ) -> Option<&'c str> {
        let bytes = |count: u64| usize::try_from(count).ok();
        let shared = bytes(self.end.min(passage.range.end).checked_sub(passage.range.start)?)?;
        let last = text.len().checked_sub(bytes(self.end.saturating_sub(passage.range.end))?)?;
        let there = text.as_bytes().get(last.checked_sub(shared)?..last)?;
        match content.as_bytes().get(..shared) {
            Some(here) if here == there => content.get(shared..),
            Some(_) => None,
            // The line break that is missing here is among what both have.
            None => (there.strip_suffix(b"\n") == Some(content.as_bytes())).then_some(""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{render as render_with, render_documents as render, *};

    const FILE: &str = "# One\n\nTwo äö three.\n\n\nFour five\nsix";

    /// A passage of these bytes, optionally without the final line break.
    fn passage(document: &str, sequence: u64, range: Range<usize>, trim: bool) -> ContextItem {
        let content = &FILE[range.clone()];
        let content = if trim { content.strip_suffix('\n').unwrap_or(content) } else { content };
        let passage = Passage { document, sequence, range: range.start as u64..range.end as u64 };
        ContextItem::builder(content, 1).passage(&passage).build().unwrap()
    }

    fn other(content: &str) -> ContextItem {
        ContextItem::new(content, 1).unwrap()
    }

    #[test]
    fn a_heading_precedes_every_change_of_document() {
        let items = [
            passage("a.md", 0, 0..6, false),
            passage("a.md", 5, 25..34, false),
            passage("b.md", 0, 0..5, false),
            other("A note.\n"),
            other("Another."),
            passage("b.md", 1, 25..34, false),
        ];
        assert_eq!(
            render(items.iter()),
            "[DOC: a.md]\n# One\nFour five\n\n[DOC: b.md]\n# One\n\nA note.\n\nAnother.\n\n[DOC: b.md]\nFour five\n"
        );
        assert_eq!(render(items[3..4].iter()), "A note.\n");
        assert_eq!(render([].iter()), "");
    }

    #[test]
    fn adjacent_passages_reproduce_the_document() {
        // Every way to cut the file into three pieces that overlap or touch.
        let boundaries: Vec<usize> =
            (1..FILE.len()).filter(|at| FILE.is_char_boundary(*at)).collect();
        let expected = format!("[DOC: a.md]\n{FILE}\n");
        for one in &boundaries {
            for two in boundaries.iter().filter(|two| *two >= one) {
                for (back, forth) in [(0, 0), (1, 0), (2, 3), (9, 4)] {
                    let near = |at: &usize, by: usize| {
                        let at = at.saturating_sub(by);
                        (0..=at).rev().find(|at| FILE.is_char_boundary(*at)).unwrap_or(0)
                    };
                    for trims in 0..8_u8 {
                        let trim = |bit: u8| trims & 1 << bit != 0;
                        let starts = [0, near(one, back), near(two, forth).max(near(one, back))];
                        let ends = [*one, *two, FILE.len()];
                        // An item has a content.
                        let pieces = starts.iter().zip(ends).zip(0..);
                        let items: Vec<_> = pieces
                            .filter(|((start, end), bit)| {
                                let content = &FILE[**start..*end];
                                !(content.is_empty() || trim(*bit) && content == "\n")
                            })
                            .map(|((start, end), bit)| {
                                passage("a.md", u64::from(bit), *start..end, trim(bit))
                            })
                            .collect();
                        if items.len() == 3 {
                            assert_eq!(
                                render(items.iter()),
                                expected,
                                "{starts:?} {ends:?} {trims}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn passages_after_a_gap_are_written_in_full() {
        let first = || passage("a.md", 1, 7..15, false);
        for (second, continuation) in [
            // A gap; from before; the same again; of another document.
            (passage("a.md", 2, 16..21, false), "\nthree\n"),
            (passage("a.md", 2, 0..10, false), "\n# One\n\nTwo\n"),
            (passage("a.md", 1, 7..21, false), "\nTwo äö three\n"),
            (passage("b.md", 2, 11..21, false), "\n\n[DOC: b.md]\näö three\n"),
            // Cut short, and not what the range says.
            (cut("äö..."), "\näö...\n"),
            (cut("XXXX three"), "\nXXXX three\n"),
            // In the middle of the text, and nothing new.
            (passage("a.md", 2, 7..10, false), "\n"),
        ] {
            let text = render([first(), second].iter());
            let first = render([first()].iter());
            let expected = format!("{}{continuation}", first.strip_suffix('\n').unwrap());
            assert_eq!(text, expected);
        }
    }

    /// A passage whose content differs from its range.
    fn cut(content: &str) -> ContextItem {
        let passage = Passage { document: "a.md", sequence: 2, range: 11..21 };
        ContextItem::builder(content, 1).passage(&passage).build().unwrap()
    }

    #[test]
    fn gaps_between_passages_are_marked() {
        let items = [
            passage("a.md", 0, 0..6, false),
            passage("a.md", 1, 6..22, false),
            passage("a.md", 2, 25..34, false),
            cut("[…] six"),
            passage("b.md", 0, 0..5, false),
        ];
        assert_eq!(
            render_with(items.iter(), true),
            "[DOC: a.md]\n# One\n\nTwo äö three.\n[…]\nFour five\n[…] six\n\n[DOC: b.md]\n# One\n"
        );
    }

    #[test]
    fn a_path_cannot_forge_a_heading() {
        let items = [passage("a]\n[DOC: \u{2028}b\u{85}c%]", 0, 0..5, false)];
        assert_eq!(render(items.iter()), "[DOC: a%5D%0A[DOC: %E2%80%A8b%C2%85c%%5D]\n# One\n");
    }
}
