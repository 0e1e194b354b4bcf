//! Errors of a tool call, in the form that a model can act on: a code for programs, a message that says what happened, and a
//! hint that says what to do. The operations that a specification names have its form: a code of its list and a message.

use pannier::{Audience, Category, Failure, Shelf, ShelfError};
use pannier_core::Error;
use pannier_docs::DocsError;
use pannier_memory::MemoryError;
use pannier_snippets::SnippetsError;
use pannier_tokens::TokenError;
use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::json;

/// Longer messages are truncated. A list of snippets to drop is longer than others, and useful.
const MAX_MESSAGE_CHARS: usize = 2_000;

/// An error of a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ToolError {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) hint: String,
    /// The code in the specification's form.
    #[serde(skip)]
    pub(crate) specified_code: &'static str,
    /// The smallest budget that holds an answer, if the budget is the reason.
    #[serde(skip)]
    pub(crate) smallest_budget: Option<i64>,
}

impl ToolError {
    pub(crate) fn new(
        code: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        let mut message = message.into();
        // Some messages quote the input.
        if let Some((end, _)) = message.char_indices().nth(MAX_MESSAGE_CHARS) {
            message.truncate(end);
            message.push('…');
        }
        let specified_code = match code {
            "cache_missing" => "cache_missing",
            "cache_invalid" => "cache_invalid",
            "invalid_input" => "invalid_query",
            "budget_not_met" => "invalid_budget",
            "io" => "io_error",
            _ => "internal_error",
        };
        Self { code, message, hint: hint.into(), specified_code, smallest_budget: None }
    }

    /// Replaces the paths of the server's folders by their names.
    #[must_use]
    pub(crate) fn without_paths(mut self, shelf: &Shelf) -> Self {
        self.message = shelf.without_paths(&self.message);
        self.hint = shelf.without_paths(&self.hint);
        self
    }

    pub(crate) fn invalid(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(Category::InvalidInput.code(), message, hint)
    }

    /// A budget below that of the smallest answer with its details.
    pub(crate) fn over_budget(smallest_budget: i64) -> Self {
        Self::new(
            Category::BudgetNotMet.code(),
            format!("the answer with its details needs a budget of {smallest_budget} tokens"),
            format!("raise budget to {smallest_budget}, or omit detail"),
        )
    }

    /// A fault of the server.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        let hint = "this is a fault of the server; please report it";
        Self::new(Category::Internal.code(), message, hint)
    }

    pub(crate) fn cancelled() -> Self {
        Self::new("cancelled", "the call was cancelled", "call again if you still need the answer")
    }

    /// The response to the call.
    pub(crate) fn into_result(self) -> CallToolResult {
        // Three strings always serialize.
        let text = serde_json::to_string(&self).unwrap_or_default();
        CallToolResult::error(vec![ContentBlock::text(text)])
    }

    /// The response to the call of an operation that the specification names.
    pub(crate) fn into_specified_result(self) -> CallToolResult {
        let error = json!({ "error": { "code": self.specified_code, "message": self.message } });
        CallToolResult::error(vec![ContentBlock::text(error.to_string())])
    }
}

impl From<Failure> for ToolError {
    fn from(failure: Failure) -> Self {
        let code = match failure {
            // No argument helps: the index must be written first, like a cache.
            Failure::Snippets(
                SnippetsError::NoIndex { .. } | SnippetsError::InvalidIndex { .. },
            ) => Category::CacheMissing.code(),
            _ => failure.code(),
        };
        let hint = failure.advice(Audience::Agent).unwrap_or_default();
        let mut error = Self::new(code, failure.message(Audience::Agent), hint);
        if let Failure::Shelf(
            ShelfError::NoFolder { .. }
            | ShelfError::NameRequired { .. }
            | ShelfError::UnknownName { .. },
        ) = failure
        {
            error.specified_code = "cache_missing";
        }
        if let Failure::AnswerOverBudget { smallest_budget, .. } = failure {
            error.smallest_budget = Some(smallest_budget);
        }
        error
    }
}

macro_rules! from_library_errors {
    ($($error:ty),+) => {
        $(impl From<$error> for ToolError {
            fn from(error: $error) -> Self {
                Failure::from(error).into()
            }
        })+
    };
}

from_library_errors!(DocsError, Error, MemoryError, SnippetsError, TokenError);
