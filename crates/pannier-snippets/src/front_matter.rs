//! What stands at the beginning of a snippet's file, and what stands behind it.
//!
//! The body is everything behind the front matter, byte for byte: what is sent is what was written, also below a list of
//! required reads. Front matter is foreign YAML. It is short, and read with a tight budget.

use std::collections::BTreeMap;

use pannier_files::{MAX_FRONT_MATTER_BYTES, is_fence};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Why a text that somebody meant to have front matter has none, and what to do.
pub(crate) fn near_miss(text: &str) -> Option<&'static str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let front = text.trim_start();
    let mut lines = front.lines().take_while({
        let mut left = MAX_FRONT_MATTER_BYTES;
        move |line| {
            let is_subset = left > 0;
            left = left.saturating_sub(line.len() + 1);
            is_subset
        }
    });
    lines.next().filter(|line| is_fence(line))?;
    let names_field =
        |line: &str| ["id:", "type:", "scope:"].iter().any(|key| line.starts_with(key));
    let (mut is_meant, mut is_closed) = (false, false);
    for line in lines {
        is_closed = is_fence(line) || line.trim_end() == "...";
        if is_closed {
            break;
        }
        is_meant |= names_field(line);
    }
    match (is_meant, is_closed) {
        (false, _) => None,
        (true, true) if front.len() < text.len() => {
            Some("its front matter does not begin in the first line; remove what is before it")
        }
        (true, true) => Some("its front matter ends with '...'; end it with a line '---'"),
        (true, false) => {
            Some("its front matter has no end within 64 KiB; put a line '---' behind it")
        }
    }
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
    Nothing(()),
    Text(String),
    Texts(Vec<String>),
    Other(IgnoredAny),
}

impl Fields {
    /// RequiredReads front matter, or tells in one line why it cannot be read, and the line of the file, if there is one.
    pub(crate) fn read(front: &str) -> Result<Self, (Option<usize>, String)> {
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
        let mut keys = keys.map_err(|error| unreadable(&error))?.unwrap_or_default();
        let requires = match keys.remove("requires") {
            // Templates have the key, and nothing behind it.
            None | Some(Value::Nothing(())) => Some(Vec::new()),
            Some(Value::Texts(texts)) => Some(texts),
            // One alone is often written without a list.
            Some(Value::Text(text)) => Some(vec![text]),
            Some(Value::Other(IgnoredAny)) => None,
        };
        let mut text = |key: &str| match keys.remove(key) {
            None | Some(Value::Nothing(())) => Field::Missing,
            Some(Value::Text(text)) => Field::Text(text),
            Some(_) => Field::Other,
        };
        let (id, description) = (text("id"), text("description"));
        Ok(Self { id, description, kind: text("type"), scope: text("scope"), requires })
    }

    /// Whether somebody meant this to be a snippet: other pages have a title and a description, too.
    pub(crate) fn resembles_snippet(&self) -> bool {
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

/// What is wrong with front matter, and in which line of its file.
fn unreadable(error: &serde_saphyr::Error) -> (Option<usize>, String) {
    // Behind the first fence.
    let line = error.location().and_then(|place| usize::try_from(place.line()).ok());
    let problem = match error.without_snippet() {
        serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("the key '{}' is there twice; remove one", crate::id::excerpt(key))
        }
        other => {
            let text = first_line(&other.to_string());
            // Its lines are those of the front matter alone.
            text.split(" at line ").next().unwrap_or_default().to_owned()
        }
    };
    let hint = if problem.contains("`@'") { "; put what begins with @ in quotes" } else { "" };
    (line.map(|line| line + 1), problem + hint)
}

pub(crate) fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    crate::id::one_line(line.trim_start_matches("error: ").trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for empty in ["requires:", "requires: ~", "requires: null", "requires: []"] {
            assert_eq!(read(empty).requires, Some(vec![]), "{empty}");
        }
        assert_eq!(read("requires:\n  - c\n  - '@d.md'\n").requires.unwrap(), ["c", "@d.md"]);
        assert_eq!((read("id:").id, read("id: 7").id), (Field::Missing, Field::Other));
        assert_eq!(read("id: [a]").id, Field::Other);
        assert_eq!(read("").requires, Some(vec![]));
        assert!(!read("title: x\ndescription: y").resembles_snippet());
        assert!(read("scope: global").resembles_snippet());
        for bad in ["id: [", "id: a\nid: b", "- a", "just words", "a: &x [y]\nb: *x"] {
            let (_, problem) = Fields::read(bad).unwrap_err();
            assert!(!problem.contains('\n'), "{problem}");
        }
    }

    #[test]
    fn problems_have_the_line_of_the_file_and_say_what_to_do() {
        let problem = |front| Fields::read(front).unwrap_err();
        let (line, twice) = problem("id: a\ntype: b\nid: c\n");
        assert_eq!((line, &*twice), (Some(4), "the key 'id' is there twice; remove one"));
        let (line, sign) = problem("id: a\nrequires:\n  - @b\n");
        assert!(line == Some(4) && sign.ends_with("; put what begins with @ in quotes"), "{sign}");
    }

    #[test]
    fn what_is_nearly_front_matter_is_told() {
        for (text, problem) in [
            ("---\nid: a\n", "no end"),
            ("---\ntype: a\n\nText.\n", "no end"),
            ("---\nid: a\n...\nText.\n", "'...'"),
            ("\n---\nid: a\n---\n", "first line"),
            ("\u{feff} \n---\nscope: a\n---\n", "first line"),
        ] {
            assert_eq!(pannier_files::split_front_matter(text).front, None, "{text}");
            assert!(near_miss(text).unwrap().contains(problem), "{text}");
        }
        let long = format!("---\nid: a\nx: {}\n---\n", "a".repeat(MAX_FRONT_MATTER_BYTES));
        assert!(near_miss(&long).unwrap().contains("no end"));
        for other in ["", "---", "---\ntitle: a\n", "id: a\n---\n", "***\n", "---\n\nid is: a\n"] {
            assert_eq!(near_miss(other), None, "{other}");
        }
    }

    #[test]
    fn keys_have_lines() {
        let front = "description: x\nid : a\n  scope: y\n";
        assert_eq!(["description", "id", "scope"].map(|key| line_of(front, key)), [2, 3, 1]);
    }
}
