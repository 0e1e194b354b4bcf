//! Forwarding: from the head of a request to the end of its response.

use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING, UPGRADE,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use axum::response::Response;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Frame, SizeHint};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use pannier_chat::Provider;
use serde_json::json;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::Sleep;

use crate::fit::{Decision, Fit, Fitter};
use crate::headers::{clean_request, remove_hop_by_hop};
use crate::identity::Secret;
use crate::margin::Margins;
use crate::metrics::{Metrics, Outcome};
use crate::recall::{self, Recall};
use crate::upstream::{self, Upstreams};
use crate::usage::{CountField, UsageReader};
use crate::{GatewayError, GatewayOptions, encoding};

/// The time in which a provider must accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest body that is decided about quickly.
const MAX_LIGHT_BYTES: usize = 1 << 20;

/// The time for which an idle connection to a provider is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

const FIT: HeaderName = HeaderName::from_static("pannier-fit");
const TOKENS_IN: HeaderName = HeaderName::from_static("pannier-tokens-in");
const TOKENS_SENT: HeaderName = HeaderName::from_static("pannier-tokens-sent");
const TOKENS_PREFIX: HeaderName = HeaderName::from_static("pannier-tokens-prefix");
const RECEIPT: HeaderName = HeaderName::from_static("pannier-receipt");

/// Forwards requests to providers.
#[derive(Debug)]
pub(crate) struct Gateway {
    fitter: Arc<Fitter>,
    /// Decisions that run at once, about light and about heavy bodies. More than the processors can run would only take
    /// memory, and light ones do not wait for heavy ones.
    light: Lane,
    heavy: Lane,
    upstreams: Upstreams,
    client: Client<HttpsConnector<HttpConnector>, Body>,
    is_strict: bool,
    max_body_bytes: usize,
    timeout: Duration,
    metrics: Arc<Metrics>,
    /// Set if responses are checked for the provider's own counts.
    margins: Option<Arc<Margins>>,
    secret: Secret,
    recall: Option<Arc<Recall>>,
}

/// What requests share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) margins: Arc<Margins>,
    pub(crate) secret: Secret,
    pub(crate) recall: Option<Arc<Recall>>,
}

impl Gateway {
    pub(crate) fn new(
        options: &GatewayOptions,
        fitter: Fitter,
        shared: Shared,
    ) -> Result<Self, GatewayError> {
        let mut http = HttpConnector::new();
        http.set_connect_timeout(Some(CONNECT_TIMEOUT));
        http.set_nodelay(true);
        http.enforce_http(false);
        let https = HttpsConnectorBuilder::new()
            .try_with_platform_verifier()
            .map_err(|error| GatewayError::Certificates(std::io::Error::other(error)))?
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_timer(TokioTimer::new())
            .http1_preserve_header_case(true)
            .build(https);
        let processors = std::thread::available_parallelism().map_or(2, NonZeroUsize::get);
        Ok(Self {
            fitter: Arc::new(fitter),
            light: Lane::new(2 * processors),
            heavy: Lane::new(processors),
            upstreams: options.upstreams.clone(),
            client,
            is_strict: options.is_strict,
            max_body_bytes: options.max_body_bytes,
            timeout: options.timeout,
            metrics: shared.metrics,
            margins: options.checks_usage.then_some(shared.margins),
            secret: shared.secret,
            recall: shared.recall,
        })
    }

