//! Why a call has no answer, in the form in which a model can mend it: a code to tell cases apart, a message that says what
//! is wrong, and a hint that says what to do.

use pannier_core::{Error, ErrorCategory};
use pannier_docs::DocsError;
use pannier_memory::MemoryError;
use pannier_snippets::SnippetsError;
use pannier_tokens::TokenError;
use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;

/// Longer messages are cut. Lists of what to drop may be long, too, and are of use.
const LONGEST_MESSAGE: usize = 20_000;

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Problem {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) hint: String,
}

impl Problem {
    pub(crate) fn new(
        code: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        let mut message = message.into();
        // Some tell what they were given, which may be long.
        if let Some((end, _)) = message.char_indices().nth(LONGEST_MESSAGE) {
            message.truncate(end);
            message.push('…');
        }
        Self { code, message, hint: hint.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(ErrorCategory::InvalidInput.code(), message, hint)
    }

    /// Something that cannot happen.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        let hint = "this is a fault of the server; please report it";
        Self::new(ErrorCategory::Internal.code(), message, hint)
    }

    pub(crate) fn cancelled() -> Self {
        Self::new("cancelled", "the call was cancelled", "call again if you still need the answer")
    }

    fn of(category: ErrorCategory, message: &dyn std::fmt::Display) -> Self {
        let hint = match category {
            ErrorCategory::InvalidInput => "change the arguments as the message says",
            ErrorCategory::BudgetNotMet => "raise the budget, or ask for less",
            ErrorCategory::CacheMissing | ErrorCategory::CacheInvalid => {
                "the cache must be built again with `pannier build`; then call again"
            }
            ErrorCategory::Io => "see that the files can be read; then call again",
            _ => "this is a fault of the server; please report it",
        };
        Self::new(category.code(), message.to_string(), hint)
    }

    /// The answer to the call.
    pub(crate) fn into_result(self) -> CallToolResult {
        // Three texts can always be written.
        let text = serde_json::to_string(&self).unwrap_or_default();
        CallToolResult::error(vec![ContentBlock::text(text)])
    }
}

impl From<DocsError> for Problem {
    fn from(error: DocsError) -> Self {
        Self::of(error.category(), &error)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        if error == Error::NoReferenceTime {
            let hint = "add the argument now, as in \"now\": \"2026-03-01T12:00:00Z\"";
            return Self::invalid("the policy measures age and does not say to when", hint);
        }
        Self::of(error.category(), &error)
    }
}

impl From<MemoryError> for Problem {
    fn from(error: MemoryError) -> Self {
        Self::of(error.category(), &error)
    }
}

impl From<SnippetsError> for Problem {
    fn from(error: SnippetsError) -> Self {
        let problem = Self::of(error.category(), &error);
        match error {
            // No argument mends that.
            SnippetsError::NoIndex { .. } | SnippetsError::InvalidIndex { .. } => Self {
                code: ErrorCategory::CacheMissing.code(),
                hint: "the index must be made with `pannier snippets index`; then call again"
                    .to_owned(),
                ..problem
            },
            SnippetsError::UnknownIds { .. } => Self {
                hint: "call get_context without snippet_ids to see which ids there are".to_owned(),
                ..problem
            },
            _ => problem,
        }
    }
}

impl From<TokenError> for Problem {
    fn from(error: TokenError) -> Self {
        Self::of(ErrorCategory::InvalidInput, &error)
    }
}
