//! Entries as Markdown.

use std::borrow::Cow;

use crate::{Entry, Section};

/// Renders a whole entry in Markdown.
pub(super) fn markdown_entry(entry: &Entry, task_marker: &str, content: &str) -> String {
    match entry.section() {
        Section::Tasks => bullet(task_marker, content),
        Section::Decisions | Section::Learnings => {
            ["### ", &date_prefix(entry), &demote_headings(content), "\n\n"].concat()
        }
        Section::Instructions | Section::Skills => {
            ["### ", &demote_headings(content), "\n\n"].concat()
        }
        _ => bullet("- ", content),
    }
}

/// Returns the whole text of an entry: with its title if it is dated, or else with the introduction of its list.
pub(super) fn content(entry: &Entry) -> Cow<'_, str> {
    let (title, text) = (entry.title(), entry.text());
    let parts = match (entry.section().has_titles(), entry.list_intro()) {
        (true, _) if text.is_empty() => return title.into(),
        (true, _) => [title, "\n\n", text],
        (false, None) => return text.into(),
        // Only a paragraph can continue the line of the introduction.
        (false, Some(intro)) if starts_with_block(text) => [intro, "\n\n", text],
        (false, Some(intro)) => [intro, " ", text],
    };
    parts.concat().into()
}

/// Returns whether the first characters of `text` begin a Markdown block other than a paragraph.
pub(super) fn starts_with_block(text: &str) -> bool {
    let marks = ["```", "~~~", ">", "|", "#", "- ", "* ", "+ ", "    ", "<"];
    let digits = text.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let is_numbered = digits.len() < text.len() && digits.starts_with([')', '.']);
    is_numbered || marks.iter().any(|mark| text.starts_with(mark))
}

/// Returns the day of a dated entry in brackets, unless its title begins with it.
pub(super) fn date_prefix(entry: &Entry) -> String {
    let date = entry.date().filter(|_| entry.section().is_dated());
    let day = date.map(|date| date.to_string()[..10].to_owned());
    let is_new = |day: &String| !entry.title().starts_with(day.as_str());
    day.filter(is_new).map(|day| ["[", &day, "] "].concat()).unwrap_or_default()
}

/// Demotes `#` headings to level 4, below the heading of an entry in a packet. Underlined headings stay.
pub(super) fn demote_headings(text: &str) -> Cow<'_, str> {
    if !text.lines().any(|line| line.starts_with('#')) {
        return Cow::Borrowed(text);
    }
    let mut fence: Option<&str> = None;
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let bare = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| bare.starts_with(mark));
        fence = match (fence, mark) {
            (None, mark) => mark,
            (Some(open), Some(mark)) if open == mark => None,
            (open, _) => open,
        };
        let level = line.len() - line.trim_start_matches('#').len();
        let is_heading = (1..=3).contains(&level) && line[level..].starts_with(' ');
        match is_heading && fence.is_none() {
            true => lines.push(format!("####{}", &line[level..])),
            false => lines.push(line.to_owned()),
        }
    }
    Cow::Owned(lines.join("\n"))
}

/// Renders a list item. Further lines are indented to match the marker.
pub(crate) fn bullet(marker: &str, text: &str) -> String {
    let indent = if marker.starts_with(' ') { "    " } else { "  " };
    let mut item = String::with_capacity(marker.len() + text.len() + 16);
    for (number, line) in text.lines().enumerate() {
        match (number, line.is_empty()) {
            (0, _) => item.push_str(marker),
            (_, true) => {}
            (_, false) => item.push_str(indent),
        }
        item.push_str(line);
        item.push('\n');
    }
    item
}
