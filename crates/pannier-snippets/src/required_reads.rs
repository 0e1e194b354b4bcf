//! Finds references in texts: the required reads of a snippet, and the lines of a manifest.
//!
//! A reference is a line of its own: an optional bullet, `@`, and a path or an id. A line scan is enough for that and stays
//! linear on hostile nesting, unlike a full Markdown parser. It knows code blocks, comments and headings only.
//!
//! Near misses are reported, because a reference that is silently ignored is hard to notice.

/// A reference and its line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reference {
    /// The text, with its `@` if it may be a path.
    pub(crate) text: String,
    /// The line number, from 1.
    pub(crate) line: usize,
}

/// The section `## Required reads` of a text, up to the next heading of the same or a higher level.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RequiredReads {
    pub(crate) references: Vec<Reference>,
    /// Lines that resemble a reference or the heading, each with its fix.
    pub(crate) near_misses: Vec<(usize, &'static str)>,
}

/// Returns the required reads of a text.
pub(crate) fn required_reads(text: &str) -> RequiredReads {
    let mut lines = Lines::new(text);
    let (mut references, mut near_misses) = (Vec::new(), Vec::new());
    let (mut is_inside, mut is_paragraph) = (false, false);
    while let Some((line, number)) = lines.next() {
        let level = heading_level(line);
        let is_similar = level > 0 && resembles_required_reads(heading_text(line));
        let is_required_reads =
            level == 2 && heading_text(line).eq_ignore_ascii_case("required reads");
        if is_similar && !is_required_reads && !is_inside {
            near_misses.push((
                number,
                "this heading does not start the required reads; write '## Required reads'",
            ));
        }
        if level > 0 && level <= 2 {
            is_inside = is_required_reads;
            is_paragraph = false;
            continue;
        }
        // Setext heading: an underlined paragraph.
        if is_paragraph && is_underline(line) {
            is_inside = false;
        }
        let reference = reference(line).filter(|_| is_inside);
        if is_inside && level == 0 && contains_other_reference(line, reference.as_deref()) {
            near_misses.push((
                number,
                "this reference is ignored; write each reference on its own line, as in '- @docs/a.md'",
            ));
        }
        is_paragraph = level == 0 && !line.trim().is_empty() && without_bullet(line) == line.trim();
        if let Some(text) = reference {
            references.push(Reference { text, line: number });
            is_paragraph = false;
        }
    }
    RequiredReads { references, near_misses }
}

/// Returns whether a heading is a variant of `Required reads`.
fn resembles_required_reads(heading: &str) -> bool {
    let letters =
        heading.bytes().filter(u8::is_ascii_alphabetic).map(|byte| byte.to_ascii_lowercase());
    let letters: Vec<u8> = letters.take(20).collect();
    ["requiredreads", "requiredread", "requiredreading", "requiredreadings"]
        .iter()
        .any(|name| letters == name.as_bytes())
}

/// Returns whether a line contains a reference apart from the one that was parsed.
fn contains_other_reference(line: &str, parsed: Option<&str>) -> bool {
    let text = without_bullet(line);
    let rest = if parsed.is_some() {
        text.split_once(char::is_whitespace).map_or("", |(_, rest)| rest)
    } else {
        text
    };
    let starts_reference = |position: usize| {
        let before = rest[..position].chars().next_back();
        let after = rest[position + 1..].chars().next();
        // An alphanumeric character before the `@` makes it an email address.
        !before.is_some_and(char::is_alphanumeric)
            && after.is_some_and(|c| c.is_alphanumeric() || matches!(c, '~' | '<' | '.' | '/'))
    };
    rest.match_indices('@').any(|(position, _)| starts_reference(position))
}

/// Returns all references of a manifest.
pub(crate) fn manifest(text: &str) -> Vec<Reference> {
    let mut lines = Lines::new(text);
    let mut references = Vec::new();
    while let Some((line, number)) = lines.next() {
        references.extend(reference(line).map(|text| Reference { text, line: number }));
    }
    references
}

