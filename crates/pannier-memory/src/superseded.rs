//! Finds out which entries are superseded, by the two forms of the specification: struck text and a bold status.

use std::ops::Range;

use crate::markdown::Outline;

const SUPERSEDED: &str = "superseded";

/// Returns whether a line of the body marks the entry as superseded.
pub(crate) fn is_superseded(outline: &Outline, body: Range<usize>) -> bool {
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
pub(crate) fn says_superseded(line: &str) -> bool {
    line.strip_prefix("~~").is_some_and(begins_superseded)
}

/// Returns whether `line` is a bold status field with the value `Superseded`, and not a template's list of all values.
pub(crate) fn is_status_superseded(line: &str) -> bool {
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

fn begins_superseded(text: &str) -> bool {
    let word = text.get(..SUPERSEDED.len());
    word.is_some_and(|word| word.eq_ignore_ascii_case(SUPERSEDED))
        && !text[SUPERSEDED.len()..].starts_with(char::is_alphanumeric)
}
