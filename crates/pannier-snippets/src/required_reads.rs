//! References in the text of files: the required reads of a snippet, and the lines of a manifest.
//!
//! A reference is a line of its own: `@` and a path or an id, perhaps behind a bullet. That is little enough for a pass over
//! the lines, which is linear whatever they nest; all it has to know of Markdown is where code and comments are, and which
//! headings end a section.

//!
//! Whatever looks as if somebody meant a reference there, and is none, is told of: what is not read is missed in silence.

/// A reference, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reference {
    /// With `@` at its beginning, if it may be a path.
    pub(crate) text: String,
    /// From 1.
    pub(crate) line: usize,
}

/// What stands below a heading `## Required reads`, up to the next heading of its rank.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RequiredReads {
    pub(crate) references: Vec<Reference>,
    /// What is nearly a reference, or nearly such a heading: the line, and what to do.
    pub(crate) missed: Vec<(usize, &'static str)>,
}

/// The references of a text.
pub(crate) fn required_reads(text: &str) -> RequiredReads {
    let mut lines = Lines::new(text);
    let (mut references, mut missed) = (Vec::new(), Vec::new());
    let (mut is_inside, mut is_paragraph) = (false, false);
    while let Some((line, number)) = lines.next() {
        let rank = heading_rank(line);
        let is_near = rank > 0 && resembles_required_reads(heading_text(line));
        let is_ours = rank == 2 && heading_text(line).eq_ignore_ascii_case("required reads");
        if is_near && !is_ours && !is_inside {
            missed
                .push((number, "no required reads are read below this; write '## Required reads'"));
        }
        if rank > 0 && rank <= 2 {
            is_inside = is_ours;
            is_paragraph = false;
            continue;
        }
        // A line of dashes below words makes them a heading.
        if is_paragraph && is_underline(line) {
            is_inside = false;
        }
        let reference = reference(line).filter(|_| is_inside);
        if is_inside && rank == 0 && is_nearly_reference(line, reference.as_deref()) {
            missed.push((
                number,
                "this is not read; write each as a line of its own, as in '- @docs/a.md'",
            ));
        }
        is_paragraph = rank == 0 && !line.trim().is_empty() && without_bullet(line) == line.trim();
        if let Some(text) = reference {
            references.push(Reference { text, line: number });
            is_paragraph = false;
        }
    }
    RequiredReads { references, missed }
}

/// Whether a heading is one for required reads in other words.
fn resembles_required_reads(heading: &str) -> bool {
    let letters =
        heading.bytes().filter(u8::is_ascii_alphabetic).map(|byte| byte.to_ascii_lowercase());
    let letters: Vec<u8> = letters.take(20).collect();
    ["requiredreads", "requiredread", "requiredreading", "requiredreadings"]
        .iter()
        .any(|name| letters == name.as_bytes())
}

/// Whether a line has a reference that is not the one which is read.
fn is_nearly_reference(line: &str, read: Option<&str>) -> bool {
    let text = without_bullet(line);
    // Behind the one that is read, another one may stand.
    let rest = if read.is_some() {
        text.split_once(char::is_whitespace).map_or("", |(_, rest)| rest)
    } else {
        text
    };
    let begins_word = |at: usize| {
        let before = rest[..at].chars().next_back();
        let after = rest[at + 1..].chars().next();
        // Not an address of mail.
        !before.is_some_and(char::is_alphanumeric)
            && after.is_some_and(|c| c.is_alphanumeric() || matches!(c, '~' | '<' | '.' | '/'))
    };
    rest.match_indices('@').any(|(at, _)| begins_word(at))
}

/// All references of a manifest.
pub(crate) fn manifest(text: &str) -> Vec<Reference> {
    let mut lines = Lines::new(text);
    let mut references = Vec::new();
    while let Some((line, number)) = lines.next() {
        references.extend(reference(line).map(|text| Reference { text, line: number }));
    }
    references
}

/// The reference that a line is.
fn reference(line: &str) -> Option<String> {
    let text = without_bullet(line).strip_prefix('@')?;
    // A path with blanks stands between brackets, as in a link.
    let name = match text.strip_prefix('<').and_then(|text| text.split_once('>')) {
        Some((name, _)) => name,
        None => text.split(char::is_whitespace).next().unwrap_or_default(),
    };
    // The place within a file does not matter.
    let name = name.split('#').next().unwrap_or_default();
    (!name.is_empty()).then(|| format!("@{name}"))
}

