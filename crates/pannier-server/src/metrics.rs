//! Observation of requests: a line of log and metrics for each.
//!
//! Neither has contents, queries or secrets. Routes that do not exist are one route, so that clients cannot add series.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use pannier::Shelf;

use crate::api;
use crate::app::App;
use crate::guard::Client;
use crate::telemetry::{RequestEnd, RequestSpan, Selections};

/// The header with the id of a request.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The upper bounds of the histogram, in seconds.
const BUCKETS: [f64; 10] = [0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0];

/// The routes besides those of the API.
const OTHER_ROUTES: [&str; 6] =
    ["/", "/mcp", "/metrics", "/v1/openapi.json", "/healthz", "/readyz"];

/// Counts of requests since the start.
#[derive(Debug)]
pub(crate) struct Metrics {
    started: u64,
    next: AtomicU64,
    in_flight: AtomicI64,
    routes: Mutex<BTreeMap<&'static str, RouteMetrics>>,
}

impl Default for Metrics {
    fn default() -> Self {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Self {
            started,
            next: AtomicU64::new(1),
            in_flight: AtomicI64::new(0),
            routes: Mutex::default(),
        }
    }
}

#[derive(Debug, Default)]
struct RouteMetrics {
    statuses: BTreeMap<u16, u64>,
    /// The number of requests in each bucket; the last one has no bound.
    durations: [u64; BUCKETS.len() + 1],
    seconds: f64,
    request_bytes: u64,
    response_bytes: u64,
}

impl Metrics {
    /// Returns the number of requests whose responses are not complete.
    fn in_flight(&self) -> i64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    fn record(&self, exchange: &Exchange, time: Duration) {
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        let metrics = routes.entry(exchange.route).or_default();
        *metrics.statuses.entry(exchange.status).or_default() += 1;
        let seconds = time.as_secs_f64();
        let bucket = BUCKETS.iter().position(|bound| seconds <= *bound).unwrap_or(BUCKETS.len());
        metrics.durations[bucket] += 1;
        metrics.seconds += seconds;
        metrics.request_bytes += exchange.request_bytes;
        metrics.response_bytes += exchange.response_bytes;
    }

    /// Returns all metrics but the versions of indexes, in the text format of Prometheus.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        family(&mut text, "requests_total", "counter", "Requests by route and status.");
        for (route, metrics) in &*routes {
            for (status, count) in &metrics.statuses {
                let labels = format!("route=\"{route}\",status=\"{status}\"");
                sample(&mut text, "requests_total", &labels, count);
            }
        }
        let name = "request_duration_seconds";
        family(
            &mut text,
            name,
            "histogram",
            "Time from the head of a request to the end of its response.",
        );
        for (route, metrics) in &*routes {
            let mut count = 0;
            let bounds = BUCKETS.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
            for (bound, requests) in bounds.zip(metrics.durations) {
                count += requests;
                let labels = format!("route=\"{route}\",le=\"{bound}\"");
                sample(&mut text, "request_duration_seconds_bucket", &labels, count);
            }
            let labels = format!("route=\"{route}\"");
            sample(&mut text, "request_duration_seconds_sum", &labels, metrics.seconds);
            sample(&mut text, "request_duration_seconds_count", &labels, count);
        }
        type Bytes = fn(&RouteMetrics) -> u64;
        let sizes: [(&str, &str, Bytes); 2] = [
            ("request_bytes_total", "Bytes of request bodies.", |metrics| metrics.request_bytes),
            ("response_bytes_total", "Bytes of response bodies.", |metrics| metrics.response_bytes),
        ];
        for (name, help, bytes) in sizes {
            family(&mut text, name, "counter", help);
            for (route, metrics) in &*routes {
                sample(&mut text, name, &format!("route=\"{route}\""), bytes(metrics));
            }
        }
        family(&mut text, "requests_in_flight", "gauge", "Requests without a complete response.");
        sample(&mut text, "requests_in_flight", "", self.in_flight());
        text
    }
}

