//! What stands at the beginning of a snippet's file, and what stands behind it.
//!
//! The body is everything behind the front matter, byte for byte: what is sent is what was written, also below a list of
//! required reads. Front matter is foreign YAML. It is short, and read with a tight budget.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

/// Longer front matter is not read.
pub(crate) const LONGEST_FRONT_MATTER: usize = 64 << 10;

/// A text, parted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts<'t> {
    /// What stands between the lines `---` at the beginning, if there are such lines.
    pub(crate) front: Option<&'t str>,
    /// What stands behind the second; without front matter, everything.
    pub(crate) body: &'t str,
}

/// Parts a text.
pub(crate) fn split(text: &str) -> Parts<'_> {
    let whole = Parts { front: None, body: text };
    let from = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_fence = |line: &str| line.trim_end() == "---";
    let Some(first) = from.split_inclusive('\n').next().filter(|line| is_fence(line)) else {
        return whole;
    };
    let mut end = first.len();
    for line in from[end..].split_inclusive('\n') {
        if is_fence(line) {
            return Parts { front: Some(&from[first.len()..end]), body: &from[end + line.len()..] };
        }
        end += line.len();
        if end > LONGEST_FRONT_MATTER {
            break;
        }
    }
    whole
}

/// The keys that matter here, as far as they say what they can.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) id: Field,
    pub(crate) description: Field,
    pub(crate) kind: Field,
    pub(crate) scope: Field,
    /// Absent is empty; `None` is something that is no list of texts.
    pub(crate) requires: Option<Vec<String>>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Field {
    #[default]
    Missing,
    /// Something that is no text.
    Other,
    Text(String),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Value {
    Text(String),
    Texts(Vec<String>),
    Other(IgnoredAny),
}

impl Fields {
    /// Reads front matter, or tells in one line why it cannot be read.
    pub(crate) fn read(front: &str) -> Result<Self, String> {
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! {
                max_depth: 32,
                max_nodes: 20_000,
                max_events: 50_000,
                max_aliases: 0,
                max_anchors: 0,
                max_merge_keys: 0,
                max_documents: 1,
            },
        };
        let keys =
            serde_saphyr::from_str_with_options::<Option<BTreeMap<String, Value>>>(front, options);
        let mut keys = keys.map_err(|error| first_line(&error.to_string()))?.unwrap_or_default();
        let requires = match keys.remove("requires") {
            None => Some(Vec::new()),
            Some(Value::Texts(texts)) => Some(texts),
            // One alone is often written without a list; a key without a value is an empty list.
            Some(Value::Text(text)) if text.trim().is_empty() => Some(Vec::new()),
            Some(Value::Text(text)) => Some(vec![text]),
            Some(Value::Other(IgnoredAny)) => None,
        };
        let mut text = |key: &str| match keys.remove(key) {
            None => Field::Missing,
            Some(Value::Text(text)) => Field::Text(text),
            Some(_) => Field::Other,
        };
        let (id, description) = (text("id"), text("description"));
        Ok(Self { id, description, kind: text("type"), scope: text("scope"), requires })
    }

    /// Whether somebody meant this to be a snippet: other pages have a title and a description, too.
    pub(crate) fn is_meant(&self) -> bool {
        [&self.id, &self.kind, &self.scope].iter().any(|field| **field != Field::Missing)
    }
}

/// The line of a file that a key of its front matter stands in, as far as it begins a line.
pub(crate) fn line_of(front: &str, key: &str) -> usize {
    let is_key = |line: &str| {
        let rest = line.strip_prefix(key);
        rest.is_some_and(|rest| rest.trim_start().starts_with(':'))
    };
    // Behind the first fence, and counted from 1.
    front.lines().position(is_key).map_or(1, |place| place + 2)
}

pub(crate) fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    crate::id::one_line(line.trim_start_matches("error: ").trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_everything_behind_the_front_matter() {
        let parts = |text| {
            let Parts { front, body } = split(text);
            (front, body)
        };
        assert_eq!(parts("---\nid: a\n---\n\n# A\r\n"), (Some("id: a\n"), "\n# A\r\n"));
        assert_eq!(parts("---\r\nid: a\r\n---\r\nb"), (Some("id: a\r\n"), "b"));
        assert_eq!(parts("\u{feff}---\n---\nb\n---\n"), (Some(""), "b\n---\n"));
        assert_eq!(parts("--- \nid: a\n---"), (Some("id: a\n"), ""));
        for whole in
            ["", "---", "---\nid: a\n", "text\n---\nid: a\n---\n", "\u{feff}x", " ---\n---\n"]
        {
            assert_eq!(parts(whole), (None, whole));
        }
        let long = format!("---\nid: {}\n---\n", "a".repeat(LONGEST_FRONT_MATTER));
        assert_eq!(parts(&long), (None, &*long));
    }

    #[test]
    fn fields_are_texts_and_requires_a_list_of_them() {
        let read = |text| Fields::read(text).unwrap();
        let text = |text: &str| Field::Text(text.to_owned());
        let fields = read(
            "id: a/b\ndescription: 'It: is'\ntype: policy\nscope: global\nrequires: [c, d]\nmore: {x: [1]}\n",
        );
        assert_eq!(fields.id, text("a/b"));
        assert_eq!(fields.description, text("It: is"));
        assert_eq!((fields.kind, fields.scope), (text("policy"), text("global")));
        assert_eq!(fields.requires, Some(vec!["c".to_owned(), "d".to_owned()]));
        assert_eq!(read("requires: c").requires, Some(vec!["c".to_owned()]));
        assert_eq!(read("requires: {a: b}").requires, None);
        assert_eq!(read("id: [a]").id, Field::Other);
        assert_eq!(read("").requires, Some(vec![]));
        assert!(!read("title: x\ndescription: y").is_meant());
        assert!(read("scope: global").is_meant());
        for bad in ["id: [", "id: a\nid: b", "- a", "just words", "a: &x [y]\nb: *x"] {
            let problem = Fields::read(bad).unwrap_err();
            assert!(!problem.contains('\n'), "{problem}");
        }
    }

    #[test]
    fn keys_have_lines() {
        let front = "description: x\nid : a\n  scope: y\n";
        assert_eq!(["description", "id", "scope"].map(|key| line_of(front, key)), [2, 3, 1]);
    }
}