    /// Forwards a request, and returns the provider's response or our own error.
    pub(crate) async fn forward(self: Arc<Self>, request: Request) -> Response {
        let started = Instant::now();
        let path = request.uri().path();
        if let Some(recall) = self.recall.as_ref().filter(|_| path == recall::PATH) {
            let response =
                self.answer(recall, request).await.unwrap_or_else(Problem::into_response);
            let status = response.status();
            self.metrics.record(Outcome::Recall, None, status);
            tracing::info!(route = recall::PATH, status = status.as_u16(), "answered");
            return response;
        }
        let chat = upstream::chat(path).filter(|_| request.method() == Method::POST);
        // Other paths are not logged: a path or its query can have secrets.
        let (provider, route) = (chat.map(|chat| chat.0), chat.map_or("other", |chat| chat.1));
        let mut exchange =
            Exchange { outcome: Outcome::Passed, fit: FitState::Known(None), decided: None };
        let response = match refusal(&request) {
            Some(problem) => problem.into_response(),
            None => match self.exchange(provider, request, &mut exchange).await {
                Ok(response) => exchange.mark(response),
                Err(problem) if exchange.outcome == Outcome::Passed => problem.into_response(),
                Err(problem) => exchange.mark(problem.into_response()),
            },
        };
        let (status, elapsed) = (response.status(), started.elapsed());
        let Exchange { outcome, fit, decided } = exchange;
        let report = move |fit: Option<Fit>| {
            let figures = fit.as_ref().map(|fit| fit.figures);
            self.metrics.record(outcome, figures, status);
            let figures = figures.unwrap_or_default();
            tracing::info!(
                route,
                fit = outcome.name(),
                status = status.as_u16(),
                tokens_in = figures.tokens_in,
                tokens_sent = figures.tokens_sent,
                tokens_prefix = figures.tokens_prefix,
                cuts = figures.cuts,
                is_batch = figures.is_batch,
                session = fit.as_ref().map_or("", |fit| &fit.session.id),
                receipt = fit.as_ref().map_or("", |fit| &fit.receipt),
                decide_ms = decided.map_or(0.0, millis),
                head_ms = millis(elapsed),
                "forwarded"
            );
        };
        match fit {
            FitState::Known(fit) => report(fit),
            pending @ FitState::Pending(_) => {
                tokio::spawn(async move { report(pending.ready().await) });
            }
        }
        response
    }

    /// Waits until all requests are counted, which may be after they are forwarded.
    pub(crate) async fn wait_until_counted(&self) {
        for lane in [&self.light, &self.heavy] {
            let _ = lane.permits.acquire_many(lane.count).await;
        }
    }

