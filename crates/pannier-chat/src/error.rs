//! What can be wrong with a transcript.

use pannier_core::Error;

/// Why a transcript cannot be read, or not be trimmed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// It is not JSON.
    #[error(
        "line {line}, column {column}: {problem}; give one JSON list of messages, or a request with `messages`"
    )]
    NotJson {
        /// Where, from 1.
        line: usize,
        /// Where in the line, from 1.
        column: usize,
        /// What is wrong.
        problem: String,
    },

    /// Something in it is not what the provider defines.
    #[error("{path}: {problem}")]
    Invalid {
        /// Where, as a path: `messages[3].content`.
        path: String,
        /// What is wrong, and what to do.
        problem: String,
    },

    /// No message of it can be sent.
    #[error("there is nothing to send: {problem}")]
    NothingToSend {
        /// Why.
        problem: String,
    },

    /// What must be sent does not fit.
    #[error(
        "the messages that must be sent have {needed_tokens} tokens, above the {}",
        if *is_target { "target" } else { "budget" }
    )]
    OverBudget {
        /// System, tools, and the last words of the user.
        needed_tokens: i64,
        /// The smallest window that holds it, with the reserve of the present one.
        smallest_budget: i64,
        /// Whether the window holds it, and only the target does not.
        is_target: bool,
    },

    /// The engine cannot select.
    #[error(transparent)]
    Engine(#[from] Error),
}

impl ChatError {
    pub(crate) fn invalid(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Invalid { path: path.into(), problem: problem.into() }
    }
}
