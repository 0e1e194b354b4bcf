//! Parses decisions and learnings: entries with a heading, list items and rows of tables.
//!
//! A heading of level 2 or 3 with a date in brackets starts an entry: `## [2026-07-25-194549] Title`. The next heading of
//! the same or a higher level ends it. Only `#` headings count: a paragraph directly above the `---` that closes an entry
//! is a setext heading in Markdown, but nobody means it as one.
//!
//! People write other headings, too: with a date (`## 2026-07-25: Title`), with a number (`## ADR-001: Title`), or with a
//! title only. All of them start entries, except for a heading that only groups the entries below it. Text outside of
//! entries is read as list items, as rows of a table, or as a section with the heading above it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use pannier_core::Timestamp;

use crate::date;
use crate::entry::Draft;
use crate::entry_heading::{EntryStart, is_part, parse_heading, parse_stamp};
use crate::line_map::{LineKind, LineMap};
use crate::list_entries;
use crate::markdown::{Heading, Outline, close_open_blocks};
use crate::memory::Problem;
use crate::superseded::{is_superseded, says_superseded};
use crate::table_entries::{entry_words, table_rows, words};
use crate::text::trimmed;

/// Returns the entries of a file in order.
pub(crate) fn entries(
    outline: &Outline,
    lines: &mut LineMap,
    problems: &mut Vec<Problem>,
) -> Vec<Draft> {
    let mut entries = Vec::new();
    let mut open: Option<EntryStart> = None;
    for (index, heading) in outline.headings.iter().enumerate() {
        let start = parse_heading(outline, heading);
        let is_own_part = |open: &EntryStart| !open.is_specified && open.level == heading.level;
        if is_part(&start.title) && open.as_ref().is_some_and(is_own_part) {
            continue;
        }
        let is_start = match &open {
            Some(open) if heading.level > open.level => {
                start.is_specified || start.is_stamped && !open.is_stamped
            }
            _ => start.is_stamped || has_own_text(outline, lines, index),
        };
        let is_end = open.as_ref().is_some_and(|open| heading.level <= open.level);
        if !is_start && !is_end {
            continue;
        }
        let ended = std::mem::replace(&mut open, is_start.then_some(start));
        if let Some(start) = ended {
            entries.extend(section(outline, start, heading.range.start, lines, problems));
        }
    }
    if let Some(start) = open {
        entries.extend(section(outline, start, outline.text().len(), lines, problems));
    }
    problems.extend(hidden_entries(outline));
    entries.extend(other_entries(outline, lines, &entries));
    entries.sort_by_key(|entry| entry.line);
    entries
}

/// Returns a problem for each comment with two or more headings that have a date or a number. A template has one at most, so
/// these may be entries after a comment that somebody closed too late.
fn hidden_entries(outline: &Outline) -> impl Iterator<Item = Problem> {
    outline.comments().iter().filter_map(|comment| {
        let (mut start, text) = (comment.start, &outline.text()[comment.clone()]);
        let mut entries = text.split_inclusive('\n').filter_map(|line| {
            let position = start;
            start += line.len();
            parse_stamp(line.trim_start().strip_prefix('#')?.trim_start_matches('#').trim())
                .2
                .then_some(position)
        });
        let (first, others) = (entries.next()?, entries.count());
        let problem = format!(
            "the comment around this entry hides it and {others} more; close the comment before it"
        );
        (others > 0).then(|| Problem { line: outline.line(first), problem })
    })
}

/// Returns whether the heading of a part of an entry follows, or text, except below the title of the file. Other headings
/// only group those below.
fn has_own_text(outline: &Outline, lines: &LineMap, index: usize) -> bool {
    let heading = &outline.headings[index];
    let next = outline.headings.get(index + 1);
    let is_own_part = |next: &&Heading| {
        next.level > heading.level && is_part(&parse_heading(outline, next).title)
    };
    let body = heading.range.end..next.map_or(outline.text().len(), |next| next.range.start);
    next.filter(is_own_part).is_some() || heading.level > 1 && lines.has_text(outline, &body)
}

/// Returns the entry from `start` to the byte position `end`, or one for each row if it is a table and nothing else.
fn section(
    outline: &Outline,
    start: EntryStart,
    end: usize,
    lines: &mut LineMap,
    problems: &mut Vec<Problem>,
) -> Vec<Draft> {
    let whole = start.range.start..end;
    let body = start.range.end..end;
    let rows = match start.is_stamped {
        true => Vec::new(),
        false => table_rows(outline, &(body.start..outline.trimmed_end(&body))),
    };
    lines.mark(outline, &whole, LineKind::Entry);
    if rows.is_empty() { vec![draft(outline, start, end, problems)] } else { rows }
}

