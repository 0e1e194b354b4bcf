//! The errors of this crate.

use std::fmt::Display;
use std::path::PathBuf;

use pannier_core::Error;

/// A failure to read or trim a transcript.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The transcript is not JSON.
    #[error(
        "line {line}, column {column}: {problem}; give one JSON list of messages, or a request with `messages`"
    )]
    NotJson {
        /// The line, counted from 1.
        line: usize,
        /// The column, counted from 1.
        column: usize,
        /// The parser's message.
        problem: String,
    },

    /// A value violates the provider's format.
    #[error("{path}: {problem}")]
    Invalid {
        /// The path of the value, as in `messages[3].content`.
        path: String,
        /// The violation and its fix.
        problem: String,
    },

    /// No message can be sent.
    #[error("there is nothing to send: {problem}")]
    NothingToSend {
        /// The reason.
        problem: String,
    },

    /// The pinned messages and fields exceed the budget.
    #[error(
        "system prompt, tools and last user message need {required_tokens} tokens but the {} is {available_tokens}",
        if *is_target { "target" } else { "input budget" }
    )]
    OverBudget {
        /// The tokens of system prompt, tools, last user message and their groups.
        required_tokens: i64,
        /// The smallest window that fits them, including the output reserve.
        smallest_budget: i64,
        /// The tokens that the window or the target allows them.
        available_tokens: i64,
        /// Whether they fit the window and only exceed the target.
        is_target: bool,
    },

    /// The blocks that a session never cuts exceed the budget.
    #[error(
        "the request needs {required_tokens} tokens after all cuts but the input budget is {available_tokens}"
    )]
    SessionOverBudget {
        /// The tokens of the request after all cuts.
        required_tokens: i64,
        /// A sufficient window, including the output reserve. One token less does not suffice.
        smallest_budget: i64,
        /// The tokens that the budget allows.
        available_tokens: i64,
    },

    /// The recalled lines exceed the budget.
    #[error(
        "the recalled lines have {tokens} tokens but the budget is {max_tokens}; name some of the {lines} lines"
    )]
    RecallOverBudget {
        /// The tokens of the lines.
        tokens: i64,
        /// The budget.
        max_tokens: i64,
        /// The lines of the whole block.
        lines: usize,
    },

    /// No block has a recall id.
    #[error("no block has the recall id `{id}`")]
    UnknownRecallId {
        /// The id.
        id: String,
    },

    /// The recall store fails to read or write.
    #[error("cannot {action} {}: {problem}", path.display())]
    Store {
        /// What failed: `read`, `write` or `lock`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        problem: String,
    },

    /// The engine fails to select.
    #[error(transparent)]
    Engine(#[from] Error),
}

impl ChatError {
    pub(crate) fn invalid(path: impl Display, problem: impl Into<String>) -> Self {
        Self::Invalid { path: path.to_string(), problem: problem.into() }
    }
}
