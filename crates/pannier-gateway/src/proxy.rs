//! Forwarding: from the head of a request to the end of its response.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING, UPGRADE,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use axum::response::Response;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

use crate::body::{SentBody, Side, TimedBody, Waiting};
use crate::encoding::DecodeError;
use crate::fit::{Decision, Fit, Fitter, Report};
use crate::headers::{clean_request, remove_hop_by_hop};
use crate::identity::Secret;
use crate::margin::Margins;
use crate::metrics::{Metrics, Outcome};
use crate::recall::{self, Recall};
use crate::upstream::{self, Chat, NoUpstream, Upstreams};
use crate::usage::{CountField, UsageReader};
use crate::{GatewayError, GatewayOptions, encoding};

/// The time in which a provider must accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest body that is decided about quickly.
const MAX_LIGHT_BYTES: usize = 1 << 20;

/// A shorter body takes no part of [`MAX_BODIES_BYTES`].
const MIN_COUNTED_BYTES: usize = 64 << 10;

/// The bytes of all longer bodies that are read, decided about or sent.
const MAX_BODIES_BYTES: usize = 512 << 20;

/// The number of forwarded requests that are not counted yet. Further ones are counted before they are forwarded.
const MAX_UNCOUNTED: usize = 64;

/// The number of reports that a drain waits for.
const MAX_REPORTS: usize = 1 << 20;

