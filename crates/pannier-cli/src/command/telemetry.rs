//! Spans and metrics of a server's requests and selections, over OTLP (HTTP, protobuf).
//!
//! The SDK reads the usual variables: endpoint, headers, timeout, service name, sampler. Attributes are routes, statuses, sizes,
//! counts and kinds; never contents, queries or names of clients.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

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

    pub(super) fn telemetry(&self) -> Arc<dyn Telemetry> {
        let meter = self.metrics.meter("pannier");
        let durations = meter
            .f64_histogram("http.server.request.duration")
            .with_unit("s")
            .with_description("Duration of a request")
            .build();
        let selections = SelectionMetrics::new(&self.metrics.meter("cupel"));
        let tracer = self.spans.tracer("pannier");
        Arc::new(Requests { tracer, durations, selections })
    }
}

impl Drop for Otlp {
    fn drop(&mut self) {
        // The server ends anyway; what a collector does not take is lost.
        let _ = (self.spans.shutdown(), self.metrics.shutdown());
    }
}

/// Observes requests.
#[derive(Clone, Debug)]
struct Requests {
    tracer: SdkTracer,
    durations: Histogram<f64>,
    selections: SelectionMetrics,
}

impl Telemetry for Requests {
    fn begin(
        &self,
        method: &str,
        route: &'static str,
        parent: Option<&str>,
    ) -> Arc<dyn RequestSpan> {
        let headers = parent.map(|parent| ("traceparent".to_owned(), parent.to_owned()));
        let headers = Headers(headers.into_iter().collect());
        let parent = TraceContextPropagator::new().extract_with_context(&Context::new(), &headers);
        // Clients cannot add names.
        let method = match method {
            "GET" => "GET",
            "POST" => "POST",
            "OPTIONS" => "OPTIONS",
            _ => "_OTHER",
        };
        let attributes =
            [KeyValue::new("http.request.method", method), KeyValue::new("http.route", route)];
        let builder = SpanBuilder::from_name(format!("{method} {route}"))
            .with_kind(SpanKind::Server)
            .with_attributes(attributes.clone());
        let span = self.tracer.build_with_context(builder, &parent);
        Arc::new(RunningRequest {
            requests: self.clone(),
            context: parent.with_span(span),
            attributes,
        })
    }
}

/// Observes one request.
struct RunningRequest {
    requests: Requests,
    context: Context,
    attributes: [KeyValue; 2],
}

impl RequestSpan for RunningRequest {
    fn collector(&self) -> Box<dyn TraceCollector> {
        let Requests { tracer, selections, .. } = &self.requests;
        let collector = OtelTraceCollector::with_tracer(tracer.clone(), Verbosity::StageOnly);
        let collector = collector.with_metrics(selections.clone());
        Box::new(collector.with_parent(self.context.clone()))
    }

    fn end(&self, end: &RequestEnd) {
        let status = KeyValue::new("http.response.status_code", i64::from(end.status));
        let size = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let span = self.context.span();
        span.set_attribute(status.clone());
        span.set_attribute(KeyValue::new("http.request.body.size", size(end.request_bytes)));
        span.set_attribute(KeyValue::new("http.response.body.size", size(end.response_bytes)));
        if end.status >= 500 {
            span.set_status(Status::error(end.status.to_string()));
        }
        span.end();
        let [method, route] = self.attributes.clone();
        self.requests.durations.record(end.time.as_secs_f64(), &[method, route, status]);
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
