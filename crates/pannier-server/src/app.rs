//! The application: its routes, and how a request becomes a call.
//!
//! A request passes three layers: observation (log, metrics), CORS if it is on, and the checks of `guard.rs`. Then its body
//! is read, and its call waits for a permit. Bodies above [`MAX_LIGHT_BYTES`] have lanes of their own, one until they have
//! arrived and one for their calls, and are parsed on a thread outside of the reactor. So small requests do not wait for
//! large ones, and calls do not wait for slow clients.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use axum::routing::{any, get, post};
use axum::{Extension, Router, middleware};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use pannier_mcp::{Admission, CallPermit, Caller, HttpEndpoint, Server, observed};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower_http::cors::CorsLayer;

use crate::api::{self, Form, Route};
use crate::guard::{self, Allowed, Client};
use crate::metrics::{self, Metrics};
use crate::problem::Problem;
use crate::telemetry::{Selections, Telemetry};
use crate::tokens::BearerTokens;
use crate::{HttpOptions, IO_TIMEOUT};

/// The largest body that is parsed on the reactor, in less than a millisecond.
const MAX_LIGHT_BYTES: usize = 64 << 10;

/// The time in which a scrape of the metrics reads the versions of indexes.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(2);

/// The time for which browsers may remember what CORS allows.
const CORS_MAX_AGE: Duration = Duration::from_secs(600);

/// What all requests share.
#[derive(Debug)]
pub(crate) struct App {
    server: Server,
    mcp: HttpEndpoint,
    pub(crate) tokens: BearerTokens,
    pub(crate) allowed: Allowed,
    pub(crate) metrics: Metrics,
    /// One scrape at a time reads the versions of indexes.
    scrape: Arc<Semaphore>,
    pub(crate) telemetry: Option<Arc<dyn Telemetry>>,
    /// Cancelled when the server drains.
    pub(crate) drain: CancellationToken,
}

impl App {
    pub(crate) fn new(
        server: Server,
        options: &HttpOptions,
        allowed: Allowed,
        stop: CancellationToken,
    ) -> Self {
        let mcp = server.http_endpoint(stop);
        let (tokens, metrics) = (options.tokens.clone(), Metrics::default());
        let (telemetry, drain) = (options.telemetry.clone(), CancellationToken::new());
        let scrape = Arc::new(Semaphore::new(1));
        Self { server, mcp, tokens, allowed, metrics, scrape, telemetry, drain }
    }

    fn admission(&self) -> &Admission {
        self.server.admission()
    }

    fn max_bytes(&self) -> usize {
        self.server.limits().input
    }

    /// Returns the longest time from the head of a request to the head of its response.
    fn time(&self) -> Duration {
        self.server.limits().time.saturating_add(IO_TIMEOUT)
    }

    /// Reads a body, and returns it with the permit of its call if it is large.
    async fn read(
        &self,
        client: &Arc<str>,
        body: Body,
    ) -> Result<(Bytes, Option<Arc<CallPermit>>), ReadError> {
        let size = body.size_hint();
        if size.lower() > self.max_bytes() as u64 {
            return Err(ReadError::TooLong);
        }
        if size.upper().is_some_and(|bytes| bytes <= MAX_LIGHT_BYTES as u64) {
            return Ok((self.collect(body).await?, None));
        }
        let admission = self.admission();
        let (uploads, lane) = (admission.uploads(), admission.heavy());
        let closed = |_| ReadError::Closed;
        let upload = uploads.enter(client).await.map_err(closed)?;
        let upload = uploads.admit(Some(upload)).await.map_err(closed)?;
        let body = self.collect(body).await?;
        let client = lane.enter(client).await.map_err(closed)?;
        let permit = lane.admit(Some(client)).await.map_err(closed)?;
        drop(upload);
        Ok((body, Some(Arc::new(permit))))
    }