/// The status of a request whose client is gone before there is a response, as servers log it.
const CLIENT_GONE: u16 = 499;

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
    /// Requests that are counted after they are forwarded.
    uncounted: Lane,
    reports: Lane,
    /// The memory of bodies, in KiB.
    memory: Arc<Semaphore>,
    upstreams: Upstreams,
    client: Client<HttpsConnector<HttpConnector>, SentBody>,
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
            uncounted: Lane::new(MAX_UNCOUNTED),
            reports: Lane::new(MAX_REPORTS),
            memory: Arc::new(Semaphore::new(
                kib(options.max_body_bytes.max(MAX_BODIES_BYTES)) as usize
            )),
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
        let path = request.uri().path();
        let recall = self.recall.clone().filter(|_| path == recall::PATH);
        let chat = upstream::chat(path).filter(|_| request.method() == Method::POST);
        // Other paths are not logged: a path or its query can have secrets.
        let route = match (&recall, chat) {
            (Some(_), _) => recall::PATH,
            (None, chat) => chat.map_or("other", |chat| chat.route),
        };
        let mut exchange =
            Exchange::new(Arc::clone(&self), route, chat.is_some_and(|chat| chat.is_count));
        if let Some(recall) = recall {
            exchange.outcome = Outcome::Recall;
            let answer = self.answer(&recall, request).await;
            return exchange.end(answer.unwrap_or_else(Problem::into_response)).await;
        }
        let response = match refusal(&request) {
            Some(problem) => Err(problem),
            None => self.exchange(chat, request, &mut exchange).await,
        };
        exchange.end(response.unwrap_or_else(Problem::into_response)).await
    }

    /// Waits until all requests are counted and reported, which may be after they are forwarded.
    pub(crate) async fn wait_until_reported(&self) {
        for lane in [&self.light, &self.heavy, &self.uncounted, &self.reports] {
            let _ = lane.permits.acquire_many(lane.count).await;
        }
    }

    async fn exchange(
        &self,
        chat: Option<Chat>,
        request: Request,
        exchange: &mut Exchange,
    ) -> Result<Response, Problem> {
        let (mut head, body) = request.into_parts();
        let upstream = self.upstreams.of(chat.map(|chat| chat.provider), &head.headers)?;
        let url = upstream.url(&head.uri).ok_or_else(Problem::path)?;
        let (body, memory) = match chat {
            None => {
                exchange.outcome = Outcome::Passed;
                (body, None)
            }
            Some(chat) => {
                let (body, memory) = self.read(body, self.max_body_bytes).await?;
                let memory = memory.map(Arc::new);
                let own = memory.clone();
                (self.fit(chat, &mut head.headers, body, own, exchange).await?, memory)
            }
        };
        clean_request(&mut head.headers);
        (head.uri, head.version) = (url, Version::HTTP_11);
        let waiting = Waiting::new();
        let body = SentBody { body, waiting: Arc::clone(&waiting), _memory: memory };
        let sending = self.client.request(Request::from_parts(head, body));
        let response = tokio::select! {
            response = sending => response.map_err(|error| {
                // The sources of the error say more, and may contain the address of a provider only.
                let error = root_cause(&error);
                tracing::warn!(provider = %upstream.authority(), %error, "no response");
                self.metrics.add_upstream_error();
                Problem::no_response(&error)
            })?,
            side = waiting.stalled(self.timeout) => {
                return Err(match side {
                    Side::Client => Problem::slow(),
                    Side::Provider => {
                        self.metrics.add_upstream_error();
                        Problem::timeout(self.timeout)
                    }
                });
            }
        };
        let (mut head, body) = response.into_parts();
        remove_hop_by_hop(&mut head.headers);
        let field = match chat {
            Some(Chat { is_count: true, .. }) => CountField::InputTokens,
            _ => CountField::Usage,
        };
        let usage = match &self.margins {
            Some(margins) if head.status == StatusCode::OK => {
                UsageReader::new(field, &head.headers).map(|reader| UsageCheck {
                    reader: Some(reader),
                    report: exchange.report.subscribe(),
                    margins: Arc::clone(margins),
                    metrics: Arc::clone(&self.metrics),
                    task: self.reports.permit(),
                })
            }
            _ => None,
        };
        let metrics = Arc::clone(&self.metrics);
        let body = TimedBody::new(body, self.timeout, usage, exchange.route, metrics);
        Ok(Response::from_parts(head, Body::new(body)))
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
            read => read?.0,
        };
        recall.respond(&credential, head, body).await.ok_or_else(Problem::no_recall)
    }

    /// Reads a body within the bounds of size, time and memory.
    async fn read(
        &self,
        body: Body,
        max_bytes: usize,
    ) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Problem> {
        let size = body.size_hint();
        // A stated length is enough to refuse.
        if size.lower() > max_bytes as u64 {
            return Err(Problem::too_long(max_bytes));
        }
        let length = size.upper().and_then(|length| usize::try_from(length).ok());
        let bytes = length.unwrap_or(max_bytes).min(max_bytes);
        let mut memory = match bytes > MIN_COUNTED_BYTES {
            // A semaphore of ours is never closed.
            true => Arc::clone(&self.memory).acquire_many_owned(kib(bytes)).await.ok(),
            false => None,
        };
        let reading = Limited::new(body, max_bytes).collect();
        let body = match tokio::time::timeout(self.timeout, reading).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return Err(Problem::too_long(max_bytes));
            }
            Ok(Err(_)) => return Err(Problem::incomplete()),
            Err(_) => return Err(Problem::slow()),
        };
        if let Some(memory) = &mut memory {
            let unused = memory.num_permits().saturating_sub(kib(body.len()) as usize);
            drop(memory.split(unused));
        }
        Ok((body, memory))
    }

    /// Returns the body to send. If it differs from the client's, the headers follow it.
    async fn fit(
        &self,
        chat: Chat,
        headers: &mut HeaderMap,
        body: Bytes,
        memory: Option<Arc<OwnedSemaphorePermit>>,
        exchange: &mut Exchange,
    ) -> Result<Body, Problem> {
        let (fitter, sent, own) = (Arc::clone(&self.fitter), headers.clone(), body.clone());
        let max_bytes = self.max_body_bytes;
        // A short body may be a long one that is compressed.
        let is_light = body.len() <= MAX_LIGHT_BYTES && !headers.contains_key(CONTENT_ENCODING);
        let lane = if is_light { &self.light } else { &self.heavy };
        let mut permit = Arc::clone(&lane.permits).acquire_owned().await.ok();
        let uncounted = Arc::clone(&self.uncounted.permits);
        let (forward, early) = oneshot::channel();
        let (counted, pending) = oneshot::channel();
        // Counting a long history takes longer than the reactor may wait.
        let decision = tokio::task::spawn_blocking(move || {
            let mut later = None;
            let forward = || {
                let Ok(own) = uncounted.try_acquire_owned() else { return false };
                later = Some(own);
                // Requests that are not forwarded yet do not wait for this one.
                permit.take();
                forward.send(()).is_ok()
            };
            let decision = match encoding::decode(&sent, &own, max_bytes) {
                Ok(decoded) => fitter.decide(chat.provider, &sent, &decoded, forward),
                Err(DecodeError::TooLong) => Decision::TooLong,
                Err(DecodeError::Damaged) => Decision::Failed("its compression is damaged".into()),
                Err(DecodeError::Unknown) => {
                    Decision::Failed("its Content-Encoding is not gzip, deflate or zstd".into())
                }
            };
            let decision = match (decision, &later) {
                // Without a receiver, the client is gone.
                (Decision::Unchanged(fit), Some(_)) => {
                    counted.send(fit).err().map(Decision::Unchanged)
                }
                (decision, _) => Some(decision),
            };
            // When all permits are back, nothing holds the folder of the state.
            drop((fitter, memory));
            drop((permit, later));
            decision
        });
        let decision = tokio::select! {
            biased;
            Ok(()) = early => None,
            decision = decision => Some(decision),
        };
        exchange.decided = Some(exchange.started.elapsed());
        let Some(decision) = decision else {
            (exchange.outcome, exchange.fit) = (Outcome::Unchanged, FitState::Pending(pending));
            return Ok(body.into());
        };
        // The message of a panic can have texts of the request.
        let fault = || Decision::Failed("a fault of the gateway; please report it".to_owned());
        match decision.ok().flatten().unwrap_or_else(fault) {
            Decision::Unchanged(fit) => {
                (exchange.outcome, exchange.fit) =
                    (Outcome::Unchanged, FitState::Known(fit.into()));
                Ok(body.into())
            }
            Decision::Fitted(fitted, fit) => {
                (exchange.outcome, exchange.fit) = (Outcome::Fitted, FitState::Known(fit.into()));
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
            Decision::TooLong => {
                exchange.outcome = Outcome::Failed;
                match self.is_strict {
                    true => Err(Problem::too_long(max_bytes)),
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

    /// Returns a permit, if there is one.
    fn permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).try_acquire_owned().ok()
    }
}

/// Returns a number of bytes in KiB, rounded up.
fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX)
}

