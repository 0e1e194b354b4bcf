//! Windows: a passage cut to its best sentences.
//!
//! A passage is divided into sentences, in source code into lines. The sentences with the heaviest terms of the query are kept,
//! in their order, and `[…]` marks what is left out. A line of code means little without the name of its definition, so windows
//! of source code keep the line of the definition first. Windows of all lengths are the forms of a passage, so that the engine
//! chooses the longest that fits.

use std::collections::BTreeSet;
use std::ops::Range;

use pannier_text::{for_each_term, idf};

use crate::Hit;
use crate::chunk::Fence;

/// The mark of omitted text.
pub(crate) const OMISSION: &str = "[…]";

/// The maximum number of windows of a passage.
const MAX_WINDOWS: usize = 24;

/// The part of its neighbors' weight that a sentence gets: an answer is often next to the words of the question.
const NEIGHBOR_SHARE: f64 = 0.25;

/// A part of a passage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The kept sentences, with marks.
    pub(crate) text: String,
    /// The bytes of the document that it has.
    pub(crate) spans: Vec<Range<usize>>,
}

/// Returns the windows of a passage, longest first. `chunks` is the number of chunks in the index.
pub(crate) fn windows(hit: &Hit, chunks: usize) -> Vec<Window> {
    let is_prose = is_prose(&hit.path);
    let units = units(&hit.text, is_prose);
    // What follows the start of a cut code block is code up to its end.
    if units.len() < 2 || !hit.fence.is_empty() {
        return Vec::new();
    }
    let mut order = by_weight(hit, &units, chunks);
    if !is_prose {
        let definition = units.iter().position(|unit| is_code(&hit.text[unit.clone()]));
        order.sort_by_key(|position| Some(*position) != definition);
    }
    let step = units.len().div_ceil(MAX_WINDOWS);
    let counts = (1..units.len()).rev().step_by(step);
    counts.map(|count| window(hit, &units, &order[..count])).collect()
}

/// Returns the positions of sentences, those with the heaviest terms first.
fn by_weight(hit: &Hit, units: &[Range<usize>], chunks: usize) -> Vec<usize> {
    let terms = hit.lexical.iter().flat_map(|lexical| &lexical.terms);
    // The words of a phrase share its weight.
    let words = terms.flat_map(|term| {
        let words: Vec<&str> = term.term.trim_matches('"').split(' ').collect();
        let weight = idf(term.chunks, chunks) * f64::from(term.in_query) / words.len() as f64;
        words.into_iter().map(move |word| (word, weight))
    });
    let terms: Vec<(&str, f64)> = words.collect();
    let weight = |unit: &Range<usize>| -> f64 {
        let mut found = BTreeSet::new();
        for_each_term(&hit.text[unit.clone()], 0, |term| {
            found.extend(terms.iter().position(|(other, _)| *other == term.text));
        });
        found.into_iter().map(|position| terms[position].1).sum()
    };
    let own: Vec<f64> = units.iter().map(weight).collect();
    let at = |position: Option<usize>| {
        position.and_then(|position| own.get(position)).copied().unwrap_or_default()
    };
    let weight = |position: usize| {
        let neighbors = at(position.checked_sub(1)) + at(position.checked_add(1));
        own[position] + NEIGHBOR_SHARE * neighbors
    };
    let mut order: Vec<usize> = (0..units.len()).collect();
    order.sort_by(|a, b| weight(*b).total_cmp(&weight(*a)));
    order
}

/// Renders some sentences of a passage in their order.
fn window(hit: &Hit, units: &[Range<usize>], kept: &[usize]) -> Window {
    let text = hit.text.as_str();
    let kept: BTreeSet<usize> = kept.iter().copied().collect();
    let mut runs: Vec<Range<usize>> = Vec::new();
    for unit in kept.into_iter().map(|position| &units[position]) {
        match runs.last_mut() {
            Some(last) if last.end == unit.start => last.end = unit.end,
            _ => runs.push(unit.clone()),
        }
    }
    let mut window = Window { text: String::new(), spans: Vec::new() };
    let mut end = 0;
    for run in runs {
        let kept = text[run.clone()].trim_end();
        if run.start > end && !text[end..run.start].trim().is_empty() {
            mark(&mut window.text, text[..run.start].ends_with('\n'));
        }
        window.text.push_str(kept);
        window.spans.push(hit.range.start + run.start..hit.range.start + run.start + kept.len());
        end = run.start + kept.len();
    }
    if !text[end..].trim().is_empty() {
        let is_line = text[end..].trim_start_matches([' ', '\t', '\r']).starts_with('\n');
        window.text.push(if is_line { '\n' } else { ' ' });
        window.text.push_str(OMISSION);
    }
    window
}

/// Adds a mark before a sentence that starts a line or not.
fn mark(text: &mut String, is_line: bool) {
    let separator = if is_line { '\n' } else { ' ' };
    if !text.is_empty() {
        text.push(separator);
    }
    text.push_str(OMISSION);
    text.push(separator);
}

/// Returns whether a line of source code is neither a comment nor an attribute, as those of common languages start.
fn is_code(line: &str) -> bool {
    let line = line.trim_start();
    !["//", "/*", "*", "#", "@", "--", "\"\"\""].iter().any(|mark| line.starts_with(mark))
}

