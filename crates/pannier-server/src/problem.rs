//! Errors as responses: a code for programs, a message that says what happened, and a hint that says what to do.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use pannier::{Audience, Category, Failure, Shelf};
use serde_json::json;

/// Longer messages are truncated: some quote the input.
const MAX_MESSAGE_CHARS: usize = 20_000;

/// An error, as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    message: String,
    hint: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if let Some((end, _)) = message.char_indices().nth(MAX_MESSAGE_CHARS) {
            message.truncate(end);
            message.push('…');
        }
        Self { status, code, message, hint: String::new() }
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Replaces the paths of the server's folders by their names.
    #[must_use]
    pub(crate) fn without_paths(mut self, shelf: &Shelf) -> Self {
        self.message = shelf.without_paths(&self.message);
        self.hint = shelf.without_paths(&self.hint);
        self
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, Category::Internal.code(), message)
            .hint("this is a fault of the server; please report it")
    }

    /// A call that panicked. The message of a panic can have contents and paths.
    pub(crate) fn failed() -> Self {
        Self::internal("the call failed")
    }

    pub(crate) fn timeout() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "timeout", "the request took too long").hint(
            "ask for less, or try again later; the server can be started with a greater --timeout",
        )
    }

    pub(crate) fn too_long(max_bytes: usize) -> Self {
        let message = format!("a request may have at most {max_bytes} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
            .hint("send less; the server can be started with a greater --max-input")
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        let status = match failure.category() {
            Category::InvalidInput => StatusCode::BAD_REQUEST,
            Category::CheckFailed | Category::CacheMissing => StatusCode::NOT_FOUND,
            Category::BudgetNotMet => StatusCode::UNPROCESSABLE_ENTITY,
            Category::CacheInvalid => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let hint = match &failure {
            Failure::Request { .. } => {
                "see the route in /v1/openapi.json, then send it again".into()
            }
            failure => failure.advice(Audience::Agent).unwrap_or_default(),
        };
        Self::new(status, failure.code(), failure.message(Audience::Agent)).hint(hint)
    }
}

impl From<Problem> for Response {
    fn from(Problem { status, code, message, hint }: Problem) -> Self {
        let error = json!({ "error": { "code": code, "message": message, "hint": hint } });
        let mut response = Self::new(Body::from(error.to_string()));
        *response.status_mut() = status;
        let kind = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response
    }
}
