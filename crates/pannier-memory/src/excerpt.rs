//! Shortens entries: the paragraph that answers, and a title of one line.

use crate::Entry;

/// Longer titles of the specification's packets, and longer descriptions of skills, are truncated.
const MAX_TITLE_CHARS: usize = 200;

/// The labels of the paragraph that answers, in lower case.
const KEY_LABELS: [&str; 2] = ["decision", "lesson"];

/// The labels of paragraphs that only describe the entry, in lower case.
const FIELD_LABELS: [&str; 7] = ["author", "authors", "date", "deciders", "id", "status", "tags"];

/// Returns the paragraph of a text that answers: its decision or lesson, or else the first that is not a field such as
/// `**Status**: Accepted`.
pub(crate) fn key_paragraph(text: &str) -> Option<&str> {
    let paragraphs = paragraphs(text);
    let labeled = paragraphs.iter().enumerate().find_map(|(index, paragraph)| {
        let mut starts = line_starts(paragraph);
        let start = starts.find(|start| {
            label(first_line(&paragraph[*start..])).is_some_and(|(name, _)| is_key(name))
        })?;
        let labeled = &paragraph[start..];
        let (_, rest) = label(first_line(labeled))?;
        let is_heading = labeled.trim_start().starts_with('#');
        match rest.is_empty() && first_line(labeled).len() == labeled.trim_end().len() || is_heading
        {
            // The label is alone in its paragraph, or a heading.
            true => match labeled.split_once('\n').map(|(_, below)| below.trim()) {
                Some(below) if !below.is_empty() => Some(below),
                _ => paragraphs.get(index + 1).copied(),
            },
            false => Some(one_item(labeled)),
        }
    });
    let is_field = |paragraph: &str| {
        paragraph.lines().all(|line| {
            label(line)
                .is_some_and(|(name, _)| FIELD_LABELS.contains(&name.to_lowercase().as_str()))
        })
    };
    let mut others = paragraphs
        .iter()
        .copied()
        .filter(|paragraph| !paragraph.starts_with('#') && !is_field(paragraph));
    labeled.or_else(|| others.next()).or_else(|| paragraphs.first().copied())
}

