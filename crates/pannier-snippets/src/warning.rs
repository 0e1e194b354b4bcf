//! Problems that do not prevent a response.

use std::fmt;

use serde::Serialize;

use crate::root::ReadFailure;

/// A problem with a part of a response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Warning {
    /// An entry of an index is invalid and omitted.
    Entry {
        /// The entry and the reason.
        message: String,
    },
    /// The file of a snippet cannot be read, and the snippet is omitted.
    Unreadable {
        /// The snippet.
        id: String,
        /// The file and the reason.
        message: String,
    },
    /// The front matter of a snippet differs from the index. The response uses the index.
    Outdated {
        /// The snippet.
        id: String,
        /// The file and the remedy.
        message: String,
    },
    /// A reference of a snippet is in no index.
    Dangling {
        /// The snippet.
        id: String,
        /// The reference, as written.
        requires: String,
        /// The snippet and the reference.
        message: String,
    },
    /// Snippets require each other in a cycle, which is broken at its smallest id.
    Cycle {
        /// The smallest id of the cycle.
        id: String,
        /// The cycle; of a long one, its beginning and end.
        message: String,
    },
}

impl Warning {
    /// Returns the message.
    pub fn message(&self) -> &str {
        match self {
            Self::Entry { message }
            | Self::Unreadable { message, .. }
            | Self::Outdated { message, .. }
            | Self::Dangling { message, .. }
            | Self::Cycle { message, .. } => message,
        }
    }

    pub(crate) fn unreadable(id: &str, path: &str, problem: &str) -> Self {
        let message = format!("{id} is left out: {path}: {problem}{}", hint(problem));
        Self::Unreadable { id: id.to_owned(), message }
    }

    pub(crate) fn outdated(id: &str, path: &str) -> Self {
        let message = format!(
            "{id}: {path} says something else about it than the index; index the root again"
        );
        Self::Outdated { id: id.to_owned(), message }
    }

    pub(crate) fn uncounted(id: &str, path: &str, problem: &str) -> Self {
        let message = format!("{id} cannot be counted: {path}: {problem}{}", hint(problem));
        Self::Unreadable { id: id.to_owned(), message }
    }

    pub(crate) fn dangling(id: &str, requires: &str) -> Self {
        let reference = crate::id::excerpt(requires);
        let message = format!("{id} requires '{reference}', which is in no index");
        Self::Dangling { id: id.to_owned(), requires: requires.to_owned(), message }
    }

    pub(crate) fn cycle(ids: &[&str]) -> Self {
        let id = ids.first().copied().unwrap_or_default();
        let cycle = abbreviate(ids, " -> ");
        let message = format!("dependency cycle: {cycle} -> {id}");
        Self::Cycle { id: id.to_owned(), message }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

/// Returns the remedy for a file that cannot be read, if the index may be the cause.
fn hint(problem: &str) -> &'static str {
    match problem == ReadFailure::Missing.problem() {
        true => "; if it was removed, index the root again",
        false => "",
    }
}

/// Joins ids. Of more than eight, keeps the first and the last four.
fn abbreviate(ids: &[&str], separator: &str) -> String {
    if ids.len() <= 8 {
        return ids.join(separator);
    }
    let (first, last) = (ids[..4].join(separator), ids[ids.len() - 4..].join(separator));
    format!("{first}{separator}({} more){separator}{last}", ids.len() - 8)
}