/// Returns the entries outside of headings: list items, rows of tables, and text with the heading above it, except for the
/// rows of an index of `others`.
fn other_entries(outline: &Outline, lines: &mut LineMap, others: &[Draft]) -> Vec<Draft> {
    let mut titled: BTreeMap<&str, Vec<&Draft>> = BTreeMap::new();
    others.iter().for_each(|entry| titled.entry(&entry.title).or_default().push(entry));
    let mut known: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut is_repeated = |row: &Draft| {
        let Some((title, others)) = titled.get_key_value(row.title.as_str()) else { return false };
        let all = || others.iter().flat_map(|entry| entry_words(entry)).collect();
        let known = known.entry(title).or_insert_with(all);
        words(&outline.text()[outline.line_range(row.line)]).all(|word| known.contains(word))
    };
    let mut entries = Vec::new();
    for item in outline.items.iter().filter(|item| item.depth == 0) {
        if !lines.is_text(outline, item.range.start) {
            continue;
        }
        match list_entries::draft(outline, item, 0) {
            Some(item) => entries.push(item_entry(item)),
            None => {
                lines.mark(outline, &item.range, LineKind::Empty);
                continue;
            }
        }
        lines.mark(outline, &item.range, LineKind::Entry);
        if let Some(Some(intro)) = outline.intros.get(item.list) {
            lines.mark(outline, intro, LineKind::Entry);
        }
    }
    // The text under each heading is one entry.
    let mut sections: Vec<(Option<usize>, Draft)> = Vec::new();
    for block in lines.blocks(outline) {
        let rows = table_rows(outline, &block);
        if !rows.is_empty() {
            lines.mark(outline, &block, LineKind::Entry);
            entries.extend(rows.into_iter().filter(|row| !is_repeated(row)));
            continue;
        }
        let Some(mut draft) = list_entries::block_draft(outline, &block) else { continue };
        lines.mark(outline, &block, LineKind::Entry);
        let heading = outline.headings.partition_point(|other| other.range.start < block.start);
        let heading = heading.checked_sub(1);
        if heading.is_some()
            && let Some((_, last)) = sections.last_mut().filter(|(last, _)| *last == heading)
        {
            last.text = format!("{}\n\n{}", last.text, draft.text);
            last.end_line = draft.end_line;
            continue;
        }
        let title = heading.map(|heading| parse_heading(outline, &outline.headings[heading]).title);
        match title.filter(|title| !title.is_empty()) {
            Some(title) => draft.title = title,
            None => draft = first_line_title(draft),
        }
        draft.is_superseded = is_superseded(outline, block);
        sections.push((heading, draft));
    }
    entries.extend(sections.into_iter().map(|(_, draft)| draft));
    entries
}

/// Returns a list item as an entry: its first line is the title, without the date.
fn item_entry(item: Draft) -> Draft {
    let intro = item.list_intro.clone();
    let item = Draft { is_specified: false, list_intro: None, ..first_line_title(item) };
    let (title, date, _) = parse_stamp(&item.title);
    let date = date.and_then(|date| date.date);
    let is_superseded = says_superseded(&title);
    let text = match intro {
        Some(intro) => trimmed(&format!("{intro}\n\n{}", item.text)),
        None => item.text,
    };
    Draft { title, text, date, is_superseded, ..item }
}

/// Makes the first line the title, and removes it from the text.
fn first_line_title(draft: Draft) -> Draft {
    let (first, rest) = draft.text.split_once('\n').unwrap_or((&draft.text, ""));
    match first.trim() == draft.title {
        true => Draft { text: close_open_blocks(trimmed(rest)), ..draft },
        false => draft,
    }
}

/// Returns the entry from `start` to the byte position `end`.
fn draft(outline: &Outline, start: EntryStart, end: usize, problems: &mut Vec<Problem>) -> Draft {
    let EntryStart { range, mut title, stamp, date, is_specified, .. } = start;
    let line = outline.line(range.start);
    let date = date.and_then(|date| {
        problems.extend(date.problem.map(|problem| Problem { line, problem }));
        date.date
    });
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
    let date = date.or_else(|| date_field(&text).filter(|_| !is_specified));
    let end_line = outline.line(outline.trimmed_end(&(range.start..end)).max(range.start + 1) - 1);
    let draft = Draft { title, text, date, line, end_line, ..Draft::default() };
    Draft { is_superseded, is_specified, ..draft }
}

