//! What is read of each line of a file.
//!
//! Entries, headings and comments mark the lines that they cover. What no entry covers is split into blocks, which become
//! entries of their own: no text of a file is lost. [`Coverage`] reports the result.

use std::ops::Range;

use serde::Serialize;

use crate::markdown::Outline;

/// How a line is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineKind {
    Blank,
    /// Text that nothing covers yet.
    Text,
    Entry,
    Heading,
    /// A comment, an index, a separator, a lone HTML tag or the mark of an alert.
    Skipped,
    /// A completed or skipped task.
    Done,
    /// A list item without text.
    Empty,
}

/// What is read of a file, in lines that are not blank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Coverage {
    /// The path of the file below the project root, with forward slashes.
    pub path: String,
    /// The number of entries.
    pub entries: usize,
    /// All lines that are not blank.
    pub lines: usize,
    /// Lines in entries.
    pub in_entries: usize,
    /// Lines of headings above entries.
    pub headings: usize,
    /// Lines of completed and skipped tasks.
    pub done: usize,
    /// Lines of comments, indexes and separators.
    pub skipped: usize,
    /// The numbers of all other lines, such as items without text.
    pub uncovered: Vec<usize>,
    /// Whether the packet only names the file, as one to read.
    pub is_listed: bool,
    /// The file with the same content, if one was read before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_as: Option<String>,
}

/// The kinds of all lines of a file.
#[derive(Debug)]
pub(crate) struct LineMap {
    kinds: Vec<LineKind>,
}

impl LineMap {
    pub(crate) fn new(outline: &Outline) -> Self {
        let text = outline.text();
        let (mut kinds, mut start) = (Vec::new(), 0);
        for line in text.split_inclusive('\n') {
            let range = start..start + line.len();
            start = range.end;
            let indent = line.len() - line.trim_start().len();
            kinds.push(match line.trim() {
                "" if outline.open_comments.contains(&(kinds.len() + 1)) => LineKind::Skipped,
                "" => LineKind::Blank,
                _ if outline.is_in_index(range.start + indent) => LineKind::Skipped,
                _ if outline.has_comment(&range)
                    && outline.without_comments(range.clone()).trim().is_empty() =>
                {
                    LineKind::Skipped
                }
                line if (is_separator(line) || is_tag(line) || is_alert(line))
                    && !outline.is_code_or_comment(range.start + indent) =>
                {
                    LineKind::Skipped
                }
                _ => LineKind::Text,
            });
        }
        let mut map = Self { kinds };
        for heading in &outline.headings {
            map.mark(outline, &heading.range, LineKind::Heading);
        }
        map
    }

    /// Marks the lines of a range that are not blank, without trailing comments.
    pub(crate) fn mark(&mut self, outline: &Outline, range: &Range<usize>, kind: LineKind) {
        let end = outline.trimmed_end(range);
        if end > range.start {
            let lines = outline.line(range.start) - 1..outline.line(end - 1);
            let lines = lines.start.min(self.kinds.len())..lines.end.min(self.kinds.len());
            let is_marked = |line: &&mut LineKind| !matches!(line, LineKind::Blank);
            self.kinds[lines].iter_mut().filter(is_marked).for_each(|line| *line = kind);
        }
    }

    /// Returns whether the first line of a range is text that nothing covers.
    pub(crate) fn is_text(&self, outline: &Outline, position: usize) -> bool {
        self.kinds.get(outline.line(position) - 1) == Some(&LineKind::Text)
    }

    /// Returns whether a range has text that nothing covers.
    pub(crate) fn has_text(&self, outline: &Outline, range: &Range<usize>) -> bool {
        let lines = outline.line(range.start) - 1..outline.line(range.end);
        let lines = lines.start.min(self.kinds.len())..lines.end.min(self.kinds.len());
        self.kinds[lines].contains(&LineKind::Text)
    }