/// Parses a line as a reference.
fn reference(line: &str) -> Option<String> {
    let text = without_bullet(line).strip_prefix('@')?;
    // A path with spaces is enclosed in angle brackets, as in a Markdown link.
    let name = match text.strip_prefix('<').and_then(|text| text.split_once('>')) {
        Some((name, _)) => name,
        None => text.split(char::is_whitespace).next().unwrap_or_default(),
    };
    // Drop the fragment.
    let name = name.split('#').next().unwrap_or_default();
    (!name.is_empty()).then(|| format!("@{name}"))
}

/// Strips the indentation and the bullet of a line.
fn without_bullet(line: &str) -> &str {
    let line = line.trim();
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let rest = match digits {
        0 => line.strip_prefix(['-', '*', '+']),
        1..=9 => line[digits..].strip_prefix(['.', ')']),
        _ => None,
    };
    rest.filter(|text| text.starts_with([' ', '\t'])).map_or(line, str::trim_start)
}

/// Returns the level of an ATX heading, or 0.
fn heading_level(line: &str) -> usize {
    let text = line.trim_start_matches(' ');
    if line.len() - text.len() > 3 {
        return 0;
    }
    let level = text.bytes().take_while(|byte| *byte == b'#').count();
    let is_heading = text[level..].chars().next().is_none_or(char::is_whitespace);
    if is_heading && level <= 6 { level } else { 0 }
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

/// The lines of a text outside of code and comments, with their numbers.
struct Lines<'t> {
    lines: std::iter::Enumerate<std::str::Lines<'t>>,
    /// The character and the length of the fence of the open code block.
    fence: Option<(u8, usize)>,
    is_comment: bool,
    /// Whether a list item may continue: its indented lines are not code.
    is_list: bool,
    is_after_blank: bool,
}

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Self {
        let lines = text.lines().enumerate();
        Self { lines, fence: None, is_comment: false, is_list: false, is_after_blank: true }
    }

    fn next(&mut self) -> Option<(&'t str, usize)> {
        loop {
            let (position, line) = self.lines.next()?;
            // In Markdown, the rest of the last line of a comment belongs to the comment.
            if self.is_comment {
                self.is_comment = !line.contains("-->");
                continue;
            }
            match (self.fence, fence(without_bullet(line))) {
                (None, Some((mark, length, _))) => self.fence = Some((mark, length)),
                (Some((open, min_length)), Some((mark, length, true)))
                    if mark == open && length >= min_length =>
                {
                    self.fence = None;
                }
                (Some(_), _) => {}
                (None, None) => {
                    let is_after_blank =
                        std::mem::replace(&mut self.is_after_blank, line.trim().is_empty());
                    let is_indented = line.starts_with('\t') || line.starts_with("    ");
                    if is_indented && is_after_blank && !self.is_list {
                        self.is_after_blank = true;
                        continue;
                    }
                    if !is_indented && !line.trim().is_empty() {
                        let is_item = without_bullet(line) != line.trim();
                        self.is_list = is_item || self.is_list && line.starts_with(' ');
                    }
                    self.is_comment = opens_comment(line);
                    if !without_bullet(line).starts_with("<!--") {
                        return Some((line, position + 1));
                    }
                }
            }
        }
    }
}

/// Returns whether a comment starts on a line and does not end there.
fn opens_comment(line: &str) -> bool {
    line.rfind("<!--").is_some_and(|position| {
        // An odd number of backticks: within a code span.
        let marks = line[..position].bytes().filter(|byte| *byte == b'`').count();
        marks % 2 == 0 && !line[position..].contains("-->")
    })
}