/// The counts of a request. A request that certainly fits is forwarded before it is counted.
#[derive(Debug)]
enum FitState {
    None,
    Known(Box<Fit>),
    Pending(oneshot::Receiver<Fit>),
}

/// A request. When it is dropped, its response has begun, or its client is gone. Then it is recorded and reported.
struct Exchange {
    gateway: Arc<Gateway>,
    started: Instant,
    route: &'static str,
    /// Whether the provider only counts the request.
    is_count: bool,
    outcome: Outcome,
    fit: FitState,
    decided: Option<Duration>,
    status: u16,
    report: watch::Sender<Option<Report>>,
}

impl Exchange {
    fn new(gateway: Arc<Gateway>, route: &'static str, is_count: bool) -> Self {
        Self {
            gateway,
            started: Instant::now(),
            route,
            is_count,
            outcome: Outcome::Refused,
            fit: FitState::None,
            decided: None,
            status: CLIENT_GONE,
            report: watch::Sender::new(None),
        }
    }

    /// Ends with a response, to which it adds our headers.
    async fn end(mut self, mut response: Response) -> Response {
        self.status = response.status().as_u16();
        if let FitState::Pending(pending) = &mut self.fit
            && let Ok(fit) = pending.try_recv()
        {
            self.fit = FitState::Known(fit.into());
        }
        let (outcome, is_known) = (self.outcome, matches!(self.fit, FitState::Known(_)));
        let mut report = self.report.subscribe();
        drop(self);
        if outcome == Outcome::Recall {
            return response;
        }
        let headers = response.headers_mut();
        headers.insert(FIT, HeaderValue::from_static(outcome.name()));
        // Counts that are not known yet are reported later.
        if is_known
            && let Ok(report) = report.wait_for(Option::is_some).await
            && let Some(Report { figures, receipt, .. }) = &*report
        {
            headers.insert(TOKENS_IN, figures.tokens_in.into());
            headers.insert(TOKENS_SENT, figures.tokens_sent.into());
            if !receipt.is_empty() {
                headers.insert(TOKENS_PREFIX, figures.tokens_prefix.into());
                // It has only hexadecimal digits and a hyphen.
                headers.extend(HeaderValue::from_str(receipt).ok().map(|value| (RECEIPT, value)));
            }
        }
        response
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let Self { route, outcome, status, decided, .. } = *self;
        let elapsed = self.started.elapsed();
        // A request that the provider refuses or only counts changes neither its cache nor its bill.
        let is_taken = (200..300).contains(&status) && !self.is_count;
        let metrics = Arc::clone(&self.gateway.metrics);
        let report = move |report: Option<Report>| {
            let taken = report.as_ref().filter(|_| is_taken).map(|report| report.figures);
            metrics.record(outcome, taken, status);
            let figures = report.as_ref().map(|report| report.figures).unwrap_or_default();
            tracing::info!(
                route,
                fit = outcome.name(),
                status,
                tokens_in = figures.tokens_in,
                tokens_sent = figures.tokens_sent,
                tokens_prefix = figures.tokens_prefix,
                cuts = figures.cuts,
                repairs = report.as_ref().map_or(0, |report| report.repairs),
                is_batch = figures.is_batch,
                session = report.as_ref().map_or("", |report| &report.session.id),
                receipt = report.as_ref().map_or("", |report| &report.receipt),
                decide_ms = decided.map_or(0.0, millis),
                head_ms = millis(elapsed),
                "request"
            );
        };
        let fit = std::mem::replace(&mut self.fit, FitState::None);
        let is_known = !matches!(fit, FitState::None);
        if let (true, Ok(runtime)) = (is_known, tokio::runtime::Handle::try_current()) {
            let task = self.gateway.reports.permit();
            let (fitter, reported) = (Arc::clone(&self.gateway.fitter), self.report.clone());
            runtime.spawn(async move {
                let fit = match fit {
                    FitState::Known(fit) => Some(*fit),
                    FitState::Pending(pending) => pending.await.ok(),
                    FitState::None => None,
                };
                // The ledger may be in files.
                let work = tokio::task::spawn_blocking(move || match is_taken {
                    true => fit.map(|fit| fitter.record(fit)),
                    false => fit.map(Fit::unrecorded),
                });
                let fit = work.await.ok().flatten();
                reported.send_replace(fit.clone());
                report(fit);
                drop((reported, task));
            });
        } else {
            report(None);
        }
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
    if pannier_server::is_foreign_page(request.headers()) {
        return Some(Problem::foreign());
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
        let message = "the request is for another host, or from a web page of another host; call the gateway from a \
                       program or a page of this machine";
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
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "no_recall",
            "recall is not available now; call it again, and see the gateway's log",
        )
    }