/// Returns the date of a line such as `**Date**: 2026-07-25` among the first lines of a text.
fn date_field(text: &str) -> Option<Timestamp> {
    let mut fields =
        text.lines().filter(|line| !line.trim().is_empty()).take(8).filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            let name = name.trim_matches([' ', '\t', '*', '_', '-', '>', '+']);
            name.eq_ignore_ascii_case("date").then(|| value.trim_matches([' ', '*', '_', '`']))
        });
    fields.find_map(|value| date::parse(value.get(..10)?)?.date)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Draft> {
        let mut problems = Vec::new();
        let mut entries = all(text, &mut problems);
        assert_eq!(problems, [], "{text}");
        entries.retain(|entry| entry.is_specified);
        entries
    }

    fn all(text: &str, problems: &mut Vec<Problem>) -> Vec<Draft> {
        let outline = Outline::new(text);
        entries(&outline, &mut LineMap::new(&outline), problems)
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
    fn only_dates_in_brackets_are_specified() {
        let none = "# [2026-07-25] one\n#### [2026-07-25] four\n## [YYYY-MM-DD] form\n## Title\n## 2026-07-25 bare\n##[2026-07-25] tight\n> ## [2026-07-25] quoted\n\n- ## [2026-07-25] item\n\n[2026-07-25] underlined\n---\n\n    ## [2026-07-25] code\n";
        assert_eq!(titles(none), Vec::<String>::new());
        let hidden = "<!--\n## [YYYY-MM-DD] decoy\n-->\n```\n## [2026-07-25] decoy\n```\n## [2026-07-25] real\n~~~md\n## [2026-07-25] decoy\n~~~\n";
        assert_eq!(titles(hidden), ["real"]);
        assert_eq!(titles("text\n   ## [2026-07-25] indented\n"), ["indented"]);
    }

    #[test]
    fn headings_group_or_start_entries() {
        let titles = |text: &str| -> Vec<String> {
            all(text, &mut Vec::new()).into_iter().map(|entry| entry.title).collect()
        };
        assert_eq!(titles("# D\n## Active\n### Row\nwords\n### Sail\nwords\n"), ["Row", "Sail"]);
        assert_eq!(titles("## Row\n### Context\nwords\n### Decision\nwords\n"), ["Row"]);
        assert_eq!(
            titles("### D-1 - Row\nwords\n### Context\nwords\n### Sail\nwords\n"),
            ["D-1 - Row", "Sail"]
        );
        assert_eq!(titles("# Row\n## Status\nwords\n## Context\nwords\n"), ["Row"]);
        assert_eq!(titles("## Boats\nwords\n### ADR-1: Row\nwords\n"), ["Boats", "ADR-1: Row"]);
        assert_eq!(titles("## ADR-1\nwords\n### ADR-1: more\nwords\n"), ["ADR-1"]);
        assert_eq!(titles("# D\nwords\n\nmore\n## Empty\n## Row\nwords\n"), ["D", "Row"]);
        assert_eq!(titles("words\nmore\n"), ["words"]);
    }

    #[test]
    fn rows_and_items_are_entries() {
        let text = "# D\n\n| ID | Date | Decision | Why |\n|---|:--|---|---|\n| D-1 | 2026-07-25 | Row | It is calm \\| warm |\n| D-2 | | Sail | |\n\n- 2026-07-24: Rest\n  at noon\n- Eat\n";
        let entries = all(text, &mut Vec::new());
        let shown: Vec<(&str, &str, usize)> = entries
            .iter()
            .map(|entry| (entry.title.as_str(), entry.text.as_str(), entry.line))
            .collect();
        let row = "**ID**: D-1\n\n**Date**: 2026-07-25\n\n**Why**: It is calm \\| warm";
        assert_eq!(
            shown,
            [("Row", row, 5), ("Sail", "**ID**: D-2", 6), ("Rest", "at noon", 8), ("Eat", "", 10)]
        );
        assert_eq!(entries[0].date, "2026-07-25T00:00:00Z".parse().ok());
        assert_eq!(entries[2].date, "2026-07-24T00:00:00Z".parse().ok());
        let around = "# D\n\n> Append only.\n\n| Date | Decision |\n|---|---|\n| 2026-07-25 | Row |\n\n*Last words*\n";
        let entries = all(around, &mut Vec::new());
        assert_eq!(
            (entries[0].title.as_str(), entries[1].text.as_str()),
            ("D", "**Date**: 2026-07-25")
        );
        assert_eq!(entries[0].text, "Append only.\n\n*Last words*");
        // An index repeats titles.
        let index = "| Date | Decision |\n|---|---|\n| 2026-07-25 | Row |\n\n## [2026-07-25] Row\n";
        assert_eq!(all(index, &mut Vec::new()).len(), 1);
        let log = "## Log\n\n| Date | What |\n|---|---|\n| 2026-07-25 | Row |\n";
        assert_eq!(all(log, &mut Vec::new())[0].title, "Row");
    }

    #[test]
    fn entries_in_comments_are_reported() {
        let mut problems = Vec::new();
        let text =
            "<!--\n## [YYYY-MM-DD] form\n\n## [2026-07-25] Row\n\n## [2026-07-24] Rest\n-->\n";
        assert_eq!(all(text, &mut problems), []);
        assert_eq!(problems.iter().map(|problem| problem.line).collect::<Vec<_>>(), [4]);
    }

    #[test]
    fn fields_date_entries() {
        let date = |text: &str| all(text, &mut Vec::new())[0].date.map(|date| date.to_string());
        let day = Some("2026-07-25T00:00:00Z".to_owned());
        assert_eq!(date("## ADR-1: Row\n\n- **Date**: 2026-07-25\n"), day);
        assert_eq!(date("## Row\n**Date:** 2026-07-25 (revised)\n"), day);
        assert_eq!(date("## Row\nThe date: 2026-07-25\n"), None);
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
        assert_eq!(body("words\n\n<!-- gone\n\nkept\n## [2026-07-24] b"), "words\n\nkept");
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
        let entries = all("\n## [2026-13-45] a\nb", &mut problems);
        assert_eq!((entries[0].date, entries[0].title.as_str()), (None, "a"));
        assert_eq!(problems[0].line, 2);
    }
}
