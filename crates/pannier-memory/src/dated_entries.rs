//! Parses entries that have a heading with a date: decisions and learnings.
//!
//! A heading of level 2 or 3 with a date in brackets starts an entry: `## [2026-07-25-194549] Title`. The next heading of
//! the same or a higher level ends it. Only `#` headings count: a paragraph directly above the `---` that closes an entry
//! is a setext heading in Markdown, but nobody means it as one.

use std::ops::Range;

use crate::date::{self, ParsedDate};
use crate::entry::Draft;
use crate::markdown::{Heading, Outline, close_open_blocks};
use crate::memory::Problem;
use crate::text::trimmed;

/// The heading of an entry.
struct EntryStart {
    level: u8,
    range: Range<usize>,
    title: String,
    /// The text in brackets.
    stamp: String,
    date: ParsedDate,
}

/// Returns the entries of a file in order.
pub(crate) fn entries(outline: &Outline, problems: &mut Vec<Problem>) -> Vec<Draft> {
    let mut entries = Vec::new();
    let mut open: Option<EntryStart> = None;
    for heading in &outline.headings {
        let start = parse_heading(outline, heading);
        let is_end = open.as_ref().is_some_and(|open| heading.level <= open.level);
        if start.is_none() && (is_end || open.is_none()) {
            problems.extend(near_miss(outline, heading));
        }
        if start.is_none() && !is_end {
            continue;
        }
        let ended = std::mem::replace(&mut open, start);
        entries.extend(ended.map(|start| draft(outline, start, heading.range.start, problems)));
    }
    entries.extend(open.map(|start| draft(outline, start, outline.text().len(), problems)));
    entries
}

/// Parses the heading of an entry. Returns `None` for other headings.
fn parse_heading(outline: &Outline, heading: &Heading) -> Option<EntryStart> {
    if !matches!(heading.level, 2 | 3) {
        return None;
    }
    let line = outline.without_comments(heading.range.clone());
    let line = line.trim().trim_start_matches('#').trim();
    // Markdown allows a closing sequence of `#` after whitespace.
    let unmarked = line.trim_end_matches('#');
    let line = if unmarked.ends_with([' ', '\t']) { unmarked.trim_end() } else { line };
    let (stamp, title) = line.strip_prefix('[')?.split_once(']')?;
    let (stamp, title) = (stamp.trim().to_owned(), title.trim().to_owned());
    let date = date::parse(&stamp)?;
    Some(EntryStart { level: heading.level, range: heading.range.clone(), title, stamp, date })
}

/// Returns a problem for a heading that contains a date but does not start an entry.
fn near_miss(outline: &Outline, heading: &Heading) -> Option<Problem> {
    let text = &outline.text()[heading.range.clone()];
    let day = text.char_indices().find_map(|(index, _)| date::day(&text[index..]))?;
    let problem =
        format!("the heading has a date but does not start an entry; write '## [{day}] Title'");
    Some(Problem { line: outline.line(heading.range.start), problem })
}

/// Returns the entry from `start` to the byte position `end`.
fn draft(outline: &Outline, start: EntryStart, end: usize, problems: &mut Vec<Problem>) -> Draft {
    let EntryStart { range, mut title, stamp, date, .. } = start;
    let line = outline.line(range.start);
    problems.extend(date.problem.map(|problem| Problem { line, problem }));
    let whole = range.end..end;
    let body = without_rule(outline, whole.clone());
    let text = trimmed(&outline.without_comments(body.clone()));
    // A block that is still open at the end of an entry is open to the end of the file: otherwise the next heading would
    // not be a heading. Removing comments or the first line can open a block, too.
    let may_be_open = outline.unclosed.is_some() || outline.has_comment(&whole) || title.is_empty();
    let text = match title.is_empty() {
        // The first line becomes the title, and is not repeated in the text.
        true => {
            let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
            title = first.trim().to_owned();
            trimmed(rest)
        }
        false => text,
    };
    let text = if may_be_open { close_open_blocks(text) } else { text };
    let title = if title.is_empty() { stamp } else { title };
    let is_superseded = says_superseded(&title) || is_superseded(outline, body);
    Draft { title, list_intro: None, text, date: date.date, is_superseded, line }
}

/// Returns a body without the `---` lines and comments at its end.
fn without_rule(outline: &Outline, body: Range<usize>) -> Range<usize> {
    let mut body = body;
    loop {
        body.end = outline.trimmed_end(&body);
        let text = &outline.text()[body.clone()];
        let line = text.rfind('\n').map_or(0, |index| index + 1);
        let is_rule =
            text[line..].trim().len() >= 3 && text[line..].trim().bytes().all(|byte| byte == b'-');
        if !is_rule || outline.is_code_or_comment(body.start + line) {
            return body;
        }
        body.end = body.start + line;
    }
}