    async fn exchange(
        &self,
        provider: Option<Provider>,
        request: Request,
        exchange: &mut Exchange,
    ) -> Result<Response, Problem> {
        let (mut head, body) = request.into_parts();
        let upstream =
            self.upstreams.of(provider, &head.headers).ok_or_else(Problem::no_upstream)?;
        let url = upstream.url(&head.uri).ok_or_else(Problem::path)?;
        let field = match head.uri.path().ends_with("/count_tokens") {
            true => CountField::InputTokens,
            false => CountField::Usage,
        };
        let body = match provider {
            None => body,
            Some(provider) => {
                let body = self.read(body, self.max_body_bytes).await?;
                self.fit(provider, &mut head.headers, body, exchange).await?
            }
        };
        clean_request(&mut head.headers);
        (head.uri, head.version) = (url, Version::HTTP_11);
        let sending = self.client.request(Request::from_parts(head, body));
        let response = match tokio::time::timeout(self.timeout, sending).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                // The sources of the error say more, and may contain the address of a provider only.
                let error = root_cause(&error);
                tracing::warn!(provider = %upstream.authority(), %error, "no response");
                self.metrics.add_upstream_error();
                return Err(Problem::no_response(&error));
            }
            Err(_) => {
                self.metrics.add_upstream_error();
                return Err(Problem::timeout(self.timeout));
            }
        };
        let (mut head, body) = response.into_parts();
        remove_hop_by_hop(&mut head.headers);
        let usage = match &self.margins {
            Some(margins) if head.status == StatusCode::OK => {
                UsageReader::new(field, &head.headers).map(|reader| UsageCheck {
                    reader: Some(reader),
                    fit: exchange.fit.clone(),
                    margins: Arc::clone(margins),
                    metrics: Arc::clone(&self.metrics),
                })
            }
            _ => None,
        };
        Ok(Response::from_parts(head, Body::new(TimedBody::new(body, self.timeout, usage))))
    }

    /// Answers a message to the tool `recall`.
    async fn answer(&self, recall: &Recall, request: Request) -> Result<Response, Problem> {
        if !pannier_server::is_local_request(request.headers(), request.uri()) {
            return Err(Problem::foreign());
        }
        let credential = self.secret.credential(request.headers()).ok_or_else(Problem::no_key)?;
        let (head, body) = request.into_parts();
        let body = match self.read(body, recall::MAX_MESSAGE_BYTES).await {
            Err(problem) if problem.status == StatusCode::PAYLOAD_TOO_LARGE => {
                return Ok(Recall::too_long());
            }
            body => body?,
        };
        recall.respond(&credential, head, body).await.ok_or_else(Problem::no_recall)
    }

    /// Reads a body within the bounds of size and time.
    async fn read(&self, body: Body, max_bytes: usize) -> Result<Bytes, Problem> {
        // A stated length is enough to refuse.
        if body.size_hint().lower() > max_bytes as u64 {
            return Err(Problem::too_long(max_bytes));
        }
        let reading = Limited::new(body, max_bytes).collect();
        match tokio::time::timeout(self.timeout, reading).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Problem::too_long(max_bytes)),
            Ok(Err(_)) => Err(Problem::incomplete()),
            Err(_) => Err(Problem::slow()),
        }
    }

    /// Returns the body to send. If it differs from the client's, the headers follow it.
    async fn fit(
        &self,
        provider: Provider,
        headers: &mut HeaderMap,
        body: Bytes,
        exchange: &mut Exchange,
    ) -> Result<Body, Problem> {
        let started = Instant::now();
        let (fitter, sent, own) = (Arc::clone(&self.fitter), headers.clone(), body.clone());
        let max_bytes = self.max_body_bytes;
        let lane = if body.len() <= MAX_LIGHT_BYTES { &self.light } else { &self.heavy };
        // A semaphore of ours is never closed.
        let permit = Arc::clone(&lane.permits).acquire_owned().await.ok();
        let (forward, early) = oneshot::channel();
        let (counted, pending) = watch::channel(None);
        // Counting a long history takes longer than the reactor may wait.
        let decision = tokio::task::spawn_blocking(move || {
            let decision = match encoding::decode(&sent, &own, max_bytes) {
                Some(decoded) => fitter.decide(provider, &sent, &decoded, || {
                    let _ = forward.send(());
                }),
                None => Decision::NotVisible("content-encoding"),
            };
            if let Decision::Unchanged(fit) = &decision {
                counted.send_replace(Some(fit.clone()));
            }
            // When all permits are back, nothing holds the folder of the state.
            drop(fitter);
            drop(permit);
            decision
        });
        let decision = tokio::select! {
            biased;
            Ok(()) = early => None,
            decision = decision => Some(decision),
        };
        exchange.decided = Some(started.elapsed());
        let Some(decision) = decision else {
            (exchange.outcome, exchange.fit) = (Outcome::Unchanged, FitState::Pending(pending));
            return Ok(body.into());
        };
        match decision.unwrap_or_else(|error| Decision::Failed(error.to_string())) {
            Decision::Unchanged(fit) => {
                (exchange.outcome, exchange.fit) = (Outcome::Unchanged, FitState::Known(Some(fit)));
                Ok(body.into())
            }
            Decision::Fitted(fitted, fit) => {
                (exchange.outcome, exchange.fit) = (Outcome::Fitted, FitState::Known(Some(fit)));
                headers.remove(CONTENT_ENCODING);
                headers.insert(CONTENT_LENGTH, fitted.len().into());
                Ok(fitted.into())
            }
            Decision::NotVisible(field) => {
                exchange.outcome = Outcome::NotVisible;
                tracing::debug!(field, "not visible");
                Ok(body.into())
            }
            Decision::OverBudget { smallest_budget } => {
                exchange.outcome = Outcome::OverBudget;
                match self.is_strict {
                    true => Err(Problem::over_budget(smallest_budget)),
                    false => Ok(body.into()),
                }
            }
            Decision::Failed(problem) => {
                exchange.outcome = Outcome::Failed;
                // The message names paths and types of a request, never its texts.
                tracing::debug!(problem, "not fitted");
                match self.is_strict {
                    true => Err(Problem::failed(&problem)),
                    false => Ok(body.into()),
                }
            }
        }
    }
}

