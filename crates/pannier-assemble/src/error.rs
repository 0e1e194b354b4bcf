//! What can go wrong between a query and its context.

use pannier_core::Error;
use pannier_docs::DocsError;

/// Why there is no context.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AssembleError {
    /// Passages could not be found.
    #[error(transparent)]
    Docs(#[from] DocsError),

    /// The engine could not select from them.
    #[error(transparent)]
    Engine(#[from] Error),

    /// A receipt is of something else.
    #[error("the receipt is not of an assembled context: {problem}")]
    Receipt {
        /// What does not go.
        problem: String,
    },
}