/// Returns whether a line of the body marks the entry as superseded.
fn is_superseded(outline: &Outline, body: Range<usize>) -> bool {
    let mut next = body.start;
    outline.text()[body].split_inclusive('\n').any(|line| {
        let start = next;
        next += line.len();
        let indent = line.len() - line.trim_start().len();
        // The line may be quoted, a list item or bold.
        let bare = line.trim_start_matches([' ', '\t', '>', '-', '*', '+']);
        (says_superseded(bare) || is_status_superseded(line))
            && !outline.is_code_or_comment(start + indent)
    })
}

/// Returns whether `line` begins with `~~Superseded`.
fn says_superseded(line: &str) -> bool {
    line.strip_prefix("~~").is_some_and(begins_superseded)
}

/// Returns whether `line` is a bold status field with the value `Superseded`, and not a template's list of all values.
fn is_status_superseded(line: &str) -> bool {
    let line = line.trim_start();
    let line =
        line.strip_prefix(['-', '*', '+']).filter(|rest| rest.starts_with(' ')).unwrap_or(line);
    let Some((name, value)) = line.split_once(':') else { return false };
    let name = name.trim_matches([' ', '\t', '*', '_']);
    let value = value.trim_matches([' ', '\t', '\n', '*', '_', '~', '`']);
    let is_bold = line.trim_start().starts_with(['*', '_']);
    is_bold
        && name.eq_ignore_ascii_case("status")
        && begins_superseded(value)
        && !value[SUPERSEDED.len()..].trim_start().starts_with(['|', '/'])
}

const SUPERSEDED: &str = "superseded";

