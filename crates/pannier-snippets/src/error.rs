//! Errors of this crate.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use pannier_files::SessionError;

use crate::id::MAX_ID_BYTES;
use crate::kind::{scope_names, type_names};

/// The maximum number of list lines in a message.
const MAX_SHOWN_LINES: usize = 50;

/// The reasons why snippets cannot be indexed, listed or fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnippetsError {
    /// An alias is not a prefix and a path.
    #[error("'{alias}' is not an alias; write PREFIX=PATH, as in @~/handbook=docs/global")]
    InvalidAlias {
        /// The text.
        alias: String,
    },

    /// The list of roots is empty.
    #[error("no root given; name at least one folder with snippets")]
    NoRoots,

    /// A root is not a folder.
    #[error("{} is not a folder; name a folder with snippets", path.display())]
    NoRoot {
        /// The path.
        path: PathBuf,
    },

    /// A root appears twice.
    #[error("{} is named twice; name it once", path.display())]
    SameRoots {
        /// The root.
        path: PathBuf,
    },

    /// A root contains another.
    #[error("{} is in {}; name only one of them as a root", inner.display(), outer.display())]
    NestedRoots {
        /// The contained root.
        inner: PathBuf,
        /// The containing root.
        outer: PathBuf,
    },

    /// A root has no index.
    #[error("there is no index at {}", path.display())]
    NoIndex {
        /// The expected path of the index.
        path: PathBuf,
        /// The root.
        root: PathBuf,
    },

    /// An index cannot be read.
    #[error("the index {} is invalid: {problem}", path.display())]
    InvalidIndex {
        /// The index.
        path: PathBuf,
        /// The cause.
        problem: String,
    },

    /// Snippets have the same id.
    #[error("duplicate snippet ids:\n{}", lines(ids))]
    DuplicateIds {
        /// The duplicate ids, with their files.
        ids: Vec<DuplicateId>,
    },

    /// An id is not valid.
    #[error(
        "'{id}' is not a valid snippet id; {}use up to {MAX_ID_BYTES} lowercase letters, digits, '.', '_' and '-', in segments separated by '/', as in project/design/index",
        did_you_mean(close)
    )]
    InvalidId {
        /// The first 80 characters of the id.
        id: String,
        /// Similar ids, closest first.
        close: Vec<String>,
    },

    /// No index contains these ids.
    #[error("these ids are in no index:\n{}", lines(ids))]
    UnknownIds {
        /// All unknown ids, with suggestions.
        ids: Vec<UnknownId>,
    },

    /// The file of a snippet cannot be read.
    #[error("{id} cannot be read: {path}: {problem}; fix the file or index its root again")]
    Unreadable {
        /// The snippet.
        id: String,
        /// The path of its file.
        path: String,
        /// The cause.
        problem: String,
    },

    /// A name is not a snippet type.
    #[error("unknown type '{name}'; use one of {}, or another that a snippet has", type_names())]
    UnknownType {
        /// The name.
        name: String,
    },

    /// A name is not a scope.
    #[error("unknown scope '{name}'; use one of {}", scope_names())]
    UnknownScope {
        /// The name.
        name: String,
    },

    /// The snippets and their dependencies exceed the budget.
    #[error("{0}")]
    OverBudget(Box<OverBudget>),

    /// A session received snippets that no longer exist, and the shortest message about it exceeds the budget.
    #[error(
        "the index has changed and the shortest response needs {tokens} tokens, but the budget is {budget}; raise the budget to {tokens}"
    )]
    MessageOverBudget {
        /// The tokens of the shortest response.
        tokens: usize,
        /// The budget in tokens.
        budget: usize,
    },

    /// The engine rejected its input.
    #[error(transparent)]
    Engine(#[from] pannier_core::Error),

    /// The file of a session cannot be used.
    #[error(transparent)]
    Session(#[from] SessionError),

    /// Reading or writing failed.
    #[error("cannot {action} {}: {error}", path.display())]
    Io {
        /// The operation, as a verb.
        action: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
}

impl SnippetsError {
    pub(crate) fn io(action: &'static str, path: &Path, error: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), error }
    }
}

/// An id that no index contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownId {
    /// The id.
    pub id: String,
    /// Similar ids, closest first.
    pub close: Vec<String>,
}

impl fmt::Display for UnknownId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suggestion = did_you_mean(&self.close);
        let separator = if suggestion.is_empty() { "" } else { ": " };
        write!(f, "  {}{separator}{}", self.id, suggestion.trim_end())
    }
}

/// Returns a question with a trailing space, or an empty string.
fn did_you_mean(close: &[String]) -> String {
    match close.is_empty() {
        true => String::new(),
        false => format!("did you mean {}? ", close.join(", ")),
    }
}

/// An id of two snippets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateId {
    /// The id.
    pub id: String,
    /// The file of the first snippet.
    pub path: String,
    /// The file of another snippet.
    pub other: String,
}

impl fmt::Display for DuplicateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, path, other } = self;
        write!(f, "  {id}: {path} and {other}; rename one")
    }
}

/// The size of a response that exceeds its budget, and the requests to drop.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverBudget {
    /// The tokens of the rendered response.
    pub tokens: usize,
    /// The budget in tokens.
    pub budget: usize,
    /// The costs of its snippets, in response order.
    pub snippets: Vec<SnippetCost>,
    /// The requested ids to drop so that the rest fits; empty if no request fits.
    pub drop: Vec<String>,
    /// The tokens of the rendered response without them.
    pub tokens_without: usize,
    /// Whether `drop` is proven to be a smallest set, or, if it is empty, that no request fits.
    pub is_smallest: bool,
}

/// The cost of a snippet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnippetCost {
    /// The id.
    pub id: String,
    /// The tokens of its text.
    pub tokens: usize,
    /// Whether it was requested, not only required.
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
            return match (snippets.is_empty(), is_smallest) {
                (true, _) => write!(f, "raise the budget"),
                (_, true) => {
                    write!(f, "no requested snippet fits with what it requires; raise the budget")
                }
                (_, false) => write!(f, "request fewer snippets, or raise the budget"),
            };
        }
        let names = drop.join(", ");
        let proof = if *is_smallest { "" } else { " (fewer may do)" };
        write!(f, "drop {names}{proof} to have {tokens_without}, or raise the budget")
    }
}

impl OverBudget {
    /// Returns the tokens of everything but the texts: requested ids, chains, warnings and headers. Negative if merged
    /// tokens save more than that.
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