/// Returns the versions of indexes in the same format. It opens them, which may take long.
pub(crate) fn versions(shelf: &Shelf) -> String {
    let mut text = String::new();
    family(&mut text, "index_info", "gauge", "Indexes and their versions.");
    for name in shelf.document_names() {
        // A damaged index has no version; its calls report why.
        if let Ok(index) = shelf.documents(Some(name)) {
            let version = &index.manifest().version;
            let labels = format!("index=\"{name}\",version=\"{version}\"");
            sample(&mut text, "index_info", &labels, 1);
        }
    }
    text
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string does not fail.
    let _ = write!(text, "# HELP pannier_{name} {help}\n# TYPE pannier_{name} {kind}\n");
}

fn sample(text: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    let _ = match labels {
        "" => writeln!(text, "pannier_{name} {value}"),
        labels => writeln!(text, "pannier_{name}{{{labels}}} {value}"),
    };
}

/// Returns the route of a path.
fn route(path: &str) -> &'static str {
    let routes = api::ROUTES.iter().map(|route| route.path).chain(OTHER_ROUTES);
    routes.into_iter().find(|route| *route == path).unwrap_or("other")
}

/// A request and its response. When it is dropped, the response is complete, or its client is gone.
struct Exchange {
    app: Arc<App>,
    started: Instant,
    id: String,
    method: Method,
    route: &'static str,
    client: Option<Arc<str>>,
    status: u16,
    request_bytes: u64,
    response_bytes: u64,
    is_complete: bool,
    span: Option<Arc<dyn RequestSpan>>,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let time = self.started.elapsed();
        self.app.metrics.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.app.metrics.record(self, time);
        if let Some(span) = &self.span {
            let Self { status, request_bytes, response_bytes, .. } = *self;
            span.end(&RequestEnd { status, request_bytes, response_bytes, time });
        }
        tracing::info!(
            id = self.id,
            client = self.client.as_deref().unwrap_or("-"),
            method = %self.method,
            route = self.route,
            status = self.status,
            request_bytes = self.request_bytes,
            response_bytes = self.response_bytes,
            ms = time.as_micros() as f64 / 1e3,
            complete = self.is_complete,
            "request"
        );
    }
}

/// Observes a request until the end of its response.
pub(crate) async fn observe(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    let number = app.metrics.next.fetch_add(1, Ordering::Relaxed);
    app.metrics.in_flight.fetch_add(1, Ordering::Relaxed);
    let id = format!("{:x}-{number:x}", app.metrics.started);
    let mut exchange = Exchange {
        started: Instant::now(),
        id,
        method: request.method().clone(),
        route: route(request.uri().path()),
        client: None,
        // Of a client that is gone before there is a response.
        status: 499,
        request_bytes: request.body().size_hint().exact().unwrap_or_default(),
        response_bytes: 0,
        is_complete: false,
        span: None,
        app,
    };
    if let Some(telemetry) = &exchange.app.telemetry {
        let parent = request.headers().get("traceparent").and_then(|text| text.to_str().ok());
        let span = telemetry.begin(exchange.method.as_str(), exchange.route, parent);
        request.extensions_mut().insert(Selections::new(&span));
        exchange.span = Some(span);
    }
    let mut response = next.run(request).await;
    exchange.status = response.status().as_u16();
    exchange.client = response.extensions_mut().remove::<Client>().map(|Client(name)| name);
    if let Ok(id) = HeaderValue::from_str(&exchange.id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    // A response without a body may never be polled.
    exchange.is_complete = response.body().is_end_stream();
    response.map(|body| Body::new(ObservedBody { body, exchange }))
}

/// A body that counts its bytes.
struct ObservedBody {
    body: Body,
    exchange: Exchange,
}

impl HttpBody for ObservedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        match &frame {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
                self.exchange.response_bytes += bytes;
                self.exchange.is_complete = self.body.is_end_stream();
            }
            Poll::Ready(None) => self.exchange.is_complete = true,
            _ => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
