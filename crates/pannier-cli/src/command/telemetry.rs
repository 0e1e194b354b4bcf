//! Spans and metrics of a server's requests or calls, and of their selections, over OTLP (HTTP, protobuf).
//!
//! The SDK reads the usual variables: endpoint, headers, timeout, service name, sampler. Attributes are routes, statuses, sizes,
//! counts and kinds; never contents, queries or names of clients.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opentelemetry::metrics::{Histogram, MeterProvider};
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{
    SpanBuilder, SpanKind, Status, TraceContextExt, Tracer, TracerProvider,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    MetricExporter, Protocol, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use pannier_core::report::TraceCollector;
use pannier_mcp::{CallSpan, CallTelemetry, Operation};
use pannier_otel::{OtelTraceCollector, SelectionMetrics, Verbosity};
use pannier_server::{RequestEnd, RequestSpan, Telemetry};

use crate::error::CliError;

/// The variable that switches telemetry on.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// The time for one request to the collector.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest response of a collector.
const MAX_RESPONSE_BYTES: u64 = 1 << 20;

/// The exporters of a process. Dropping them sends what is left.
#[derive(Debug)]
pub(super) struct Otlp {
    spans: SdkTracerProvider,
    metrics: SdkMeterProvider,
}

impl Otlp {
    /// Starts to export to `endpoint`, or to that of the environment. Returns `None` if there is neither.
    pub(super) fn start(endpoint: Option<&str>) -> Result<Option<Self>, CliError> {
        let variable = std::env::var(ENDPOINT).ok().filter(|value| !value.is_empty());
        let Some(endpoint) = endpoint.map(str::to_owned).or(variable) else { return Ok(None) };
        let path = |signal: &str| format!("{}/v1/{signal}", endpoint.trim_end_matches('/'));
        let failed = |error: &dyn fmt::Display| {
            CliError::Usage(format!("telemetry cannot be sent to '{endpoint}': {error}"))
        };
        let client = Arc::new(Client::new());
        let spans = SpanExporter::builder()
            .with_http()
            .with_shared_http_client(Arc::<Client>::clone(&client))
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(path("traces"))
            .build();
        let metrics = MetricExporter::builder()
            .with_http()
            .with_shared_http_client(client)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(path("metrics"))
            .build();
        let spans = spans.map_err(|error| failed(&error))?;
        let metrics = metrics.map_err(|error| failed(&error))?;
        let mut resource = Resource::builder();
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name("pannier");
        }
        let resource = resource.build();
        let reader = PeriodicReader::builder(metrics).build();
        Ok(Some(Self {
            spans: SdkTracerProvider::builder()
                .with_batch_exporter(spans)
                .with_resource(resource.clone())
                .build(),
            metrics: SdkMeterProvider::builder()
                .with_reader(reader)
                .with_resource(resource)
                .build(),
        }))
    }

    /// Observes the requests of an HTTP server.
    pub(super) fn requests(&self) -> Arc<dyn Telemetry> {
        Arc::new(self.observer("http.server.request.duration", "Duration of a request"))
    }

    /// Observes calls over standard streams.
    pub(super) fn calls(&self) -> Arc<dyn CallTelemetry> {
        Arc::new(self.observer("mcp.server.operation.duration", "Duration of a call"))
    }

    fn observer(&self, metric: &'static str, description: &'static str) -> Observer {
        let meter = self.metrics.meter("pannier");
        let durations = meter.f64_histogram(metric);
        Observer {
            tracer: self.spans.tracer("pannier"),
            durations: durations.with_unit("s").with_description(description).build(),
            selections: SelectionMetrics::new(&self.metrics.meter("cupel")),
        }
    }
}

impl Drop for Otlp {
    fn drop(&mut self) {
        // The server ends anyway; what a collector does not take is lost.
        let _ = (self.spans.shutdown(), self.metrics.shutdown());
    }
}

/// Observes requests or calls.
#[derive(Clone, Debug)]
struct Observer {
    tracer: SdkTracer,
    durations: Histogram<f64>,
    selections: SelectionMetrics,
}

impl Observer {
    /// Starts a span below that of a client.
    fn start(&self, name: String, attributes: Vec<KeyValue>, parent: Option<&str>) -> Running {
        let headers = parent.map(|parent| ("traceparent".to_owned(), parent.to_owned()));
        let headers = Headers(headers.into_iter().collect());
        let parent = TraceContextPropagator::new().extract_with_context(&Context::new(), &headers);
        let builder = SpanBuilder::from_name(name)
            .with_kind(SpanKind::Server)
            .with_attributes(attributes.clone());
        let span = self.tracer.build_with_context(builder, &parent);
        let context = parent.with_span(span);
        Running { observer: self.clone(), context, attributes, started: Instant::now() }
    }
}