/// Returns the character of a code fence, its length, and whether the rest of the line is empty.
fn fence(line: &str) -> Option<(u8, usize, bool)> {
    let mark = *line.as_bytes().first().filter(|mark| matches!(mark, b'`' | b'~'))?;
    let length = line.bytes().take_while(|byte| *byte == mark).count();
    let info = line[length..].trim();
    let is_fence = length >= 3 && !(mark == b'`' && info.contains('`'));
    is_fence.then_some((mark, length, info.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references(text: &str) -> Vec<(String, usize)> {
        let references = required_reads(text).references;
        references.into_iter().map(|reference| (reference.text, reference.line)).collect()
    }

    #[test]
    fn references_are_lines_of_their_own() {
        let text = "@before\n# T\n\n## Required reads\n\n- @docs/a.md\n@b/c\n* @~/d.md — why\n1. @e.md#part\n  + @f\nsee @no\n- no @no\n@\n@ no\n\n### Below\n@g\n\n## Next\n@after\n";
        let expected =
            [("@docs/a.md", 6), ("@b/c", 7), ("@~/d.md", 8), ("@e.md", 9), ("@f", 10), ("@g", 17)];
        assert_eq!(references(text), expected.map(|(text, line)| (text.to_owned(), line)));
    }

    #[test]
    fn code_and_comments_are_ignored() {
        let text = "## required READS ##\n```\n@no\n## Other\n```\n@a\n~~~~ text\n@no\n~~~\n```\n@no\n~~~~\n@b\n<!-- @no\n@no\n## Other\n-->\n@c\n<!-- x -->\n@d\n- ```\n  @no\n  ```\n- @e\n`<!--` @no\n@f\n```not `code`\n@g\n";
        let texts: Vec<String> = references(text).into_iter().map(|(text, _)| text).collect();
        assert_eq!(texts, ["@a", "@b", "@c", "@d", "@e", "@f", "@g"]);
    }

    #[test]
    fn indented_code_is_ignored_but_list_continuations_are_not() {
        let text = "## Required reads\n\n    @no\n\n\t@no\n\n@a\n    @b\n\n- @c\n\n    - @d\n\n      @e\n\nText.\n\n    @no\n";
        let texts: Vec<String> = references(text).into_iter().map(|(text, _)| text).collect();
        assert_eq!(texts, ["@a", "@b", "@c", "@d", "@e"]);
    }

    #[test]
    fn a_comment_may_start_after_text() {
        assert_eq!(
            references(
                "## Required reads\nText <!-- why\n@no\n-->\n@a\n@b <!-- x -->\n@c <!--\n@no"
            )
            .len(),
            3
        );
    }

    #[test]
    fn a_path_with_spaces_is_enclosed_in_brackets() {
        assert_eq!(
            references("## Required reads\n- @<with space/öne.md#x> — why\n"),
            [("@with space/öne.md".to_owned(), 2)]
        );
    }

    #[test]
    fn near_misses_are_reported() {
        let lines = |text: &str| -> Vec<usize> {
            required_reads(text).near_misses.into_iter().map(|(line, _)| line).collect()
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
    fn any_heading_of_the_same_or_a_higher_level_ends_the_section() {
        for heading in ["# T", "## T", "T\n===", "T\n---", "   ## T"] {
            let text = format!("## Required reads\n@a\n\n{heading}\n@no\n");
            assert_eq!(references(&text), [("@a".to_owned(), 2)], "{heading}");
        }
        for other in ["### T", "    ## T", "#T", "- T\n---", "\n---", "####### T"] {
            let text = format!("## Required reads\n@a\n\n{other}\n@b\n");
            assert_eq!(references(&text).len(), 2, "{other}");
        }
        assert_eq!(references("### Required reads\n@no\n# Required reads\n@no\n"), []);
        assert_eq!(references("## Required reads\n@a\n## Other\n## Required reads\n@b").len(), 2);
    }

    #[test]
    fn a_manifest_has_references_in_any_section() {
        let texts: Vec<_> =
            manifest("# Baseline\n@a.md\r\n- @b\n```\n@no\n```\n").into_iter().collect();
        assert_eq!(texts[0], Reference { text: "@a.md".to_owned(), line: 2 });
        assert_eq!(texts[1].text, "@b");
        assert_eq!(texts.len(), 2);
    }
}
