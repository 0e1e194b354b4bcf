//! When a document was written, as its front matter says. The file system is not asked: it tells when a copy was made.

use pannier_core::Timestamp;
use serde::Deserialize;

/// Longer front matter is not read.
const LONGEST: usize = 64 << 10;

/// Reads a date, or a date and a time. Where no offset is given, it is UTC.
///
/// ```
/// use pannier_docs::read_date;
///
/// assert_eq!(read_date("2026-03-01"), read_date("2026-03-01T01:00+01:00"));
/// assert_eq!(read_date("spring"), None);
/// ```
pub fn read_date(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    ["", "Z", "T00:00Z"].iter().find_map(|end| format!("{text}{end}").parse().ok())
}

/// `updated` in the front matter, or else `date`, in whole seconds.
pub(crate) fn front_matter_date(text: &str) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct Dates {
        date: Option<String>,
        updated: Option<String>,
    }
    let Dates { date, updated } = serde_saphyr::from_str(front_matter(text)?).ok()?;
    [updated, date].into_iter().flatten().find_map(|text| read_date(&text))
}

/// What stands between the lines `---` at the beginning of a text.
fn front_matter(text: &str) -> Option<&str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = &text[..text.floor_char_boundary(LONGEST)];
    let is_fence = |line: &str| line.trim_end() == "---";
    let first = text.split_inclusive('\n').next().filter(|line| is_fence(line))?;
    let mut end = first.len();
    for line in text[end..].split_inclusive('\n') {
        if is_fence(line) {
            return Some(&text[first.len()..end]);
        }
        end += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_come_from_the_front_matter() {
        let date = |text: &str| front_matter_date(text).map(|date| date.to_string());
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
}