/// Returns the whole title of an entry in one line. That of a list item is its first paragraph, joined across line breaks.
pub(crate) fn one_line_title(entry: &Entry) -> String {
    if entry.section().has_titles() {
        return entry.title().to_owned();
    }
    let paragraph = one_line_paragraph(entry);
    let words = paragraph.split_whitespace().filter(|word| !is_added_tag(word));
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the first paragraph of an entry in one line, without the items of a list in it.
pub(crate) fn one_line_paragraph(entry: &Entry) -> String {
    let paragraph = paragraphs(entry.text()).first().copied().unwrap_or_default();
    let mut lines = paragraph.lines().map(str::trim);
    let mut title = lines.next().unwrap_or_default().to_owned();
    for line in lines.take_while(|line| !starts_item(line)) {
        title = title + " " + line;
    }
    title
}

/// Returns whether a word is the tag of a date, which is printed by itself.
fn is_added_tag(word: &str) -> bool {
    word.starts_with("#added:")
}

/// Truncates a title to [`MAX_TITLE_CHARS`], at a word boundary unless that drops more than half.
pub(crate) fn truncate(title: &str) -> String {
    let longer = (title.len() > MAX_TITLE_CHARS).then(|| title.char_indices().nth(MAX_TITLE_CHARS));
    let Some((end, _)) = longer.flatten() else { return title.to_owned() };
    let cut = &title[..end];
    let boundary = cut.rfind(char::is_whitespace).filter(|index| *index > end / 2).unwrap_or(end);
    format!("{} …", cut[..boundary].trim_end())
}

/// Splits a text at blank lines outside of code blocks.
fn paragraphs(text: &str) -> Vec<&str> {
    let (mut paragraphs, mut start, mut end) = (Vec::new(), None, 0);
    let (mut fence, mut next) = (None, 0);
    for line in text.split_inclusive('\n') {
        let bare = line.trim();
        let mark = ["```", "~~~"].into_iter().find(|mark| bare.starts_with(mark));
        fence = match (fence, mark) {
            (None, mark) => mark,
            (Some(open), Some(mark)) if open == mark => None,
            (open, _) => open,
        };
        if bare.is_empty() && fence.is_none() {
            paragraphs.extend(start.take().map(|start: usize| text[start..end].trim_end()));
        } else if !bare.is_empty() {
            start = start.or(Some(next));
            end = next + line.len();
        }
        next += line.len();
    }
    paragraphs.extend(start.map(|start| text[start..end].trim_end()));
    paragraphs
}

fn line_starts(text: &str) -> impl Iterator<Item = usize> {
    [0].into_iter().chain(text.match_indices('\n').map(|(index, _)| index + 1))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Returns the label of a line such as `**Decision**: text`, `- Lesson: text` or `### Decision`, and the text after it.
fn label(line: &str) -> Option<(&str, &str)> {
    let bare = line.trim().trim_start_matches(['-', '+', '>', ' ', '\t']);
    let marks = ['*', '_', '#', ' '];
    let is_marked = bare.starts_with(['*', '_', '#']);
    let bare = bare.trim_start_matches(marks);
    let end = bare.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(bare.len());
    let (name, rest) = bare.split_at(end);
    let value = rest.trim_start_matches(marks);
    match value.strip_prefix([':', '\u{2014}']) {
        Some(value) => Some((name, value.trim_start_matches(marks))),
        None => (is_marked && value.is_empty()).then_some((name, "")),
    }
}

fn is_key(name: &str) -> bool {
    KEY_LABELS.iter().any(|label| name.eq_ignore_ascii_case(label))
}

fn starts_item(line: &str) -> bool {
    let digits = line.trim_start_matches(|digit: char| digit.is_ascii_digit());
    ["- ", "* ", "+ "].iter().any(|mark| line.starts_with(mark))
        || digits.len() < line.len() && digits.starts_with([')', '.'])
}

/// Returns the first item of a list, up to the line of the next one, or else the whole text.
fn one_item(text: &str) -> &str {
    let indent = text.len() - text.trim_start().len();
    let is_next = |start: &usize| {
        let line = &text[*start..];
        let line_indent = line.len() - line.trim_start_matches([' ', '\t']).len();
        let is_label =
            first_line(line).trim_start().starts_with("**") && label(first_line(line)).is_some();
        line_indent <= indent && (starts_item(line.trim_start()) || is_label)
    };
    let end = line_starts(text).skip(1).find(is_next).unwrap_or(text.len());
    text[..end].trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paragraph_that_answers_is_found() {
        for (text, paragraph) in [
            (
                "**Status**: Accepted\n\n**Decision**: Row\neast.\n\n**Why**: Wind.",
                "**Decision**: Row\neast.",
            ),
            ("**Context:** a\n**Lesson:** Row.\n**Application:** b", "**Lesson:** Row."),
            (
                "- **Date**: 2026-07-25\n- **Decision**: Row\n  east\n- **Why**: Wind",
                "- **Decision**: Row\n  east",
            ),
            ("### Context\n\na\n\n### Decision\n\nRow.\n\nMore.", "Row."),
            ("### Decision\nRow.\n\nMore.", "Row."),
            ("**Decision**\n\nRow.", "Row."),
            ("**Decision**:\n\n- Row\n- Sail\n\nb", "- Row\n- Sail"),
            ("**Status**: Accepted\n\nWords.\n\nMore.", "Words."),
            ("Decisions are hard.\n\nLesson learned", "Decisions are hard."),
            ("```\na\n\nb\n```\n\nc", "```\na\n\nb\n```"),
            ("**Status**: Accepted", "**Status**: Accepted"),
        ] {
            assert_eq!(key_paragraph(text), Some(paragraph), "{text}");
        }
        assert_eq!(key_paragraph(""), None);
    }

    #[test]
    fn titles_of_list_items_are_whole() {
        let words = "word ".repeat(100);
        let text = format!("- [ ] {words}\n  and more #added:2026-01-01\n  - [ ] below\n");
        let memory = crate::Memory::from_files([("TASKS.md", text)]);
        assert_eq!(one_line_title(&memory.entries()[0]), format!("{words}and more"));
    }

    #[test]
    fn long_titles_are_truncated_at_a_word() {
        assert_eq!(truncate("short"), "short");
        let long = truncate(&"word ".repeat(60));
        assert!(long.ends_with("word …") && long.chars().count() <= 202, "{long}");
    }
}
