//! Parses the front matter of a snippet.
//!
//! Front matter is untrusted YAML of at most 64 KiB, so the parser runs with tight limits on depth, nodes and aliases.

use std::collections::BTreeMap;

use pannier_files::{MAX_FRONT_MATTER_BYTES, is_fence};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_saphyr::budget::BudgetBreach;

/// Returns the problem and its fix if `text` resembles a snippet but its front matter is not recognized.
pub(crate) fn near_miss(text: &str) -> Option<&'static str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let front = text.trim_start();
    let mut lines = front.lines().take_while({
        let mut remaining = MAX_FRONT_MATTER_BYTES;
        move |line| {
            let is_within = remaining > 0;
            remaining = remaining.saturating_sub(line.len() + 1);
            is_within
        }
    });
    lines.next().filter(|line| is_fence(line))?;
    let names_field =
        |line: &str| ["id:", "type:", "scope:"].iter().any(|key| line.starts_with(key));
    let (mut has_field, mut is_closed) = (false, false);
    for line in lines {
        is_closed = is_fence(line) || line.trim_end() == "...";
        if is_closed {
            break;
        }
        has_field |= names_field(line);
    }
    match (has_field, is_closed) {
        (false, _) => None,
        (true, true) if front.len() < text.len() => {
            Some("its front matter does not start on the first line; remove the lines before it")
        }
        (true, true) => Some("its front matter ends with '...'; end it with a line '---'"),
        (true, false) => {
            Some("its front matter has no end within 64 KiB; add a line '---' after it")
        }
    }
}

/// The keys of a snippet's front matter, not validated.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) id: Field,
    pub(crate) description: Field,
    pub(crate) kind: Field,
    pub(crate) scope: Field,
    /// Empty if absent; `None` if it is not a list of strings.
    pub(crate) requires: Option<Vec<String>>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Field {
    #[default]
    Missing,
    /// Not a string.
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
    /// Parses front matter. The error is the line of the file, if known, and a one-line problem.
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
        let mut keys = keys.map_err(|error| describe_error(&error))?.unwrap_or_default();
        let requires = match keys.remove("requires") {
            // Templates contain the key without a value.
            None | Some(Value::Nothing(())) => Some(Vec::new()),
            Some(Value::Texts(texts)) => Some(texts),
            // A single reference is often written without a list.
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

    /// Returns whether the file is meant to be a snippet. A description alone is not enough: other pages have one, too.
    pub(crate) fn resembles_snippet(&self) -> bool {
        [&self.id, &self.kind, &self.scope].iter().any(|field| **field != Field::Missing)
    }
}

/// Returns the line of the file that starts with a key of its front matter, or 1.
pub(crate) fn line_of(front: &str, key: &str) -> usize {
    let is_key = |line: &str| {
        let rest = line.strip_prefix(key);
        rest.is_some_and(|rest| rest.trim_start().starts_with(':'))
    };
    // Line 1 is the opening fence.
    front.lines().position(is_key).map_or(1, |position| position + 2)
}

/// Returns the line of the file and the problem of a YAML error.
fn describe_error(error: &serde_saphyr::Error) -> (Option<usize>, String) {
    let line = error.location().and_then(|location| usize::try_from(location.line()).ok());
    let problem = match error.without_snippet() {
        serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("the key '{}' appears twice; remove one", crate::id::excerpt(key))
        }
        serde_saphyr::Error::Budget { breach, .. } => breach_problem(breach).to_owned(),
        other => {
            let text = first_line(&other.to_string());
            // Its line numbers do not count the opening fence.
            text.split(" at line ").next().unwrap_or_default().to_owned()
        }
    };
    let hint = if problem.contains("`@'") { "; quote strings that start with @" } else { "" };
    (line.map(|line| line + 1), problem + hint)
}

/// Describes the limit that a YAML text exceeds.
pub(crate) fn breach_problem(breach: &BudgetBreach) -> &'static str {
    match breach {
        BudgetBreach::Aliases { .. }
        | BudgetBreach::Anchors { .. }
        | BudgetBreach::MergeKeys { .. } => {
            "it has an anchor (&name) or an alias (*name); quote strings that start with & or *"
        }
        BudgetBreach::Depth { .. } => "it nests too deep; make it flat",
        BudgetBreach::Documents { .. } => "it has several documents; keep one",
        _ => "it is too large; shorten it",
    }
}

/// Returns the first line of an error message.
pub(crate) fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    crate::id::one_line(line.trim_start_matches("error: ").trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_strings_and_requires_is_a_list_of_strings() {
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
    fn problems_have_the_line_of_the_file_and_a_fix() {
        let problem = |front| Fields::read(front).unwrap_err();
        let (line, twice) = problem("id: a\ntype: b\nid: c\n");
        assert_eq!((line, &*twice), (Some(4), "the key 'id' appears twice; remove one"));
        let (line, anchor) = problem("id: a\nx: &y b\n");
        assert!(line == Some(3) && anchor.starts_with("it has an anchor"), "{line:?} {anchor}");
        let deep = format!("a: {}{}", "[".repeat(40), "]".repeat(40));
        for front in ["globs: *.ts\n", &deep] {
            let (_, problem) = Fields::read(front).unwrap_err();
            assert!(!problem.contains('{') && problem.contains(' '), "{problem}");
        }
        let (line, unquoted) = problem("id: a\nrequires:\n  - @b\n");
        assert!(
            line == Some(4) && unquoted.ends_with("; quote strings that start with @"),
            "{unquoted}"
        );
    }

    #[test]
    fn near_misses_are_reported() {
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
    fn line_of_finds_keys_at_line_starts() {
        let front = "description: x\nid : a\n  scope: y\n";
        assert_eq!(["description", "id", "scope"].map(|key| line_of(front, key)), [2, 3, 1]);
    }
}
