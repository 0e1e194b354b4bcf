//! Parses the headings of decisions and learnings: a date, a number, or a title only.

use std::ops::Range;

use crate::date::{self, ParsedDate};
use crate::markdown::{Heading, Outline};

/// Headings of the parts of an entry, in lower case.
const PARTS: [&str; 22] = [
    "alternatives",
    "application",
    "background",
    "consequence",
    "consequences",
    "context",
    "date",
    "decision",
    "details",
    "impact",
    "lesson",
    "notes",
    "options",
    "outcome",
    "problem",
    "rationale",
    "reason",
    "references",
    "related",
    "solution",
    "status",
    "why",
];

/// The heading of an entry.
pub(crate) struct EntryStart {
    pub(crate) level: u8,
    pub(crate) range: Range<usize>,
    pub(crate) title: String,
    /// The title if there is no other.
    pub(crate) stamp: String,
    pub(crate) date: Option<ParsedDate>,
    /// Whether it has a date or a number.
    pub(crate) is_stamped: bool,
    pub(crate) is_specified: bool,
}

/// Returns whether a heading names a part of an entry.
pub(crate) fn is_part(title: &str) -> bool {
    PARTS.binary_search(&title.to_lowercase().trim_end_matches(':')).is_ok()
}

/// Parses a heading. One with a date in brackets is specified.
pub(crate) fn parse_heading(outline: &Outline, heading: &Heading) -> EntryStart {
    let line = outline.without_comments(heading.range.clone());
    let line = line.trim().trim_start_matches('#').trim();
    // Markdown allows a closing sequence of `#` after whitespace.
    let unmarked = line.trim_end_matches('#');
    let line = if unmarked.ends_with([' ', '\t']) { unmarked.trim_end() } else { line };
    let (level, range) = (heading.level, heading.range.clone());
    let bracketed = line.strip_prefix('[').and_then(|line| line.split_once(']'));
    if let Some((stamp, title)) = bracketed.filter(|_| matches!(level, 2 | 3))
        && let Some(date) = date::parse(stamp.trim())
    {
        let (stamp, title) = (stamp.trim().to_owned(), title.trim().to_owned());
        let date = Some(date);
        return EntryStart {
            level,
            range,
            title,
            stamp,
            date,
            is_stamped: true,
            is_specified: true,
        };
    }
    let (title, date, is_stamped) = parse_stamp(line);
    let stamp = line.to_owned();
    EntryStart { level, range, title, stamp, date, is_stamped, is_specified: false }
}

/// Parses a title that may begin with a date or a number, or end with a date. Returns the title without the date, the
/// date, and whether it begins with either.
pub(crate) fn parse_stamp(line: &str) -> (String, Option<ParsedDate>, bool) {
    const SEPARATORS: [char; 11] = [' ', '\t', '-', '–', '—', ':', '|', '·', '*', '`', ','];
    let bare = line.trim_start_matches(['*', '`', '_', '[', '(', '~', ' ']);
    if let Some(day) = date::day(bare) {
        let rest = bare[day.len()..].trim_start_matches([']', ')']);
        let time = rest.strip_prefix('-').filter(|rest| rest.len() > 5 && rest.is_char_boundary(6));
        let time = time
            .map(|rest| rest.split_at(6))
            .filter(|(time, _)| time.bytes().all(|b| b.is_ascii_digit()));
        let (rest, stamp) = match time {
            Some((time, rest)) => (rest, format!("{day}-{time}")),
            None => (rest, day.to_owned()),
        };
        let rest = rest.trim_start_matches([']', ')']).trim_matches(SEPARATORS);
        let title = if rest.is_empty() { line.trim() } else { rest };
        return (title.to_owned(), date::parse(&stamp), true);
    }
    let letters = bare.len() - bare.trim_start_matches(|c: char| c.is_ascii_uppercase()).len();
    let after = bare[letters..].strip_prefix(['-', '_', '#', ' ']).unwrap_or(&bare[letters..]);
    let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let is_numbered =
        (letters > 0 || bare.starts_with('#') || after[digits..].starts_with(['.', ')', ':']))
            && digits > 0
            && !after[digits..].starts_with(|next: char| next.is_alphanumeric());
    // A date in parentheses, or anywhere.
    let day = line.char_indices().find_map(|(index, _)| Some((index, date::day(&line[index..])?)));
    let Some((index, day)) = day else { return (line.trim().to_owned(), None, is_numbered) };
    let before = line[..index].trim_end_matches(['(', '[']).trim_end_matches(SEPARATORS);
    let is_at_end = line[index + day.len()..].trim_matches([')', ']', ' ', '*']).is_empty();
    let title = if is_at_end && !before.is_empty() { before } else { line };
    (title.trim().to_owned(), date::parse(day), is_numbered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_parsed_from_titles() {
        let day = "2026-07-25T00:00:00Z";
        for (line, title, date, is_stamped) in [
            ("ADR-001: Row", "ADR-001: Row", None, true),
            ("ADR 1 - Row", "ADR 1 - Row", None, true),
            ("DEC-001", "DEC-001", None, true),
            ("D-0001 - Row", "D-0001 - Row", None, true),
            ("**D12** Row", "**D12** Row", None, true),
            ("#12 Row", "#12 Row", None, true),
            ("3. Row", "3. Row", None, true),
            ("2026-07-25 \u{2014} Row", "Row", Some(day), true),
            ("2026-07-25: Row", "Row", Some(day), true),
            ("(2026-07-25) Row", "Row", Some(day), true),
            ("2026-07-25", "2026-07-25", Some(day), true),
            ("[2026-07-25-194549] Row", "Row", Some("2026-07-25T19:45:49Z"), true),
            ("Row (2026-07-25)", "Row", Some(day), false),
            ("Row, 2026-07-25", "Row", Some(day), false),
            ("Since 2026-07-25 we row", "Since 2026-07-25 we row", Some(day), false),
            ("ADR-7: Row (2026-07-25)", "ADR-7: Row", Some(day), true),
            ("K8s on Mondays", "K8s on Mondays", None, false),
            ("Phase 1: Row", "Phase 1: Row", None, false),
            ("Row", "Row", None, false),
            ("", "", None, false),
        ] {
            let (found, parsed, stamped) = parse_stamp(line);
            let parsed = parsed.and_then(|parsed| parsed.date);
            assert_eq!((found.as_str(), stamped), (title, is_stamped), "{line}");
            assert_eq!(parsed, date.map(|date| date.parse().unwrap()), "{line}");
        }
    }
}