fn is_prose(path: &str) -> bool {
    let extension = path.rsplit('/').next().and_then(|name| name.rsplit_once('.'));
    extension.is_none_or(|(_, extension)| {
        ["md", "markdown", "mdx", "txt", "rst", "adoc", "org", "tex", "html"]
            .contains(&extension.to_lowercase().as_str())
    })
}

/// Divides a text into sentences, or into lines if it is not prose. A fenced code block is one unit.
fn units(text: &str, is_prose: bool) -> Vec<Range<usize>> {
    let mut ends = Vec::new();
    let (mut start, mut fence) = (0, Fence::default());
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let end = start + line.len();
        let trimmed = line.trim_start();
        let was_open = fence.is_open();
        match fence.read(line) {
            true => ends.push(if was_open { end } else { start }),
            false if was_open => {}
            false => {
                // A row of a table is one unit: its last cell ends after the full stop.
                if is_prose && !trimmed.starts_with('|') {
                    sentence_ends(line, start, &mut ends);
                }
                let is_paragraph_end = lines.peek().is_none_or(|next| starts_block(next));
                if !is_prose || trimmed.is_empty() || is_paragraph_end || trimmed.starts_with('#') {
                    ends.push(end);
                }
            }
        }
        start = end;
    }
    ends.push(text.len());
    let mut units: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    for end in ends {
        // Empty lines belong to what precedes them.
        match units.last_mut() {
            Some(last) if end > start && text[start..end].trim().is_empty() => last.end = end,
            _ if end > start => units.push(start..end),
            _ => continue,
        }
        start = end;
    }
    units
}

/// Returns whether a line starts a paragraph, a list item, a heading or a table row.
fn starts_block(line: &str) -> bool {
    let trimmed = line.trim_start();
    let digits = trimmed.trim_start_matches(|c: char| c.is_ascii_digit());
    trimmed.is_empty()
        || trimmed.starts_with(['#', '|', '>'])
        || ["- ", "* ", "+ "].iter().any(|mark| trimmed.starts_with(mark))
        || digits.len() < trimmed.len() && digits.starts_with(". ")
}

/// Adds the ends of sentences within a line: after a full stop and a space, before a character that can start a sentence.
fn sentence_ends(line: &str, start: usize, ends: &mut Vec<usize>) {
    let mut previous = ' ';
    let mut is_stopped = false;
    for (offset, letter) in line.char_indices() {
        if letter.is_whitespace() {
            is_stopped |= matches!(previous, '.' | '!' | '?');
        } else {
            if is_stopped && !letter.is_lowercase() && previous.is_whitespace() {
                ends.push(start + offset);
            }
            is_stopped = false;
        }
        // Quotes and brackets may follow the stop.
        if !matches!(letter, '"' | '\'' | ')' | ']' | '”' | '’') {
            previous = letter;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(text: &str, is_prose: bool) -> Vec<&str> {
        let units = units(text, is_prose);
        assert_eq!(units.iter().map(|unit| unit.len()).sum::<usize>(), text.len());
        units.into_iter().map(|unit| &text[unit]).collect()
    }

    #[test]
    fn prose_is_divided_into_sentences_and_code_into_lines() {
        assert_eq!(
            divided(
                "# Title\n\nOne is here. Two (it \"is.\") Is it?\nThree, e.g. that one\ngoes on.\n\n- a\n- b\n",
                true
            ),
            [
                "# Title\n\n",
                "One is here. ",
                "Two (it \"is.\") ",
                "Is it?\nThree, e.g. that one\ngoes on.\n\n",
                "- a\n",
                "- b\n"
            ]
        );
        assert_eq!(divided("a. B\n\nc\n", false), ["a. B\n\n", "c\n"]);
        let fenced = "Run it. Then:\n```sh\na. B\n\n# c\n```\nDone.";
        assert_eq!(
            divided(fenced, true),
            ["Run it. ", "Then:\n", "```sh\na. B\n\n# c\n```\n", "Done."]
        );
        for block in [
            "````md\n```sh\na. B\n```\nc. D\n````\n",
            "~~~\n```\na. B\n~~~\n",
            "> ```\n> a. B\n> ```\n",
        ] {
            assert_eq!(
                divided(&format!("Run it.\n{block}Done."), true),
                ["Run it.\n", block, "Done."]
            );
        }
        assert_eq!(divided("| a. B. |\n| c |\n", true), ["| a. B. |\n", "| c |\n"]);
        assert_eq!(divided("", true), Vec::<&str>::new());
    }

    #[test]
    fn windows_of_source_code_start_with_the_definition() {
        let text = "/// Opens a door.\n#[must_use]\npub fn open(door: u32) -> bool {\n    let key = find(door);\n    key > 0\n}\n";
        let chunk =
            crate::Chunk::new(0..text.len(), 1, String::new(), String::new(), String::new());
        let shortest = |path: &str| {
            let hit = Hit::new(String::new(), (0, path, None), 0, chunk.clone(), text.to_owned());
            windows(&hit, 1).pop().map(|window| window.text)
        };
        let definition = "[…]\npub fn open(door: u32) -> bool {\n[…]";
        assert_eq!(shortest("door.rs").as_deref(), Some(definition));
        assert_ne!(shortest("door.md").as_deref(), Some(definition));
    }
}