/// Decisions that may run at once.
#[derive(Debug)]
struct Lane {
    permits: Arc<Semaphore>,
    count: u32,
}

impl Lane {
    fn new(count: usize) -> Self {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        Self { permits: Arc::new(Semaphore::new(count as usize)), count }
    }
}

/// The counts of a request. A request that certainly fits is forwarded before it is counted.
#[derive(Clone, Debug)]
enum FitState {
    Known(Option<Fit>),
    Pending(watch::Receiver<Option<Fit>>),
}

impl FitState {
    fn known(&self) -> Option<Fit> {
        match self {
            Self::Known(fit) => fit.clone(),
            Self::Pending(receiver) => receiver.borrow().clone(),
        }
    }

    /// Returns the counts when they are ready.
    async fn ready(self) -> Option<Fit> {
        match self {
            Self::Known(fit) => fit,
            Self::Pending(mut receiver) => {
                receiver.wait_for(Option::is_some).await.ok().and_then(|fit| fit.clone())
            }
        }
    }
}

/// What is reported about a request.
struct Exchange {
    outcome: Outcome,
    fit: FitState,
    decided: Option<Duration>,
}

impl Exchange {
    /// Adds our headers to a response.
    fn mark(&self, mut response: Response) -> Response {
        let headers = response.headers_mut();
        headers.insert(FIT, HeaderValue::from_static(self.outcome.name()));
        if let Some(Fit { figures, receipt, .. }) = &self.fit.known() {
            headers.insert(TOKENS_IN, figures.tokens_in.into());
            headers.insert(TOKENS_SENT, figures.tokens_sent.into());
            headers.insert(TOKENS_PREFIX, figures.tokens_prefix.into());
            // It has only hexadecimal digits and a hyphen.
            headers.extend(HeaderValue::from_str(receipt).ok().map(|value| (RECEIPT, value)));
        }
        response
    }
}

fn millis(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}

fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Returns why a request is not forwarded at all.
fn refusal(request: &Request) -> Option<Problem> {
    let is_absolute = request.uri().authority().is_some() || request.method() == Method::CONNECT;
    if is_absolute {
        return Some(Problem::not_a_proxy());
    }
    let mut encodings = request.headers().get_all(TRANSFER_ENCODING).iter();
    if encodings.any(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"chunked")) {
        return Some(Problem::transfer_encoding());
    }
    request.headers().contains_key(UPGRADE).then(Problem::upgrade)
}

