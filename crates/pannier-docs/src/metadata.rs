//! The title and date of a document.
//!
//! Both come from front matter or from the caller. File times are not used: they are those of a copy.

use std::collections::BTreeMap;

use pannier_core::Timestamp;
use pannier_files::{MAX_FRONT_MATTER_BYTES, split_front_matter};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_saphyr::DuplicateKeyPolicy;

use crate::chunk::boundary;

/// The maximum length of a title; longer ones are truncated.
const MAX_TITLE_BYTES: usize = 256;

/// The title and date of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DocumentMetadata {
    /// Its title. It precedes the headings of all its chunks, so that search finds them by it.
    pub title: Option<String>,
    /// Its date.
    pub date: Option<Timestamp>,
}

impl DocumentMetadata {
    /// Returns these fields, and those of `other` where a field is missing. The title becomes one line, without
    /// control characters.
    pub(crate) fn or_else(&self, other: Self) -> Self {
        let title = self.title.clone().or(other.title).map(|title| {
            let words = title.split(|c: char| c.is_whitespace() || c.is_control());
            let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
            let mut title = words.join(" ");
            title.truncate(boundary(&title, MAX_TITLE_BYTES));
            title
        });
        Self { title: title.filter(|title| !title.is_empty()), date: self.date.or(other.date) }
    }
}

/// Parses a date, or a date and a time. Without an offset, it is UTC.
///
/// ```
/// use pannier_docs::parse_date;
///
/// assert_eq!(parse_date("2026-03-01"), parse_date("2026-03-01T01:00+01:00"));
/// assert_eq!(parse_date("spring"), None);
/// ```
pub fn parse_date(text: &str) -> Option<Timestamp> {
    let mut text = text.trim().to_owned();
    // Hugo and Jekyll put a space before the offset.
    if let Some((time, offset)) = text.rsplit_once(' ')
        && offset.starts_with(['+', '-'])
    {
        text = format!("{time}{offset}");
    }
    ["", "Z", "T00:00Z"].iter().find_map(|end| format!("{text}{end}").parse().ok())
}

/// Reads front matter: `title`, and `updated` or else `date`. Unreadable values are ignored.
pub(crate) fn front_matter(text: &str) -> DocumentMetadata {
    let beginning = &text[..boundary(text, MAX_FRONT_MATTER_BYTES)];
    let Some(text) = split_front_matter(beginning).front else {
        return DocumentMetadata::default();
    };
    let options = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins };
    let keys = serde_saphyr::from_str_with_options::<BTreeMap<String, Value>>(text, options);
    let keys = keys.unwrap_or_else(|_| parse_lenient(text));
    let mut fields = ["title", "updated", "date"].map(|key| match keys.get(key) {
        Some(Value::Text(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    });
    let title = fields[0].take();
    DocumentMetadata {
        title,
        date: fields.into_iter().flatten().find_map(|text| parse_date(&text)),
    }
}

/// A value in front matter: a string, a number that counts as one, or anything else.
#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Text(String),
    Number(i64),
    Other(IgnoredAny),
}

/// Parses front matter that is not valid YAML line by line, such as `title: Notes: the beginning`.
fn parse_lenient(text: &str) -> BTreeMap<String, Value> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let text = |value: &str| Value::Text(value.trim().trim_matches(['"', '\'']).to_owned());
    lines.map(|(key, value)| (key.to_owned(), text(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_one_line_without_control_characters() {
        let title = |text: &str| DocumentMetadata::default().or_else(front_matter(text)).title;
        let front = "---\ntitle: \"one\\0two\\e \\nthree\"\n---\n";
        assert_eq!(title(front).as_deref(), Some("one two three"));
        assert_eq!(title("---\ntitle: \"\\0\"\n---\n"), None);
    }

    #[test]
    fn dates_come_from_front_matter() {
        let date = |text: &str| front_matter(text).date.map(|date| date.to_string());
        let day = |text: &str| Some(format!("{text}T00:00:00Z"));
        assert_eq!(date("---\ntitle: x\ndate: 2026-03-01\n---\ntext"), day("2026-03-01"));
        assert_eq!(
            date("---\r\ndate: 2026-03-01\r\nupdated: '2026-04-02'\r\n---\r\n"),
            day("2026-04-02")
        );
        assert_eq!(date("---\ndate: 2026-03-01\nupdated: soon\n---\n"), day("2026-03-01"));
        assert_eq!(
            date("---\ndate: 2026-03-01 10:30:00\n---\n"),
            Some("2026-03-01T10:30:00Z".to_owned())
        );
        assert_eq!(
            date("---\ndate: 2026-03-01T10:30:00+02:00\n---\n"),
            Some("2026-03-01T08:30:00Z".to_owned())
        );
        for none in [
            "",
            "---\ndate: 2026-03-01\n",
            "date: 2026-03-01\n---\n",
            "---\ndate: [1]\n---\n",
            "---\n: {\n---\n",
        ] {
            assert_eq!(date(none), None, "{none}");
        }
    }

    #[test]
    fn a_title_is_one_line() {
        let title = |text: &str| DocumentMetadata::default().or_else(front_matter(text)).title;
        assert_eq!(
            title("---\ntitle: \"A  long\\n title\"\n---\n").as_deref(),
            Some("A long title")
        );
        assert_eq!(title("---\ntitle: 2026\ndate: x\n---\n").as_deref(), Some("2026"));
        assert_eq!(title("---\ntitle: ''\n---\n"), None);
        assert_eq!(title("---\ntitle: Good\ndate: [1]\n---\n").as_deref(), Some("Good"));
        assert_eq!(title("---\ntags: [a]\ntitle: Good\ntags: [b]\n---\n").as_deref(), Some("Good"));
        assert_eq!(
            title("---\ntitle: Notes: the beginning\n---\n").as_deref(),
            Some("Notes: the beginning")
        );
        let said = DocumentMetadata { title: Some("Said".to_owned()), date: None };
        assert_eq!(
            said.or_else(front_matter("---\ntitle: Own\n---\n")).title.as_deref(),
            Some("Said")
        );
    }
}
