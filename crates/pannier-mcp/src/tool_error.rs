//! Errors of a tool call, in the form that a model can act on: a code for programs, a message that says what happened, and a
//! hint that says what to do.

use pannier::{Audience, Category, Failure};
use pannier_core::Error;
use pannier_docs::DocsError;
use pannier_memory::MemoryError;
use pannier_snippets::SnippetsError;
use pannier_tokens::TokenError;
use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;

/// Longer messages are truncated. A list of snippets to drop may be long, and is useful.
const MAX_MESSAGE_CHARS: usize = 20_000;

/// An error of a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ToolError {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) hint: String,
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
        Self { code, message, hint: hint.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(Category::InvalidInput.code(), message, hint)
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
        Self::new(code, failure.message(Audience::Agent), hint)
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
