//! The running sessions as JSON, on an address of their own: numbers and decisions, no contents.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use axum::{Router, body::Body};
use pannier_server::{Address, BearerTokens, is_local_request};
use serde_json::json;

use crate::ledger::Ledger;

/// The address of the running sessions, and the tokens that clients must send.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InspectOptions {
    /// An address of this machine.
    pub address: Address,
    /// The tokens, at least one.
    pub tokens: BearerTokens,
}

impl InspectOptions {
    /// Creates options.
    pub fn new(address: Address, tokens: BearerTokens) -> Self {
        Self { address, tokens }
    }
}

/// Returns the routes of the address.
pub(crate) fn router(ledger: Arc<Ledger>, tokens: BearerTokens) -> Router {
    Router::new()
        .route("/v1/sessions", get(list))
        .route("/v1/sessions/{id}", get(session))
        .route("/v1/receipts/{name}", get(receipt))
        .fallback(|| async { problem(StatusCode::NOT_FOUND, "there is no such path") })
        .layer(from_fn_with_state(tokens, check))
        .with_state(ledger)
}

/// Rejects requests for another host, from a page of another one, and without a token. Every page in a browser of this
/// machine can reach the address.
async fn check(State(tokens): State<BearerTokens>, request: Request, next: Next) -> Response {
    if !is_local_request(request.headers(), request.uri()) {
        return problem(StatusCode::FORBIDDEN, "the request is for another host, or from its page");
    }
    if tokens.client(request.headers().get(AUTHORIZATION)).is_none() {
        let mut response = problem(StatusCode::UNAUTHORIZED, "a bearer token is required");
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return response;
    }
    next.run(request).await
}

async fn list(State(ledger): State<Arc<Ledger>>) -> Response {
    let sessions: Vec<_> = ledger.list().iter().map(|session| session.summary()).collect();
    respond(StatusCode::OK, json!({ "sessions": sessions }).to_string())
}

async fn session(State(ledger): State<Arc<Ledger>>, Path(id): Path<String>) -> Response {
    match ledger.list().into_iter().find(|session| session.id == id) {
        Some(session) => {
            let (summary, turns) = (session.summary(), session.turns());
            respond(StatusCode::OK, json!({ "session": summary, "turns": turns }).to_string())
        }
        None => problem(StatusCode::NOT_FOUND, "there is no such session; see /v1/sessions"),
    }
}

async fn receipt(State(ledger): State<Arc<Ledger>>, Path(name): Path<String>) -> Response {
    // It may be in a file.
    let receipt = tokio::task::spawn_blocking(move || ledger.receipt(&name)).await.ok().flatten();
    match receipt {
        Some(line) => respond(StatusCode::OK, line),
        None => problem(StatusCode::NOT_FOUND, "there is no such receipt, or it was removed"),
    }
}

fn problem(status: StatusCode, message: &str) -> Response {
    respond(status, json!({ "error": { "message": message } }).to_string())
}

fn respond(status: StatusCode, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