/// An error of the gateway, in the form that clients of all providers read.
struct Problem {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl Problem {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    fn not_a_proxy() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "not_a_proxy",
            "the gateway is not an HTTP proxy; set it as the base URL of the provider",
        )
    }

    fn foreign() -> Self {
        let message = "the request is for another host, or from a page of another host";
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    fn no_key() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "no_key",
            "recall needs the key that the agent sends to its provider, as Authorization: Bearer KEY",
        )
    }

    fn no_recall() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "no_recall", "recall is not available now")
    }

    fn upgrade() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "upgrade", "the gateway does not upgrade connections")
    }

    fn transfer_encoding() -> Self {
        let message = "the gateway takes no transfer encoding but chunked; use Content-Encoding";
        Self::new(StatusCode::NOT_IMPLEMENTED, "transfer_encoding", message)
    }

    fn path() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "path", "the path of the request is invalid")
    }

    fn no_upstream() -> Self {
        let message = "no provider of this protocol is named; start the gateway with one more --upstream, as in \
                       openai=URL, anthropic=URL, or URL for all other requests";
        Self::new(StatusCode::NOT_FOUND, "no_upstream", message)
    }

    fn too_long(max_bytes: usize) -> Self {
        let message = format!(
            "the body has more than {max_bytes} bytes; start the gateway with a larger --max-body"
        );
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_long", message)
    }

    fn incomplete() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "incomplete", "the body is incomplete; send it again")
    }

    fn slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "slow", "the body took too long to arrive")
    }

    fn no_response(error: &str) -> Self {
        let message = format!("the provider did not respond: {error}");
        Self::new(StatusCode::BAD_GATEWAY, "no_response", message)
    }

    fn timeout(time: Duration) -> Self {
        let message = format!("the provider did not respond within {} seconds", time.as_secs_f64());
        Self::new(StatusCode::GATEWAY_TIMEOUT, "timeout", message)
    }

    fn over_budget(smallest_budget: i64) -> Self {
        let message = format!(
            "the request exceeds the gateway's budget after all cuts; it needs --budget {smallest_budget}"
        );
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "over_budget", message)
    }

    fn failed(problem: &str) -> Self {
        let message = format!("the request cannot be fitted: {problem}");
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "not_fitted", message)
    }

    fn into_response(self) -> Response {
        let Self { status, code, message } = self;
        let error = json!({ "type": "pannier_gateway", "code": code, "message": message });
        let body = json!({ "type": "error", "error": error }).to_string();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

/// Reads the provider's own count from a response, and reports it at its end.
struct UsageCheck {
    reader: Option<UsageReader>,
    fit: FitState,
    margins: Arc<Margins>,
    metrics: Arc<Metrics>,
}

impl UsageCheck {
    fn read(&mut self, bytes: &[u8]) {
        if let Some(reader) = &mut self.reader {
            reader.read(bytes);
        }
    }
}

impl Drop for UsageCheck {
    fn drop(&mut self) {
        let Some(reported) = self.reader.take().and_then(UsageReader::input_tokens) else { return };
        let (metrics, margins) = (Arc::clone(&self.metrics), Arc::clone(&self.margins));
        let fit = std::mem::replace(&mut self.fit, FitState::Known(None));
        // Bodies are dropped in a runtime, unless the process ends.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Some(fit) = fit.ready().await {
                // A larger bound is written to a file.
                tokio::task::spawn_blocking(move || check(&fit, reported, &metrics, &margins));
            }
        });
    }
}

/// Compares our count of a request with the provider's.
fn check(fit: &Fit, reported: u64, metrics: &Metrics, margins: &Margins) {
    let Fit { figures, session, model, receipt } = fit;
    let counted = u64::try_from(figures.tokens_sent).unwrap_or_default();
    metrics.add_usage(counted, reported);
    session.report(receipt, reported);
    let difference = i128::from(reported) - i128::from(counted);
    tracing::info!(
        session = session.id,
        receipt,
        tokens_counted = counted,
        tokens_reported = reported,
        difference = i64::try_from(difference).unwrap_or(i64::MAX),
        "checked"
    );
    margins.add(model, counted, reported);
}

/// A body that fails if its next part takes too long. The client then sees a connection that ends early, as it would
/// without the gateway.
struct TimedBody<B> {
    body: B,
    timeout: Duration,
    deadline: Pin<Box<Sleep>>,
    usage: Option<UsageCheck>,
}

impl<B> TimedBody<B> {
    fn new(body: B, timeout: Duration, usage: Option<UsageCheck>) -> Self {
        Self { body, timeout, deadline: Box::pin(tokio::time::sleep(timeout)), usage }
    }
}

impl<B: HttpBody<Data = Bytes, Error = hyper::Error> + Unpin> HttpBody for TimedBody<B> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            let deadline = tokio::time::Instant::now() + self.timeout;
            self.deadline.as_mut().reset(deadline);
            if let (Some(usage), Some(Ok(frame))) = (&mut self.usage, &frame)
                && let Some(bytes) = frame.data_ref()
            {
                usage.read(bytes);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(axum::Error::new)));
        }
        self.deadline.as_mut().poll(context).map(|()| {
            let error = std::io::Error::from(std::io::ErrorKind::TimedOut);
            Some(Err(axum::Error::new(error)))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