/// A line without its indentation and its bullet.
fn without_bullet(line: &str) -> &str {
    let line = line.trim();
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let behind = match digits {
        0 => line.strip_prefix(['-', '*', '+']),
        1..=9 => line[digits..].strip_prefix(['.', ')']),
        _ => None,
    };
    behind.filter(|text| text.starts_with([' ', '\t'])).map_or(line, str::trim_start)
}

/// How many `#` a heading begins with, or 0.
fn heading_rank(line: &str) -> usize {
    let text = line.trim_start_matches(' ');
    if line.len() - text.len() > 3 {
        return 0;
    }
    let rank = text.bytes().take_while(|byte| *byte == b'#').count();
    let is_heading = text[rank..].chars().next().is_none_or(char::is_whitespace);
    if is_heading && rank <= 6 { rank } else { 0 }
}

fn heading_text(line: &str) -> &str {
    let text = line.trim().trim_start_matches('#').trim();
    let open = text.trim_end_matches('#');
    if open.len() < text.len() && open.ends_with([' ', '\t']) { open.trim_end() } else { text }
}

fn is_underline(line: &str) -> bool {
    let line = line.trim();
    ["-", "="].iter().any(|mark| !line.is_empty() && line.replace(mark, "").is_empty())
}

/// The lines of a text that are neither code nor comment, with their numbers.
struct Lines<'t> {
    lines: std::iter::Enumerate<std::str::Lines<'t>>,
    /// What a code block was opened with.
    fence: Option<(u8, usize)>,
    is_comment: bool,
    /// Whether an item of a list may go on, whose lines are indented and yet no code.
    is_list: bool,
    is_behind_blank: bool,
}

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Self {
        let lines = text.lines().enumerate();
        Self { lines, fence: None, is_comment: false, is_list: false, is_behind_blank: true }
    }

    fn next(&mut self) -> Option<(&'t str, usize)> {
        loop {
            let (place, line) = self.lines.next()?;
            // What stands behind a comment in its last line belongs to it, as far as Markdown goes.
            if self.is_comment {
                self.is_comment = !line.contains("-->");
                continue;
            }
            let found = fence(without_bullet(line));
            match (self.fence, found) {
                (None, Some((mark, length, _))) => self.fence = Some((mark, length)),
                (Some((open, least)), Some((mark, length, true)))
                    if mark == open && length >= least =>
                {
                    self.fence = None;
                }
                (Some(_), _) => {}
                (None, None) => {
                    let is_behind_blank =
                        std::mem::replace(&mut self.is_behind_blank, line.trim().is_empty());
                    let is_indented = line.starts_with('\t') || line.starts_with("    ");
                    if is_indented && is_behind_blank && !self.is_list {
                        self.is_behind_blank = true;
                        continue;
                    }
                    if !is_indented && !line.trim().is_empty() {
                        let is_item = without_bullet(line) != line.trim();
                        self.is_list = is_item || self.is_list && line.starts_with(' ');
                    }
                    self.is_comment = opens_comment(line);
                    if !without_bullet(line).starts_with("<!--") {
                        return Some((line, place + 1));
                    }
                }
            }
        }
    }
}

/// Whether a comment begins in a line and does not end there.
fn opens_comment(line: &str) -> bool {
    line.rfind("<!--").is_some_and(|at| {
        // Not between the marks of code.
        let marks = line[..at].bytes().filter(|byte| *byte == b'`').count();
        marks % 2 == 0 && !line[at..].contains("-->")
    })
}