    async fn collect(&self, body: Body) -> Result<Bytes, ReadError> {
        let body = Limited::new(body, self.max_bytes()).collect();
        match tokio::time::timeout(IO_TIMEOUT, body).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if is_length_limit(&*error) => Err(ReadError::TooLong),
            Ok(Err(_)) => Err(ReadError::Incomplete),
            Err(_) => Err(ReadError::Slow),
        }
    }
}

/// Returns whether the limit on bytes caused an error.
fn is_length_limit(mut error: &(dyn std::error::Error + 'static)) -> bool {
    loop {
        if error.is::<LengthLimitError>() {
            return true;
        }
        let Some(source) = error.source() else { return false };
        error = source;
    }
}

/// Why a body was not read.
#[derive(Clone, Copy, Debug)]
enum ReadError {
    TooLong,
    Incomplete,
    Slow,
    Closed,
}

impl ReadError {
    fn problem(self, max_bytes: usize) -> Problem {
        let invalid = |status, message| {
            Problem::new(status, "invalid_input", message).hint("send the request again")
        };
        match self {
            Self::TooLong => Problem::too_long(max_bytes),
            Self::Incomplete => invalid(StatusCode::BAD_REQUEST, "the body is incomplete"),
            Self::Slow => invalid(StatusCode::REQUEST_TIMEOUT, "the body took too long to arrive"),
            Self::Closed => Problem::internal("the server admits no calls"),
        }
    }
}

/// Returns all routes.
pub(crate) fn router(app: &Arc<App>, options: &HttpOptions) -> Router {
    let mut guarded = Router::new()
        .route("/mcp", any(mcp))
        .route("/metrics", get(metrics_text))
        .route("/v1/openapi.json", get(openapi));
    for route in &api::ROUTES {
        let handler = move |app, client, request| call(route, app, client, request);
        guarded = guarded.route(route.path, post(handler));
    }
    let mut guarded = guarded
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(Arc::clone(app), guard::check));
    if !options.origins.is_empty() {
        let mcp = ["mcp-protocol-version", "mcp-method", "mcp-name"].map(HeaderName::from_static);
        let headers = [ACCEPT, AUTHORIZATION, CONTENT_TYPE].into_iter().chain(mcp);
        let cors = CorsLayer::new()
            .allow_origin(options.origins.clone())
            .allow_methods([Method::GET, Method::POST])
            .allow_headers(headers.collect::<Vec<_>>())
            .max_age(CORS_MAX_AGE);
        guarded = guarded.layer(cors);
    }
    // Probes know neither a token nor a host name.
    let open = Router::new().route("/healthz", get(healthz)).route("/readyz", get(readyz));
    #[cfg(feature = "inspector")]
    let open = open.merge(
        Router::new()
            .route("/", get(crate::page::page))
            .method_not_allowed_fallback(wrong_method)
            .layer(middleware::from_fn_with_state(Arc::clone(app), guard::check_page)),
    );
    guarded
        .merge(open)
        .layer(middleware::from_fn_with_state(Arc::clone(app), metrics::observe))
        .with_state(Arc::clone(app))
}

async fn healthz() -> &'static str {
    "ok\n"
}

/// Reports whether the server takes new calls: not while it drains.
async fn readyz(State(app): State<Arc<App>>) -> (StatusCode, &'static str) {
    match app.drain.is_cancelled() {
        true => (StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
        false => (StatusCode::OK, "ready\n"),
    }
}

async fn not_found() -> Response {
    Problem::new(StatusCode::NOT_FOUND, "not_found", "there is no such path")
        .hint("the paths are /mcp, those of /v1/openapi.json, /metrics, /healthz and /readyz")
        .into()
}

async fn wrong_method(method: Method) -> Response {
    let message = format!("the path does not take {method}");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "invalid_input", message)
        .hint("use a method of the header Allow")
        .into()
}

