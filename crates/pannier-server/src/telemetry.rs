//! Telemetry of requests, by the program that starts the server. The command has it over OTLP.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Extensions;
use pannier::engine::report::TraceCollector;
use pannier_mcp::NewCollector;

/// Observes requests.
pub trait Telemetry: fmt::Debug + Send + Sync {
    /// A request begins. `route` is one of the server's, or `other`. `parent` is its header `traceparent`.
    fn begin(
        &self,
        method: &str,
        route: &'static str,
        parent: Option<&str>,
    ) -> Arc<dyn RequestSpan>;
}

/// Observes one request.
pub trait RequestSpan: Send + Sync {
    /// Returns a collector of the selections of the request.
    fn collector(&self) -> Box<dyn TraceCollector>;

    /// The response is complete, or its client is gone.
    fn end(&self, end: &RequestEnd);
}

/// The figures of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestEnd {
    /// The status of the response; 499 if its client was gone before.
    pub status: u16,
    /// The bytes of the request's body.
    pub request_bytes: u64,
    /// The bytes of the response's body.
    pub response_bytes: u64,
    /// The time from the head of the request to the end of the response.
    pub time: Duration,
}

/// The collector of a request's selections, as an extension of the request.
#[derive(Clone)]
pub(crate) struct Selections(NewCollector);

impl Selections {
    pub(crate) fn new(span: &Arc<dyn RequestSpan>) -> Self {
        let span = Arc::clone(span);
        Self(Arc::new(move || span.collector()))
    }

    pub(crate) fn of(extensions: &Extensions) -> Option<NewCollector> {
        extensions.get::<Self>().map(|Self(collector)| Arc::clone(collector))
    }
}