/// The mark of a code block, how often it is repeated, and whether nothing stands behind it.
fn fence(line: &str) -> Option<(u8, usize, bool)> {
    let mark = *line.as_bytes().first().filter(|mark| matches!(mark, b'`' | b'~'))?;
    let length = line.bytes().take_while(|byte| *byte == mark).count();
    let behind = line[length..].trim();
    let is_fence = length >= 3 && !(mark == b'`' && behind.contains('`'));
    is_fence.then_some((mark, length, behind.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, usize)> {
        let references = required_reads(text).references;
        references.into_iter().map(|reference| (reference.text, reference.line)).collect()
    }

    #[test]
    fn references_stand_in_lines_of_their_own() {
        let text = "@before\n# T\n\n## Required reads\n\n- @docs/a.md\n@b/c\n* @~/d.md — why\n1. @e.md#part\n  + @f\nsee @no\n- no @no\n@\n@ no\n\n### Below\n@g\n\n## Next\n@after\n";
        let expected =
            [("@docs/a.md", 6), ("@b/c", 7), ("@~/d.md", 8), ("@e.md", 9), ("@f", 10), ("@g", 17)];
        assert_eq!(found(text), expected.map(|(text, line)| (text.to_owned(), line)));
    }

    #[test]
    fn code_and_comments_are_not_read() {
        let text = "## required READS ##\n```\n@no\n## Other\n```\n@a\n~~~~ text\n@no\n~~~\n```\n@no\n~~~~\n@b\n<!-- @no\n@no\n## Other\n-->\n@c\n<!-- x -->\n@d\n- ```\n  @no\n  ```\n- @e\n`<!--` @no\n@f\n```not `code`\n@g\n";
        let texts: Vec<String> = found(text).into_iter().map(|(text, _)| text).collect();
        assert_eq!(texts, ["@a", "@b", "@c", "@d", "@e", "@f", "@g"]);
    }

    #[test]
    fn indented_code_is_not_read_and_what_an_item_goes_on_with_is() {
        let text = "## Required reads\n\n    @no\n\n\t@no\n\n@a\n    @b\n\n- @c\n\n    - @d\n\n      @e\n\nText.\n\n    @no\n";
        let texts: Vec<String> = found(text).into_iter().map(|(text, _)| text).collect();
        assert_eq!(texts, ["@a", "@b", "@c", "@d", "@e"]);
    }

    #[test]
    fn a_comment_may_begin_behind_words() {
        assert_eq!(
            found("## Required reads\nText <!-- why\n@no\n-->\n@a\n@b <!-- x -->\n@c <!--\n@no")
                .len(),
            3
        );
    }

    #[test]
    fn a_path_with_blanks_stands_between_brackets() {
        assert_eq!(
            found("## Required reads\n- @<with space/öne.md#x> — why\n"),
            [("@with space/öne.md".to_owned(), 2)]
        );
    }

    #[test]
    fn what_is_nearly_read_is_told() {
        let lines = |text: &str| -> Vec<usize> {
            required_reads(text).missed.into_iter().map(|(line, _)| line).collect()
        };
        for heading in [
            "# Required reads",
            "### Required reads",
            "## Required reads:",
            "## **Required reads**",
            "## Required reading",
            "## required_reads",
        ] {
            assert_eq!(lines(&format!("Text.\n{heading}\n- @a\n")), [2], "{heading}");
        }
        for line in [
            "- `@a/b`",
            "- [@a/b](a.md)",
            "- **@a/b**",
            "- see @a/b",
            "- [x] @a/b",
            "-@a/b",
            "- @a/b @a/c",
            "- @a/b, @<c d.md>",
        ] {
            assert_eq!(
                lines(&format!("## Required reads\n{line}\n## Next\n{line}\n")),
                [2],
                "{line}"
            );
        }
        for line in [
            "- @a/b",
            "@a/b — ask me@example.org",
            "mail me@example.org",
            "at 5 @ noon",
            "### Below",
            "```\nsee @a\n```",
        ] {
            assert_eq!(lines(&format!("## Required reads\n{line}\n")), [0_usize; 0], "{line}");
        }
        assert_eq!(lines("## Read this\n- see @a\n"), [0_usize; 0]);
    }

    #[test]
    fn any_heading_of_its_rank_ends_the_section() {
        for heading in ["# T", "## T", "T\n===", "T\n---", "   ## T"] {
            let text = format!("## Required reads\n@a\n\n{heading}\n@no\n");
            assert_eq!(found(&text), [("@a".to_owned(), 2)], "{heading}");
        }
        for other in ["### T", "    ## T", "#T", "- T\n---", "\n---", "####### T"] {
            let text = format!("## Required reads\n@a\n\n{other}\n@b\n");
            assert_eq!(found(&text).len(), 2, "{other}");
        }
        assert_eq!(found("### Required reads\n@no\n# Required reads\n@no\n"), []);
        assert_eq!(found("## Required reads\n@a\n## Other\n## Required reads\n@b").len(), 2);
    }

    #[test]
    fn a_manifest_has_references_anywhere() {
        let texts: Vec<_> =
            manifest("# Baseline\n@a.md\r\n- @b\n```\n@no\n```\n").into_iter().collect();
        assert_eq!(texts[0], Reference { text: "@a.md".to_owned(), line: 2 });
        assert_eq!(texts[1].text, "@b");
        assert_eq!(texts.len(), 2);
    }
}