fn begins_superseded(text: &str) -> bool {
    let word = text.get(..SUPERSEDED.len());
    word.is_some_and(|word| word.eq_ignore_ascii_case(SUPERSEDED))
        && !text[SUPERSEDED.len()..].starts_with(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Draft> {
        let mut problems = Vec::new();
        let entries = entries(&Outline::new(text), &mut problems);
        assert_eq!(problems, [], "{text}");
        entries
    }

    fn titles(text: &str) -> Vec<String> {
        read(text).into_iter().map(|entry| entry.title).collect()
    }

    #[test]
    fn headings_with_dates_start_entries() {
        let text = "# Decisions\n\nIntro.\n\n## [2026-07-25-194549] Row east\n\n**Context**: Wind.\n\n---\n\n## [2026-07-24] Rest ##\nBody.\n### [2026-07-23] Deeper\nBelow.\n";
        let entries = read(text);
        let shown: Vec<(&str, &str, usize)> = entries
            .iter()
            .map(|entry| (entry.title.as_str(), entry.text.as_str(), entry.line))
            .collect();
        assert_eq!(
            shown,
            [
                ("Row east", "**Context**: Wind.", 5),
                ("Rest", "Body.", 11),
                ("Deeper", "Below.", 13)
            ]
        );
        assert_eq!(entries[0].date, "2026-07-25T19:45:49Z".parse().ok());
        assert_eq!(entries[1].date, "2026-07-24T00:00:00Z".parse().ok());
    }

    #[test]
    fn other_headings_do_not_start_entries() {
        let none = "# [2026-07-25] one\n#### [2026-07-25] four\n## [YYYY-MM-DD] form\n## Title\n## 2026-07-25 bare\n##[2026-07-25] tight\n> ## [2026-07-25] quoted\n\n- ## [2026-07-25] item\n\n[2026-07-25] underlined\n---\n\n    ## [2026-07-25] code\n";
        let mut problems = Vec::new();
        assert_eq!(entries(&Outline::new(none), &mut problems), []);
        let lines: Vec<usize> = problems.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [1, 2, 5], "{problems:?}");
        assert!(problems[2].problem.contains("write '## [2026-07-25] Title'"));
        let hidden = "<!--\n## [2026-07-25] decoy\n-->\n```\n## [2026-07-25] decoy\n```\n## [2026-07-25] real\n~~~md\n## [2026-07-25] decoy\n~~~\n";
        assert_eq!(titles(hidden), ["real"]);
        assert_eq!(titles("text\n   ## [2026-07-25] indented\n"), ["indented"]);
    }

    #[test]
    fn first_line_is_the_title_if_the_heading_has_none() {
        let entries = read("## [2026-07-25]\n\nFirst line.\n\nMore.\n## [2026-07-24]\n");
        let shown = |entry: &Draft| (entry.title.clone(), entry.text.clone());
        assert_eq!(shown(&entries[0]), ("First line.".to_owned(), "More.".to_owned()));
        assert_eq!(shown(&entries[1]), ("2026-07-24".to_owned(), String::new()));
    }

    #[test]
    fn an_entry_ends_at_a_heading_of_its_level_or_above() {
        let text = |ending: &str| {
            let text = format!(
                "## [2026-07-25] a\nin\n{ending}\nafter\n### [2026-07-24] b\nin\n{ending}\nafter\n"
            );
            read(&text).into_iter().map(|entry| entry.text).collect::<Vec<_>>()
        };
        assert_eq!(text("## Other"), ["in", "in"]);
        assert_eq!(text("# Other"), ["in", "in"]);
        assert_eq!(text("### Other"), ["in\n### Other\nafter", "in"]);
        assert_eq!(text("#### Other"), ["in\n#### Other\nafter", "in\n#### Other\nafter"]);
        assert_eq!(text("Other\n==="), ["in\nOther\n===\nafter", "in\nOther\n===\nafter"]);
    }

    #[test]
    fn closing_rule_is_not_part_of_the_entry() {
        let body = |text: &str| read(&format!("## [2026-07-25] a\n{text}")).remove(0).text;
        assert_eq!(body("\n\nwords\n\n---\n\n"), "words");
        // In Markdown, this is a setext heading.
        assert_eq!(body("words\n---\n"), "words");
        assert_eq!(body("words\n\n---\n<!-- c -->\n\n---\n"), "words");
        assert_eq!(body("one\n\n---\n\ntwo"), "one\n\n---\n\ntwo");
        assert_eq!(body("```\nwords\n---\n"), "```\nwords\n---\n```");
        assert_eq!(body(""), "");
        assert_eq!(body("---\n"), "");
    }

    #[test]
    fn open_blocks_are_closed() {
        let body = |text: &str| read(&format!("## [2026-07-25] a\n{text}")).remove(0).text;
        assert_eq!(
            body("~~~~ sh\n~~~\n## [2026-07-24] b"),
            "~~~~ sh\n~~~\n## [2026-07-24] b\n~~~~"
        );
        assert_eq!(body("```\nx\n```"), "```\nx\n```");
        assert_eq!(body("<pre>\nx"), "<pre>\nx\n</pre>");
        assert_eq!(body("words <!-- kept"), "words <!-- kept");
        assert_eq!(body("words\n<!-- gone\n"), "words");
        assert_eq!(body("- a\n  ```\n  b"), "- a\n  ```\n  b");
    }

    #[test]
    fn title_falls_back_to_the_first_line_and_then_the_date() {
        assert_eq!(titles("## [2026-07-25]\n\nFirst line.\nSecond.\n"), ["First line."]);
        assert_eq!(titles("## [2026-07-25] <!-- c -->\n"), ["2026-07-25"]);
        assert_eq!(titles("## [2026-07-25]Tight C#\n"), ["Tight C#"]);
        // Without its first line, the rest has another structure and is closed accordingly.
        let entry = read("## [2026-07-25]\n<script>\n- \n<pre>").remove(0);
        assert_eq!((&*entry.title, &*entry.text), ("<script>", "- \n<pre>\n</pre>"));
    }

    #[test]
    fn strikethrough_and_status_mark_superseded_entries() {
        let is_superseded =
            |body: &str| read(&format!("## [2026-07-25] a\n{body}\n"))[0].is_superseded;
        for yes in [
            "~~Superseded by b~~",
            "words\n\n  ~~Superseded~~",
            "**Status**: Superseded by [2026-07-26] b",
            "**Status:** superseded",
            "**Status**: ~~Superseded~~",
            "- **STATUS**: Superseded.",
        ] {
            assert!(is_superseded(yes), "{yes}");
        }
        for no in [
            "**Status**: Accepted | Superseded | Deprecated",
            "**Status**: Superseded | Accepted",
            "**Status**: Accepted (the old one is superseded)",
            "**Status**: Supersededness",
            "It says ~~Superseded~~ somewhere",
            "```\n~~Superseded~~\n```",
            "<!-- \n**Status**: Superseded\n-->",
            "<!-- c -->\n    ~~Superseded~~",
            "Status: Superseded",
            "**Supersedes**: b",
        ] {
            assert!(!is_superseded(no), "{no}");
        }
        assert!(read("## [2026-07-25] ~~Superseded: a~~\n")[0].is_superseded);
    }

    #[test]
    fn invalid_dates_are_reported() {
        let mut problems = Vec::new();
        let entries = entries(&Outline::new("\n## [2026-13-45] a\nb"), &mut problems);
        assert_eq!((entries[0].date, entries[0].title.as_str()), (None, "a"));
        assert_eq!(problems[0].line, 2);
    }
}
