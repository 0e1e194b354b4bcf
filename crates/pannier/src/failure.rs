//! One error type over all crates, with a category for programs.

use pannier_core::{Error, ErrorKind};
use pannier_tokens::TokenError;

#[cfg(feature = "chat")]
use pannier_chat::ChatError;
#[cfg(feature = "docs")]
use pannier_docs::DocsError;
#[cfg(feature = "embed")]
use pannier_embed::EmbedError;
#[cfg(any(feature = "memory", feature = "snippets"))]
use pannier_files::SessionError;
#[cfg(feature = "http")]
use pannier_http::HttpError;
#[cfg(feature = "memory")]
use pannier_memory::MemoryError;
#[cfg(feature = "snippets")]
use pannier_snippets::SnippetsError;

use crate::ShelfError;

/// An error of any of Pannier's crates.
///
/// ```
/// use pannier::{Audience, Category, ContextBudget, Failure};
///
/// let failure = Failure::from(ContextBudget::new(100, 200).unwrap_err());
/// assert_eq!(failure.category(), Category::InvalidInput);
/// assert_eq!(
///     failure.message(Audience::Command),
///     "--target is 200; it must not be above --budget, which is 100"
/// );
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The engine.
    #[error(transparent)]
    Engine(#[from] Error),
    /// Token counting.
    #[error(transparent)]
    Tokens(#[from] TokenError),
    /// Named folders.
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    /// Chat transcripts.
    #[cfg(feature = "chat")]
    #[error(transparent)]
    Chat(#[from] ChatError),
    /// The transcript that was sent before.
    #[cfg(feature = "chat")]
    #[error("previous: {0}")]
    Previous(#[source] ChatError),
    /// Document indexes.
    #[cfg(feature = "docs")]
    #[error(transparent)]
    Docs(#[from] DocsError),
    /// Embedding models.
    #[cfg(feature = "embed")]
    #[error(transparent)]
    Embed(#[from] EmbedError),
    /// Models on servers.
    #[cfg(feature = "http")]
    #[error(transparent)]
    Http(#[from] HttpError),
    /// Project memory.
    #[cfg(feature = "memory")]
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Snippets.
    #[cfg(feature = "snippets")]
    #[error(transparent)]
    Snippets(#[from] SnippetsError),
    /// Session files.
    #[cfg(any(feature = "memory", feature = "snippets"))]
    #[error(transparent)]
    Session(#[from] SessionError),
    /// An option of a request is invalid.
    #[error("{}{problem}", at(path))]
    Request {
        /// The path to the option; empty for the whole request.
        path: String,
        /// The mistake, and the expected form.
        problem: String,
    },
    /// A request has no budget.
    #[error("there is no budget")]
    NoBudget,
    /// A kind has two reserved slots.
    #[error("the kind {kind} has two slots; give it one")]
    SlotTwice {
        /// The kind.
        kind: String,
    },
    /// A request explains too many items.
    #[error("a request explains at most {max} items; name fewer, in several requests if necessary")]
    TooManyExplained {
        /// The maximum.
        max: usize,
    },
    /// A range of budgets is empty or negative.
    #[error(
        "the range of budgets from {min} to {max} is empty or negative; choose 0 <= min <= max"
    )]
    EmptyRange {
        /// The smallest budget.
        min: i64,
        /// The largest budget.
        max: i64,
    },
    /// The largest budget of a search is below the item's tokens.
    #[error("the largest budget is {max}, below the item's {tokens} tokens; raise it")]
    BelowItem {
        /// The largest budget.
        max: i64,
        /// The item's tokens.
        tokens: i64,
    },
    /// A budget cannot lose this many tokens.
    #[error("{tokens} tokens cannot be removed from a target of {target}; choose 0 to {target}")]
    LossOutOfRange {
        /// The tokens to remove.
        tokens: i64,
        /// The target.
        target: i64,
    },
    /// The budget is below the smallest answer.
    #[error(
        "the smallest answer needs a budget of {smallest_budget} tokens, and the budget is {budget}"
    )]
    AnswerOverBudget {
        /// The smallest budget that holds an answer.
        smallest_budget: i64,
        /// The budget.
        budget: i64,
    },
    /// A file that a request names cannot be used.
    #[error("{name}: {problem}")]
    File {
        /// The name, as the request has it.
        name: String,
        /// The mistake.
        problem: String,
    },
    /// A file that a request names cannot be read.
    #[error("cannot read {name}: {error}")]
    Read {
        /// The name, as the request has it.
        name: String,
        /// The error.
        error: std::io::Error,
    },
}

fn at(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("{path}: ") }
}

/// What a failure is, for programs: the exit code of a process and the code of an answer derive from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Category {
    /// A check ran, and its answer is no.
    CheckFailed,
    /// The request or its input is invalid.
    InvalidInput,
    /// No selection meets the budget.
    BudgetNotMet,
    /// The cache does not exist.
    CacheMissing,
    /// The cache exists and cannot be used.
    CacheInvalid,
    /// Reading or writing failed.
    Io,
    /// A fault of Pannier, or of a component that was added to it.
    Internal,
}

impl Category {
    /// All categories, in the order of their exit codes.
    pub const ALL: [Self; 7] = [
        Self::CheckFailed,
        Self::InvalidInput,
        Self::BudgetNotMet,
        Self::CacheMissing,
        Self::CacheInvalid,
        Self::Io,
        Self::Internal,
    ];

    /// Returns a stable name, as in `"cache_missing"`.
    pub fn code(self) -> &'static str {
        match self {
            Self::CheckFailed => "check_failed",
            Self::InvalidInput => ErrorKind::Invalid.code(),
            Self::BudgetNotMet => ErrorKind::BudgetNotMet.code(),
            Self::CacheMissing => "cache_missing",
            Self::CacheInvalid => "cache_invalid",
            Self::Io => "io",
            Self::Internal => ErrorKind::Custom.code(),
        }
    }
}

impl From<ErrorKind> for Category {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Invalid => Self::InvalidInput,
            ErrorKind::BudgetNotMet => Self::BudgetNotMet,
            _ => Self::Internal,
        }
    }
}