impl Telemetry for Observer {
    fn begin(
        &self,
        method: &str,
        route: &'static str,
        parent: Option<&str>,
    ) -> Arc<dyn RequestSpan> {
        // Clients cannot add names.
        let method = match method {
            "GET" => "GET",
            "POST" => "POST",
            "OPTIONS" => "OPTIONS",
            _ => "_OTHER",
        };
        let attributes =
            [KeyValue::new("http.request.method", method), KeyValue::new("http.route", route)];
        Arc::new(self.start(format!("{method} {route}"), attributes.into(), parent))
    }
}

impl CallTelemetry for Observer {
    fn begin(&self, operation: Operation, parent: Option<&str>) -> Arc<dyn CallSpan> {
        let Operation { method, tool } = operation;
        let mut attributes = vec![
            KeyValue::new("mcp.method.name", method),
            KeyValue::new("network.transport", "pipe"),
        ];
        attributes.extend(tool.map(|tool| KeyValue::new("gen_ai.tool.name", tool)));
        let name = tool.map_or_else(|| method.to_owned(), |tool| format!("{method} {tool}"));
        Arc::new(self.start(name, attributes, parent))
    }
}

/// Observes one request or call.
struct Running {
    observer: Observer,
    context: Context,
    /// Those of the span and of its duration.
    attributes: Vec<KeyValue>,
    started: Instant,
}

impl Running {
    fn new_collector(&self) -> Box<dyn TraceCollector> {
        let Observer { tracer, selections, .. } = &self.observer;
        let collector = OtelTraceCollector::with_tracer(tracer.clone(), Verbosity::StageOnly);
        let collector = collector.with_metrics(selections.clone());
        Box::new(collector.with_parent(self.context.clone()))
    }

    /// Ends the span, and records its duration with one more attribute.
    fn finish(&self, time: Duration, more: Option<KeyValue>) {
        let span = self.context.span();
        let attributes: Vec<KeyValue> =
            self.attributes.iter().cloned().chain(more.clone()).collect();
        if let Some(more) = more {
            span.set_attribute(more);
        }
        span.end();
        self.observer.durations.record(time.as_secs_f64(), &attributes);
    }
}

impl RequestSpan for Running {
    fn collector(&self) -> Box<dyn TraceCollector> {
        self.new_collector()
    }

    fn end(&self, end: &RequestEnd) {
        let size = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let span = self.context.span();
        span.set_attribute(KeyValue::new("http.request.body.size", size(end.request_bytes)));
        span.set_attribute(KeyValue::new("http.response.body.size", size(end.response_bytes)));
        if end.status >= 500 {
            span.set_status(Status::error(end.status.to_string()));
        }
        let status = KeyValue::new("http.response.status_code", i64::from(end.status));
        self.finish(end.time, Some(status));
    }
}

impl CallSpan for Running {
    fn collector(&self) -> Box<dyn TraceCollector> {
        self.new_collector()
    }

    fn end(&self, error: Option<&'static str>) {
        if let Some(code) = error {
            self.context.span().set_status(Status::error(code));
        }
        self.finish(self.started.elapsed(), error.map(|code| KeyValue::new("error.type", code)));
    }
}

/// Headers of a request, by name.
struct Headers(BTreeMap<String, String>);

impl opentelemetry::propagation::Extractor for Headers {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }
}

/// Sends to a collector. The exporters have threads of their own, which it may block.
#[derive(Debug)]
struct Client(ureq::Agent);

impl Client {
    fn new() -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(EXPORT_TIMEOUT))
            .build();
        Self(config.new_agent())
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (head, body) = request.into_parts();
        let mut response = self.0.run(Request::from_parts(head, &body[..]))?;
        let body = response.body_mut().with_config().limit(MAX_RESPONSE_BYTES).read_to_vec()?;
        Ok(response.map(|_| body.into()))
    }
}

impl HttpClient for Client {
    fn send_bytes<'s, 'f>(
        &'s self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'f>>
    where
        's: 'f,
        Self: 'f,
    {
        Box::pin(async move { self.send(request) })
    }
}