async fn metrics_text(State(app): State<Arc<App>>) -> Response {
    let mut text = app.metrics.text();
    // Versions are in files and databases. One that hangs holds the permit, and later scrapes lack the versions.
    if let Ok(permit) = Arc::clone(&app.scrape).try_acquire_owned() {
        let work = tokio::task::spawn_blocking(move || {
            let versions = metrics::versions(app.server.shelf());
            drop(permit);
            versions
        });
        if let Ok(Ok(versions)) = tokio::time::timeout(SCRAPE_TIMEOUT, work).await {
            text.push_str(&versions);
        }
    }
    respond(text, "text/plain; version=0.0.4")
}

async fn openapi() -> Response {
    respond(api::openapi::text(), "application/json")
}

fn respond(body: impl Into<Body>, kind: &'static str) -> Response {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Answers a message of the Model Context Protocol.
async fn mcp(
    State(app): State<Arc<App>>,
    Extension(Client(client)): Extension<Client>,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let max_bytes = app.max_bytes();
    let answer = async {
        let (body, permit) = match app.read(&client, body).await {
            Ok(read) => read,
            Err(ReadError::TooLong) => {
                return HttpEndpoint::too_long(max_bytes).map(Body::new);
            }
            Err(error) => return error.problem(max_bytes).into(),
        };
        let is_heavy = permit.is_some();
        let mut request = Request::from_parts(head, body);
        let collector = Selections::of(request.extensions());
        let client = Arc::clone(&client);
        request.extensions_mut().insert(Caller { client, permit, collector });
        let answer = Box::pin(app.mcp.clone().respond(request));
        let answer = match is_heavy {
            false => answer.await,
            true => match poll_on_thread(answer).await {
                Ok(answer) => answer,
                Err(_) => return Problem::failed().into(),
            },
        };
        answer.map(Body::new)
    };
    tokio::time::timeout(app.time(), answer).await.unwrap_or_else(|_| Problem::timeout().into())
}

/// Polls a future for the first time on a thread for blocking work, where it may compute for long, and then as usual.
async fn poll_on_thread<F>(mut future: Pin<Box<F>>) -> Result<F::Output, tokio::task::JoinError>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let runtime = tokio::runtime::Handle::current();
    let first = tokio::task::spawn_blocking(move || {
        let poll = std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context)));
        let polled = runtime.block_on(poll);
        (polled, future)
    });
    match first.await? {
        (Poll::Ready(output), _) => Ok(output),
        // The next poll registers the waker of this task.
        (Poll::Pending, future) => Ok(future.await),
    }
}

/// Cancels a call when its client is gone.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Answers a request of the JSON API.
async fn call(
    route: &'static Route,
    State(app): State<Arc<App>>,
    Extension(Client(client)): Extension<Client>,
    request: Request,
) -> Response {
    let form = Form::accepted(request.headers());
    let collector = Selections::of(request.extensions());
    let max_bytes = app.max_bytes();
    let answer = async {
        let (body, permit) = match app.read(&client, request.into_body()).await {
            Ok(read) => read,
            Err(error) => return Err(error.problem(max_bytes)),
        };
        let permit = match permit {
            Some(permit) => permit,
            None => {
                let lane = app.admission().light();
                let closed = |_| ReadError::Closed.problem(max_bytes);
                let client = lane.enter(&client).await.map_err(closed)?;
                Arc::new(lane.admit(Some(client)).await.map_err(closed)?)
            }
        };
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let _cancel = CancelOnDrop(Arc::clone(&is_cancelled));
        let (shelf, max_output) = (Arc::clone(app.server.shelf()), app.server.limits().output);
        let work = tokio::task::spawn_blocking(move || {
            let answer =
                observed(collector, || route.answer(body, form, &shelf, &is_cancelled, max_output));
            drop(permit);
            answer
        });
        work.await.unwrap_or_else(|_| Err(Problem::failed()))
    };
    let time = app.server.limits().time;
    match tokio::time::timeout(time, answer).await {
        Ok(Ok(answer)) => respond(answer, form.content_type()),
        Ok(Err(problem)) => problem.into(),
        Err(_) => Problem::timeout().into(),
    }
}
