//! Separates front matter from the body of a document.
//!
//! Front matter is the text between a first line `---` and the next line `---`. What the YAML means is for the caller: a
//! document and a snippet read different keys, with different tolerance.

/// The maximum length of front matter; a longer one counts as body.
pub const MAX_FRONT_MATTER_BYTES: usize = 64 << 10;

/// A document, split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitDocument<'t> {
    /// The text between the two fences, if the document starts with one.
    pub front: Option<&'t str>,
    /// The text after the second fence, byte for byte; without front matter, the whole document.
    pub body: &'t str,
}

/// Returns whether a line is `---`, with or without trailing whitespace.
pub fn is_fence(line: &str) -> bool {
    line.trim_end() == "---"
}

/// Splits a document. A byte order mark in front of the first fence is skipped.
///
/// ```
/// use pannier_files::split_front_matter;
///
/// let split = split_front_matter("---\ntitle: Notes\n---\n# Notes\n");
/// assert_eq!((split.front, split.body), (Some("title: Notes\n"), "# Notes\n"));
/// ```
pub fn split_front_matter(text: &str) -> SplitDocument<'_> {
    let whole = SplitDocument { front: None, body: text };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some(first) = text.split_inclusive('\n').next().filter(|line| is_fence(line)) else {
        return whole;
    };
    let mut end = first.len();
    for line in text[end..].split_inclusive('\n') {
        if is_fence(line) {
            let front = Some(&text[first.len()..end]);
            return SplitDocument { front, body: &text[end + line.len()..] };
        }
        end += line.len();
        if end > MAX_FRONT_MATTER_BYTES {
            break;
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_everything_after_the_front_matter() {
        let split = |text| {
            let SplitDocument { front, body } = split_front_matter(text);
            (front, body)
        };
        assert_eq!(split("---\nid: a\n---\n\n# A\r\n"), (Some("id: a\n"), "\n# A\r\n"));
        assert_eq!(split("---\r\nid: a\r\n---\r\nb"), (Some("id: a\r\n"), "b"));
        assert_eq!(split("\u{feff}---\n---\nb\n---\n"), (Some(""), "b\n---\n"));
        assert_eq!(split("--- \nid: a\n---"), (Some("id: a\n"), ""));
        for whole in
            ["", "---", "---\nid: a\n", "text\n---\nid: a\n---\n", "\u{feff}x", " ---\n---\n"]
        {
            assert_eq!(split(whole), (None, whole));
        }
        let long = format!("---\nid: {}\n---\n", "a".repeat(MAX_FRONT_MATTER_BYTES));
        assert_eq!(split(&long), (None, &*long));
    }
}
