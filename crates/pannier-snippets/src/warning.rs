//! What is wrong, but not so wrong that nothing can be answered.

use std::fmt;

use serde::Serialize;

use crate::root::ReadFailure;

/// Something that a caller should know about an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Warning {
    /// An entry of an index is left out.
    Entry {
        /// Which, and why.
        message: String,
    },
    /// The file of a snippet cannot be read, and the snippet is left out.
    Unreadable {
        /// The snippet.
        id: String,
        /// Which file, and why.
        message: String,
    },
    /// The file of a snippet says something else about it than the index; what the index says was used.
    Outdated {
        /// The snippet.
        id: String,
        /// Which file, and what to do.
        message: String,
    },
    /// A snippet requires something that is in no index.
    Dangling {
        /// The snippet.
        id: String,
        /// What it requires, as it is written.
        requires: String,
        /// The same, for people.
        message: String,
    },
    /// Snippets require each other in a circle, which is broken at the first of them.
    Cycle {
        /// The smallest id of the circle.
        id: String,
        /// The circle, or how it begins and ends, for people.
        message: String,
    },
}

impl Warning {
    /// What it says.
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
        let shown = crate::id::excerpt(requires);
        let message = format!("{id} requires '{shown}', which is in no index");
        Self::Dangling { id: id.to_owned(), requires: requires.to_owned(), message }
    }

    pub(crate) fn cycle(ids: &[&str]) -> Self {
        let id = ids.first().copied().unwrap_or_default();
        let circle = abbreviate(ids, " -> ");
        let message = format!("snippets require each other: {circle} -> {id}");
        Self::Cycle { id: id.to_owned(), message }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

/// What to do about a file that cannot be read, if the index is to blame.
fn hint(problem: &str) -> &'static str {
    match problem == ReadFailure::Missing.problem() {
        true => "; if it was removed, index the root again",
        false => "",
    }
}

/// A list that may be as long as there are snippets: its beginning and its end.
fn abbreviate(ids: &[&str], between: &str) -> String {
    if ids.len() <= 8 {
        return ids.join(between);
    }
    let (first, last) = (ids[..4].join(between), ids[ids.len() - 4..].join(between));
    format!("{first}{between}({} more){between}{last}", ids.len() - 8)
}