    fn upgrade() -> Self {
        let message = "the gateway does not upgrade connections; send plain HTTP requests, or use the provider's address for \
                       WebSockets";
        Self::new(StatusCode::BAD_REQUEST, "upgrade", message)
    }

    fn transfer_encoding() -> Self {
        let message = "the gateway takes no transfer encoding but chunked; use Content-Encoding";
        Self::new(StatusCode::NOT_IMPLEMENTED, "transfer_encoding", message)
    }

    fn path() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "path",
            "the path of the request is invalid; send one as in /v1/messages",
        )
    }

    fn no_upstream() -> Self {
        let message = "no provider of this protocol is named; start the gateway with one more --upstream, as in \
                       openai=URL, anthropic=URL, or URL for all other requests";
        Self::new(StatusCode::NOT_FOUND, "no_upstream", message)
    }

    fn two_keys() -> Self {
        let message = "the request has keys of two providers, and its path names none; send one of x-api-key and authorization";
        Self::new(StatusCode::BAD_REQUEST, "two_keys", message)
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
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            "slow",
            "the body took too long to arrive; send it again, or start the gateway with a greater --timeout",
        )
    }

    fn no_response(error: &str) -> Self {
        let message = format!(
            "the provider did not respond: {error}; check its address in --upstream, then send the request again"
        );
        Self::new(StatusCode::BAD_GATEWAY, "no_response", message)
    }

    fn timeout(time: Duration) -> Self {
        let message = format!(
            "the provider did not respond within {} seconds; send the request again, or start the gateway with a greater --timeout",
            time.as_secs_f64()
        );
        Self::new(StatusCode::GATEWAY_TIMEOUT, "timeout", message)
    }

    fn over_budget(smallest_budget: i64) -> Self {
        let message = format!(
            "the request exceeds the gateway's budget after all cuts; it needs --budget {smallest_budget}"
        );
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "over_budget", message)
    }

    fn failed(problem: &str) -> Self {
        let message = format!(
            "the request cannot be fitted: {problem}; change it, or start the gateway without --strict"
        );
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

impl From<NoUpstream> for Problem {
    fn from(reason: NoUpstream) -> Self {
        match reason {
            NoUpstream::NotNamed => Self::no_upstream(),
            NoUpstream::TwoKeys => Self::two_keys(),
        }
    }
}

/// Reads the provider's own count from a response, and reports it at its end.
pub(crate) struct UsageCheck {
    reader: Option<UsageReader>,
    report: watch::Receiver<Option<Report>>,
    margins: Arc<Margins>,
    metrics: Arc<Metrics>,
    /// A drain waits for it.
    task: Option<OwnedSemaphorePermit>,
}

impl UsageCheck {
    pub(crate) fn read(&mut self, bytes: &[u8]) {
        if let Some(reader) = &mut self.reader {
            reader.read(bytes);
        }
    }
}

impl Drop for UsageCheck {
    fn drop(&mut self) {
        let Some(reported) = self.reader.take().and_then(UsageReader::input_tokens) else { return };
        let (metrics, margins) = (Arc::clone(&self.metrics), Arc::clone(&self.margins));
        let (mut report, task) = (self.report.clone(), self.task.take());
        // Bodies are dropped in a runtime, unless the process ends.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let report =
                report.wait_for(Option::is_some).await.ok().and_then(|report| report.clone());
            // A larger bound is written to a file.
            let check = move || {
                if let Some(report) = report {
                    check(&report, reported, &metrics, &margins);
                }
            };
            let _ = tokio::task::spawn_blocking(check).await;
            drop(task);
        });
    }
}

/// Compares our count of a request with the provider's.
fn check(report: &Report, reported: u64, metrics: &Metrics, margins: &Margins) {
    let Report { figures, session, model, receipt, .. } = report;
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