impl Failure {
    /// Returns the category.
    pub fn category(&self) -> Category {
        match self {
            Self::Engine(error) => error.kind().into(),
            Self::Tokens(_) => Category::InvalidInput,
            Self::Shelf(ShelfError::Io { .. } | ShelfError::MemoryGone) => Category::Io,
            Self::Shelf(_) => Category::InvalidInput,
            #[cfg(feature = "chat")]
            Self::Chat(error) => match error {
                ChatError::OverBudget { .. }
                | ChatError::SessionOverBudget { .. }
                | ChatError::RecallOverBudget { .. } => Category::BudgetNotMet,
                ChatError::Store { .. } => Category::Io,
                ChatError::Engine(error) => error.kind().into(),
                _ => Category::InvalidInput,
            },
            #[cfg(feature = "chat")]
            Self::Previous(_) => Category::InvalidInput,
            #[cfg(feature = "docs")]
            Self::Docs(error) => match error {
                DocsError::NoIndex { .. } => Category::CacheMissing,
                DocsError::Invalid { .. } | DocsError::Outdated { .. } => Category::CacheInvalid,
                DocsError::Busy { .. } | DocsError::Io { .. } | DocsError::Store { .. } => {
                    Category::Io
                }
                DocsError::Engine(error) => error.kind().into(),
                #[cfg(feature = "http")]
                DocsError::Embedder(error) | DocsError::Reranker(error) => {
                    error.downcast_ref().map_or(Category::InvalidInput, http)
                }
                _ => Category::InvalidInput,
            },
            #[cfg(feature = "http")]
            Self::Http(error) => http(error),
            #[cfg(feature = "embed")]
            Self::Embed(EmbedError::Io { .. }) => Category::Io,
            #[cfg(feature = "embed")]
            Self::Embed(_) => Category::InvalidInput,
            #[cfg(feature = "memory")]
            Self::Memory(error) => match error {
                MemoryError::Io { .. } => Category::Io,
                MemoryError::UnknownEntry { .. } => Category::CheckFailed,
                MemoryError::Engine(error) => error.kind().into(),
                MemoryError::Session(error) => session(error),
                _ => Category::InvalidInput,
            },
            #[cfg(feature = "snippets")]
            Self::Snippets(error) => match error {
                SnippetsError::OverBudget(_) | SnippetsError::MessageOverBudget { .. } => {
                    Category::BudgetNotMet
                }
                SnippetsError::Engine(error) => error.kind().into(),
                SnippetsError::Session(error) => session(error),
                SnippetsError::Io { .. } | SnippetsError::Unreadable { .. } => Category::Io,
                _ => Category::InvalidInput,
            },
            #[cfg(any(feature = "memory", feature = "snippets"))]
            Self::Session(error) => session(error),
            Self::Read { .. } => Category::Io,
            Self::AnswerOverBudget { .. } => Category::BudgetNotMet,
            Self::Request { .. }
            | Self::NoBudget
            | Self::SlotTwice { .. }
            | Self::TooManyExplained { .. }
            | Self::EmptyRange { .. }
            | Self::BelowItem { .. }
            | Self::LossOutOfRange { .. }
            | Self::File { .. } => Category::InvalidInput,
        }
    }

    /// Returns the stable name of the category.
    pub fn code(&self) -> &'static str {
        self.category().code()
    }

    /// Returns a sufficient budget, if the given one is too small and the failure knows the missing tokens.
    pub fn needed_budget(&self, budget: i64) -> Option<i64> {
        let more =
            |needed: &i64, allowed: &i64| budget.saturating_add(needed.saturating_sub(*allowed));
        match self {
            #[cfg(feature = "chat")]
            Self::Chat(
                ChatError::OverBudget { smallest_budget, .. }
                | ChatError::SessionOverBudget { smallest_budget, .. },
            ) => Some(*smallest_budget),
            #[cfg(feature = "chat")]
            Self::Chat(ChatError::RecallOverBudget { tokens, .. }) => Some(*tokens),
            Self::AnswerOverBudget { smallest_budget, .. } => Some(*smallest_budget),
            Self::Engine(Error::PinnedOverBudget { pinned_tokens, available_tokens }) => {
                Some(more(pinned_tokens, available_tokens))
            }
            Self::Engine(Error::RequiredTextOverBudget { fixed_tokens, target_tokens }) => {
                Some(more(fixed_tokens, target_tokens))
            }
            _ => None,
        }
    }
}

#[cfg(feature = "http")]
fn http(error: &HttpError) -> Category {
    if error.is_io() { Category::Io } else { Category::InvalidInput }
}

#[cfg(any(feature = "memory", feature = "snippets"))]
fn session(error: &SessionError) -> Category {
    match error {
        SessionError::Io { .. } => Category::Io,
        _ => Category::InvalidInput,
    }
}