    /// Returns the text that nothing covers: consecutive lines, split at blank lines outside of code.
    pub(crate) fn blocks(&self, outline: &Outline) -> Vec<Range<usize>> {
        let mut blocks: Vec<Range<usize>> = Vec::new();
        let mut is_open = false;
        for (index, kind) in self.kinds.iter().enumerate() {
            let range = outline.line_range(index + 1);
            let is_code = outline.is_code_or_comment(range.start);
            match (kind, blocks.last_mut()) {
                (LineKind::Text, Some(block)) if is_open => block.end = range.end,
                (LineKind::Text, _) => blocks.push(range),
                (LineKind::Blank, _) if is_open && is_code => continue,
                _ => {}
            }
            is_open = *kind == LineKind::Text;
        }
        blocks
    }

    /// Returns the coverage of the file. The packet names files without entries only.
    pub(crate) fn coverage(&self, path: &str, entries: usize, is_listed: bool) -> Coverage {
        let count = |kind: LineKind| self.kinds.iter().filter(|other| **other == kind).count();
        let is_uncovered = |kind: &LineKind| matches!(kind, LineKind::Text | LineKind::Empty);
        let uncovered = self.kinds.iter().zip(1..).filter(|(kind, _)| is_uncovered(kind));
        let uncovered = uncovered.filter(|_| !is_listed).map(|(_, line)| line);
        Coverage {
            path: path.to_owned(),
            entries,
            lines: self.kinds.len() - count(LineKind::Blank),
            in_entries: count(LineKind::Entry),
            headings: count(LineKind::Heading),
            done: count(LineKind::Done),
            skipped: count(LineKind::Skipped),
            uncovered: uncovered.collect(),
            is_listed,
            same_as: None,
        }
    }
}

/// Returns whether a line is a thematic break.
fn is_separator(line: &str) -> bool {
    let marks = line.chars().filter(|mark| !mark.is_whitespace());
    ['-', '*', '_']
        .iter()
        .any(|mark| marks.clone().all(|other| other == *mark) && marks.clone().nth(2).is_some())
}

/// Returns whether a line is the mark of an alert, such as `> [!IMPORTANT]`.
fn is_alert(line: &str) -> bool {
    line.strip_prefix('>').is_some_and(|line| {
        let name = line.trim().strip_prefix("[!").and_then(|line| line.strip_suffix(']'));
        name.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_uppercase()))
    })
}

/// Returns whether a line is one HTML tag, such as `<details>`, and nothing else.
fn is_tag(line: &str) -> bool {
    let name = line.strip_prefix('<').and_then(|line| line.strip_suffix('>'));
    name.is_some_and(|name| {
        name.trim_start_matches('/').starts_with(|first: char| first.is_ascii_alphabetic())
            && !name.contains(['<', '>', ':', '@'])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_and_tags_are_recognized() {
        for line in ["---", "* * *", "____", "- - -"] {
            assert!(is_separator(line), "{line}");
        }
        assert!(!is_separator("--") && !is_separator("-*-") && !is_separator("- a"));
        assert!(is_alert("> [!NOTE]") && !is_alert("> [!NOTE] x") && !is_alert("[!NOTE]"));
        assert!(is_tag("<details>") && is_tag("</details>") && is_tag("<a name=\"x\">"));
        assert!(!is_tag("<https://x.org>") && !is_tag("<b>x</b>") && !is_tag("<!-- x -->"));
    }

    #[test]
    fn blocks_are_split_at_blank_lines_outside_of_code() {
        let text = "# A\n\none\ntwo\n\n```\na\n\nb\n```\n\n---\n<!-- c -->\nthree <!-- c -->\n";
        let outline = Outline::new(text);
        let blocks = LineMap::new(&outline).blocks(&outline);
        let blocks: Vec<&str> = blocks.into_iter().map(|block| &text[block]).collect();
        assert_eq!(blocks, ["one\ntwo", "```\na\n\nb\n```", "three <!-- c -->"]);
    }
}
