//! References in the text of files: the required reads of a snippet, and the lines of a manifest.
//!
//! A reference is a line of its own: `@` and a path or an id, perhaps behind a bullet. That is little enough for a pass over
//! the lines, which is linear whatever they nest; all it has to know of Markdown is where code and comments are, and which
//! headings end a section.

/// A reference, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reference {
    /// With `@` at its beginning, if it may be a path.
    pub(crate) text: String,
    /// From 1.
    pub(crate) line: usize,
}

/// The references below a heading `## Required reads`, up to the next heading of its rank.
pub(crate) fn required_reads(text: &str) -> Vec<Reference> {
    let mut lines = Lines::new(text);
    let mut references = Vec::new();
    let (mut is_inside, mut is_paragraph) = (false, false);
    while let Some((line, number)) = lines.next() {
        let rank = heading_rank(line);
        if rank > 0 && rank <= 2 {
            is_inside = rank == 2 && heading_text(line).eq_ignore_ascii_case("required reads");
            is_paragraph = false;
            continue;
        }
        // A line of dashes below words makes them a heading.
        if is_paragraph && is_underline(line) {
            is_inside = false;
        }
        let reference = reference(line).filter(|_| is_inside);
        is_paragraph = rank == 0 && !line.trim().is_empty() && without_bullet(line) == line.trim();
        if let Some(text) = reference {
            references.push(Reference { text, line: number });
            is_paragraph = false;
        }
    }
    references
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
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    // The place within a file does not matter.
    let name = text[..end].split('#').next().unwrap_or_default();
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
}

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Self {
        Self { lines: text.lines().enumerate(), fence: None, is_comment: false }
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
                    if without_bullet(line).starts_with("<!--") {
                        self.is_comment = !line.contains("-->");
                    } else {
                        return Some((line, place + 1));
                    }
                }
            }
        }
    }
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
        let references = required_reads(text);
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
