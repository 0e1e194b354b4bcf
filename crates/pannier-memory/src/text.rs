//! Lines, columns and whitespace by the rules of Markdown.

/// The maximum nesting of lists and blockquotes.
pub(crate) const MAX_DEPTH: usize = 100;

/// Removes the byte order mark, converts line endings to `\n`, and removes the prefix of lines that nest deeper than
/// [`MAX_DEPTH`]. Also returns the numbers of those lines.
pub(crate) fn normalize_newlines(text: &str) -> (String, Vec<usize>) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut deep = Vec::new();
    let mut kept = String::with_capacity(text.len());
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        match deep_prefix(line) {
            0 => kept.push_str(line),
            prefix => {
                deep.push(number);
                kept.push_str(&line[prefix..]);
            }
        }
    }
    (kept, deep)
}

/// Returns the length of a line's prefix of markers and indentation if it could nest deeper than [`MAX_DEPTH`], or else 0.
/// Each level takes a marker or two columns of indentation.
fn deep_prefix(line: &str) -> usize {
    let mut half_levels = 0;
    let bytes = line.trim_end().as_bytes();
    let mut index = 0;
    while let Some(byte) = bytes.get(index) {
        let is_marker = || bytes.get(index + 1).is_none_or(|next| matches!(next, b' ' | b'\t'));
        half_levels += match byte {
            b' ' => 1,
            b'\t' => 4,
            b'>' => 2,
            b'-' | b'+' | b'*' | b'.' | b')' if is_marker() => 2,
            b'0'..=b'9' => 0,
            _ => break,
        };
        index += 1;
    }
    if half_levels > 2 * MAX_DEPTH { index } else { 0 }
}

/// Returns the column after `text` if it starts in column `from`. Tab stops are four columns apart.
pub(crate) fn columns(from: usize, text: &str) -> usize {
    text.chars().fold(from, |column, character| match character {
        '\t' => column + 4 - column % 4,
        _ => column + 1,
    })
}

/// Removes up to `levels` blockquote markers. A lazy continuation line may have fewer.
pub(crate) fn strip_blockquote(mut line: &str, levels: usize) -> &str {
    for _ in 0..levels {
        let Some(rest) = line.trim_start_matches([' ', '\t']).strip_prefix('>') else { break };
        line = rest.strip_prefix(' ').unwrap_or(rest);
    }
    line
}

/// Appends `line` to `text` without up to `indent` columns of indentation.
pub(crate) fn dedent(text: &mut String, line: &str, indent: usize) {
    let mut column = 0;
    for (index, character) in line.char_indices() {
        if column >= indent || !matches!(character, ' ' | '\t') {
            // Keep the columns of a tab that exceed the indentation.
            text.extend(std::iter::repeat_n(' ', column.saturating_sub(indent)));
            text.push_str(&line[index..]);
            return;
        }
        column = columns(column, if character == '\t' { "\t" } else { " " });
    }
}

/// Returns `text` without empty lines at both ends.
pub(crate) fn trimmed(text: &str) -> String {
    let text = text.trim_end();
    // Markdown takes other whitespace characters for text.
    let first = text.len() - text.trim_start_matches([' ', '\t', '\n']).len();
    let start = text[..first].rfind('\n').map_or(0, |index| index + 1);
    // Less than four columns are not an indented code block, but remain where a comment was removed.
    let start = if columns(0, &text[start..first]) < 4 { first } else { start };
    text[start..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_that_nest_too_deep_are_removed() {
        let cut = |line: &str| normalize_newlines(line).0;
        for whole in ["- a\n", "", "    code\n", "1. 2. 3. x\n", "**bold** -- 3.14\n"] {
            assert_eq!(cut(whole), whole);
        }
        let rule = "-".repeat(1_000);
        assert_eq!(cut(&rule), rule);
        let number = "7".repeat(1_000);
        assert_eq!(cut(&number), number);
        for mark in ["- ", "> ", ">", "* ", "+ ", "1. ", "1) ", "  ", "\t", "> - "] {
            let few = format!("{}x\n", mark.repeat(25));
            assert_eq!(cut(&few), few, "{mark}");
            let many = format!("a\n{}x\n", mark.repeat(201));
            assert_eq!(normalize_newlines(&many), ("a\nx\n".to_owned(), vec![2]), "{mark}");
        }
    }

    #[test]
    fn tab_stops_are_four_columns_apart() {
        assert_eq!([columns(0, "\t"), columns(1, "\t"), columns(3, " \t")], [4, 4, 8]);
        let dedented = |line: &str, indent: usize| {
            let mut text = String::new();
            dedent(&mut text, line, indent);
            text
        };
        assert_eq!(dedented("    a", 2), "  a");
        assert_eq!(dedented("a", 2), "a");
        assert_eq!(dedented(" a", 2), "a");
        assert_eq!(dedented("\ta", 2), "  a");
        assert_eq!(dedented("\t\ta", 4), "\ta");
        assert_eq!(dedented("   ", 2), " ");
        assert_eq!(dedented("", 2), "");
    }

    #[test]
    fn blockquote_markers_are_removed_up_to_the_level() {
        assert_eq!(strip_blockquote("> > a", 1), "> a");
        assert_eq!(strip_blockquote(" >> a", 2), "a");
        assert_eq!(strip_blockquote("> a", 2), "a");
        assert_eq!(strip_blockquote("lazy", 1), "lazy");
    }

    #[test]
    fn trimming_keeps_indented_code() {
        assert_eq!(trimmed("\n \n  a\n b \n\n"), "a\n b");
        assert_eq!(trimmed("\n    a\n"), "    a");
        assert_eq!(trimmed(" \n "), "");
    }
}
