//! Lines, columns and blanks, as Markdown sees them.

/// How many lists and quotations may be open at once.
pub(crate) const MAX_DEPTH: usize = 100;

/// A text with `\n` at the end of its lines, without a byte order mark, and no deeper than [`MAX_DEPTH`]; with the lines
/// that were.
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

/// The length of what a line begins with, if it could open or continue more than [`MAX_DEPTH`] lists and quotations. Each
/// takes a mark, or two columns of indentation.
fn deep_prefix(line: &str) -> usize {
    let mut halves = 0;
    let bytes = line.trim_end().as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let is_mark = || bytes.get(at + 1).is_none_or(|next| matches!(next, b' ' | b'\t'));
        halves += match byte {
            b' ' => 1,
            b'\t' => 4,
            b'>' => 2,
            b'-' | b'+' | b'*' | b'.' | b')' if is_mark() => 2,
            b'0'..=b'9' => 0,
            _ => break,
        };
        at += 1;
    }
    if halves > 2 * MAX_DEPTH { at } else { 0 }
}

/// In which column a text ends that begins in this one.
pub(crate) fn columns(from: usize, text: &str) -> usize {
    text.chars().fold(from, |column, character| match character {
        '\t' => column + 4 - column % 4,
        _ => column + 1,
    })
}

/// A line without the marks of so many quotations. A line that goes on with a paragraph may have fewer.
pub(crate) fn strip_blockquote(mut line: &str, quotes: usize) -> &str {
    for _ in 0..quotes {
        let Some(rest) = line.trim_start_matches([' ', '\t']).strip_prefix('>') else { break };
        line = rest.strip_prefix(' ').unwrap_or(rest);
    }
    line
}

/// Appends a line without its first columns, as far as they are blank.
pub(crate) fn dedent(text: &mut String, line: &str, most: usize) {
    let mut column = 0;
    for (at, character) in line.char_indices() {
        if column >= most || !matches!(character, ' ' | '\t') {
            // Of a tab, what reaches beyond stays.
            text.extend(std::iter::repeat_n(' ', column.saturating_sub(most)));
            text.push_str(&line[at..]);
            return;
        }
        column = columns(column, if character == '\t' { "\t" } else { " " });
    }
}

/// A text without empty lines at its beginning and its end.
pub(crate) fn trimmed(text: &str) -> String {
    let text = text.trim_end();
    // There are other blanks, which Markdown takes for words.
    let blank = text.len() - text.trim_start_matches([' ', '\t', '\n']).len();
    let start = text[..blank].rfind('\n').map_or(0, |at| at + 1);
    // Less than four blanks do not make it code: a comment stood there.
    let start = if columns(0, &text[start..blank]) < 4 { blank } else { start };
    text[start..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_nest_too_deep_lose_their_beginning() {
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
    fn a_tab_reaches_to_the_next_fourth_column() {
        assert_eq!([columns(0, "\t"), columns(1, "\t"), columns(3, " \t")], [4, 4, 8]);
        let dedented = |line: &str, most: usize| {
            let mut text = String::new();
            dedent(&mut text, line, most);
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
    fn marks_of_quotations_are_taken_off_as_far_as_they_go() {
        assert_eq!(strip_blockquote("> > a", 1), "> a");
        assert_eq!(strip_blockquote(" >> a", 2), "a");
        assert_eq!(strip_blockquote("> a", 2), "a");
        assert_eq!(strip_blockquote("lazy", 1), "lazy");
    }

    #[test]
    fn empty_lines_go_and_code_stays() {
        assert_eq!(trimmed("\n \n  a\n b \n\n"), "a\n b");
        assert_eq!(trimmed("\n    a\n"), "    a");
        assert_eq!(trimmed(" \n "), "");
    }
}
