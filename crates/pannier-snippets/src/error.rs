//! What can go wrong with snippets.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use pannier_files::SessionError;

use crate::id::MAX_ID_BYTES;
use crate::kind::{scope_names, type_names};

/// So many lines of a list are shown in a message.
const MAX_SHOWN_LINES: usize = 50;

/// Why snippets cannot be found or fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnippetsError {
    /// No root was given.
    #[error("there is no root; name at least one folder with snippets")]
    NoRoots,

    /// A root is not a folder.
    #[error("there is no folder {}; name one that has snippets", path.display())]
    NoRoot {
        /// What was given.
        path: PathBuf,
    },

    /// A root is there twice.
    #[error("{} is named twice; name it once", path.display())]
    SameRoots {
        /// The root.
        path: PathBuf,
    },

    /// A root lies in another.
    #[error("{} is in {}; name only one of them as a root", inner.display(), outer.display())]
    NestedRoots {
        /// The one.
        inner: PathBuf,
        /// The other.
        outer: PathBuf,
    },

    /// A root has no index.
    #[error("there is no index at {}", path.display())]
    NoIndex {
        /// Where it was looked for.
        path: PathBuf,
        /// The root.
        root: PathBuf,
    },

    /// An index cannot be read.
    #[error("the index {} is invalid: {problem}", path.display())]
    InvalidIndex {
        /// The index.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },

    /// Snippets have the same id.
    #[error("ids must be there once, and are not:\n{}", lines(ids))]
    DuplicateIds {
        /// What they are.
        ids: Vec<DuplicateId>,
    },

    /// An id cannot be one.
    #[error(
        "'{id}' cannot be the id of a snippet; {}use up to {MAX_ID_BYTES} lower-case letters, digits, '.', '_' and '-', with single slashes between them, as in project/design/index",
        did_you_mean(close)
    )]
    InvalidId {
        /// How it begins.
        id: String,
        /// Ids that are there and look like it, the closest first.
        close: Vec<String>,
    },

    /// Ids that no index has.
    #[error("these ids are in no index:\n{}", lines(ids))]
    UnknownIds {
        /// All of them.
        ids: Vec<UnknownId>,
    },

    /// The file of a snippet cannot be read.
    #[error("{id} cannot be read: {path}: {problem}; mend the file, or index its root again")]
    Unreadable {
        /// The snippet.
        id: String,
        /// Its file.
        path: String,
        /// What is wrong with it.
        problem: String,
    },

    /// There is no such type.
    #[error("there is no type '{name}'; there are {}", type_names())]
    UnknownType {
        /// Its name.
        name: String,
    },

    /// There is no such scope.
    #[error("there is no scope '{name}'; there are {}", scope_names())]
    UnknownScope {
        /// Its name.
        name: String,
    },

    /// The snippets, with all that they require, have too many tokens.
    #[error("{0}")]
    OverBudget(Box<OverBudget>),

    /// A session has snippets that are gone, and not even that fits the budget.
    #[error(
        "the index has changed, and saying so takes {tokens} tokens, above the budget of {budget}; raise the budget"
    )]
    MessageOverBudget {
        /// How many tokens the shortest answer has as it is printed.
        tokens: usize,
        /// How many it may have.
        budget: usize,
    },

    /// The engine refuses what it was given.
    #[error(transparent)]
    Engine(#[from] pannier_core::Error),

    /// Nothing can be remembered about a session.
    #[error(transparent)]
    Session(#[from] SessionError),

    /// Reading or writing failed.
    #[error("cannot {action} {}: {error}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        error: io::Error,
    },
}

impl SnippetsError {
    pub(crate) fn io(action: &'static str, path: &Path, error: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), error }
    }
}

/// An id that no index has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownId {
    /// The id.
    pub id: String,
    /// Ids that are there and look like it, the closest first.
    pub close: Vec<String>,
}

impl fmt::Display for UnknownId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meant = did_you_mean(&self.close);
        let between = if meant.is_empty() { "" } else { ": " };
        write!(f, "  {}{between}{}", self.id, meant.trim_end())
    }
}

/// A question with a blank behind it, or nothing.
fn did_you_mean(close: &[String]) -> String {
    match close.is_empty() {
        true => String::new(),
        false => format!("did you mean {}? ", close.join(", ")),
    }
}

/// An id that is there twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateId {
    /// The id.
    pub id: String,
    /// Where it is.
    pub path: String,
    /// Where it is, too.
    pub other: String,
}

impl fmt::Display for DuplicateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, path, other } = self;
        write!(f, "  {id}: {path} and {other}; rename one")
    }
}

/// How much too large a context is, and what could be done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverBudget {
    /// How many tokens it would have as it is printed.
    pub tokens: usize,
    /// How many it may have.
    pub budget: usize,
    /// What each of its snippets has, in their order.
    pub snippets: Vec<SnippetCost>,
    /// Requested ids without which the rest fits; none, if nothing that was requested fits.
    pub drop: Vec<String>,
    /// How many tokens there are without them.
    pub tokens_without: usize,
    /// Whether it was shown that dropping fewer does not help.
    pub is_smallest: bool,
}

/// What a snippet costs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnippetCost {
    /// Its id.
    pub id: String,
    /// How many tokens its text has.
    pub tokens: usize,
    /// Whether it was asked for, and not only required.
    pub is_requested: bool,
}

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tokens, budget, snippets, drop, tokens_without, is_smallest } = self;
        match snippets.is_empty() {
            true => writeln!(
                f,
                "the answer has {tokens} tokens, above the budget of {budget}, and no text: only what was asked for, what was sent before, and warnings"
            )?,
            false => {
                writeln!(f, "the snippets have {tokens} tokens, above the budget of {budget}:")?;
            }
        }
        let mut largest: Vec<&SnippetCost> = snippets.iter().collect();
        largest.sort_by(|a, b| b.tokens.cmp(&a.tokens).then_with(|| a.id.cmp(&b.id)));
        for SnippetCost { id, tokens, is_requested } in &largest {
            let why = if *is_requested { "requested" } else { "required" };
            writeln!(f, "  {tokens:>7}  {id} ({why})")?;
        }
        if !snippets.is_empty() {
            let around = self.tokens_around();
            writeln!(f, "  {around:>7}  around them: headers, chains, warnings")?;
        }
        if drop.is_empty() {
            return match snippets.is_empty() {
                true => write!(f, "raise the budget"),
                false => {
                    write!(f, "no requested snippet fits with what it requires; raise the budget")
                }
            };
        }
        let names = drop.join(", ");
        let proof = if *is_smallest { "" } else { " (fewer may do)" };
        write!(f, "drop {names}{proof} to have {tokens_without}, or raise the budget")
    }
}

impl OverBudget {
    /// How many tokens there are beside the texts: what was asked for, what was added and why, warnings, and a line above
    /// each text. Negative if a text has fewer where it stands than by itself, by more than these.
    pub fn tokens_around(&self) -> i128 {
        let texts: i128 = self.snippets.iter().map(|snippet| snippet.tokens as i128).sum();
        self.tokens as i128 - texts
    }
}

fn lines(list: &[impl fmt::Display]) -> String {
    let mut lines: Vec<String> =
        list.iter().take(MAX_SHOWN_LINES).map(ToString::to_string).collect();
    if list.len() > MAX_SHOWN_LINES {
        lines.push(format!("  and {} more", list.len() - MAX_SHOWN_LINES));
    }
    lines.join("\n")
}
