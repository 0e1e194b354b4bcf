//! The running sessions on an address of their own: numbers and decisions, no contents. `/` is the inspector page, which
//! shows them; the rest is JSON.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use axum::{Router, body::Body};
use pannier_server::{Address, BearerTokens, is_local_request};
use serde_json::json;

use crate::TokenPrices;
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
pub(crate) fn router(sessions: Sessions, tokens: BearerTokens) -> Router {
    let guarded = Router::new()
        .route("/v1/sessions", get(list))
        .route("/v1/sessions/{id}", get(session))
        .route("/v1/receipts/{name}", get(receipt))
        .fallback(|| async { problem(StatusCode::NOT_FOUND, "there is no such path") })
        .method_not_allowed_fallback(|| async {
            problem(StatusCode::METHOD_NOT_ALLOWED, "the path takes only GET")
        })
        .layer(from_fn_with_state(tokens, check_token));
    // A browser sends no token when it opens an address, and the page has no data.
    #[cfg(feature = "inspector")]
    let guarded = guarded.route("/", get(page));
    guarded.layer(from_fn(check_host)).with_state(sessions)
}

/// What the address shows.
#[derive(Clone, Debug)]
pub(crate) struct Sessions {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) budget: i64,
    pub(crate) policy: String,
    pub(crate) prices: TokenPrices,
}

#[cfg(feature = "inspector")]
async fn page() -> (axum::http::HeaderMap, &'static str) {
    use pannier_inspector::{Live, Page};

    static PAGE: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| Page::live(Live::Gateway).html());
    (pannier_server::page_headers(), &PAGE)
}

/// Rejects requests for another host and from a page of another one. Every page in a browser of this machine can reach the
/// address.
async fn check_host(request: Request, next: Next) -> Response {
    match is_local_request(request.headers(), request.uri()) {
        true => next.run(request).await,
        false => {
            problem(StatusCode::FORBIDDEN, "the request is for another host, or from its page")
        }
    }
}

async fn check_token(State(tokens): State<BearerTokens>, request: Request, next: Next) -> Response {
    if tokens.client(request.headers().get(AUTHORIZATION)).is_none() {
        let mut response = problem(StatusCode::UNAUTHORIZED, "a bearer token is required");
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return response;
    }
    next.run(request).await
}

async fn list(State(shown): State<Sessions>) -> Response {
    let sessions: Vec<_> = shown.ledger.list().iter().map(|session| session.summary()).collect();
    respond(StatusCode::OK, json!({ "sessions": sessions }).to_string())
}

async fn session(State(shown): State<Sessions>, Path(id): Path<String>) -> Response {
    let Sessions { ledger, budget, policy, prices } = shown;
    match ledger.list().into_iter().find(|session| session.id == id) {
        Some(session) => {
            let (summary, turns) = (session.summary(), session.turns());
            let prices = json!({ "read": prices.read, "write": prices.write });
            let session = json!({ "session": summary, "budget": budget, "policy": policy, "prices": prices, "turns": turns });
            respond(StatusCode::OK, session.to_string())
        }
        None => problem(StatusCode::NOT_FOUND, "there is no such session; see /v1/sessions"),
    }
}

async fn receipt(State(shown): State<Sessions>, Path(name): Path<String>) -> Response {
    let Sessions { ledger, .. } = shown;
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
