//! End to end: a run, the SDK, the OTLP exporter over HTTP, and a receiver that decodes the requests.

mod support;

use std::net::TcpListener;

use opentelemetry::metrics::MeterProvider;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{MetricExporter, Protocol, SpanExporter, WithExportConfig};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::SdkTracerProvider;
use pannier_core::score::ReflexiveScorer;
use pannier_core::{ContextBudget, ContextItem, Pipeline};
use pannier_otel::{OtelTraceCollector, SelectionMetrics, Verbosity};
use prost::Message;
use support::receive;

#[test]
fn a_trace_and_its_metrics_arrive_over_otlp() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let requests = receive(listener);

    let spans = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(format!("http://{address}/v1/traces"))
        .build()
        .unwrap();
    let tracing = SdkTracerProvider::builder().with_batch_exporter(spans).build();
    let metrics = MetricExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(format!("http://{address}/v1/metrics"))
        .build()
        .unwrap();
    let metering =
        SdkMeterProvider::builder().with_reader(PeriodicReader::builder(metrics).build()).build();

    let items = [ContextItem::new("small", 40).unwrap(), ContextItem::new("large", 90).unwrap()];
    let metrics = SelectionMetrics::new(&metering.meter("cupel"));
    let tracer = tracing.tracer("cupel");
    let mut collector =
        OtelTraceCollector::with_tracer(tracer, Verbosity::Full).with_metrics(metrics);
    let pipeline = Pipeline::builder(ReflexiveScorer).build();
    pipeline.run_traced(&items, &ContextBudget::new(50, 50).unwrap(), &mut collector).unwrap();
    tracing.shutdown().unwrap();
    metering.shutdown().unwrap();

    let (mut names, mut events, mut instruments) = (Vec::new(), Vec::new(), Vec::new());
    for (path, body) in requests.try_iter() {
        match path.as_str() {
            "/v1/traces" => {
                let request = ExportTraceServiceRequest::decode(&body[..]).unwrap();
                for scope in
                    request.resource_spans.iter().flat_map(|resource| &resource.scope_spans)
                {
                    assert_eq!(scope.scope.as_ref().unwrap().name, "cupel");
                    for span in &scope.spans {
                        assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
                        names.push(span.name.clone());
                        events.extend(span.events.iter().map(|event| event.name.clone()));
                    }
                }
            }
            "/v1/metrics" => {
                let request = ExportMetricsServiceRequest::decode(&body[..]).unwrap();
                let scopes =
                    request.resource_metrics.iter().flat_map(|metrics| &metrics.scope_metrics);
                instruments.extend(
                    scopes.flat_map(|scope| &scope.metrics).map(|metric| metric.name.clone()),
                );
            }
            other => panic!("unexpected request to {other}"),
        }
    }
    names.sort();
    assert_eq!(
        names,
        [
            "cupel.pipeline",
            "cupel.stage.classify",
            "cupel.stage.deduplicate",
            "cupel.stage.place",
            "cupel.stage.score",
            "cupel.stage.slice",
        ]
    );
    assert_eq!(events, ["cupel.exclusion", "cupel.item.included"]);
    instruments.sort();
    instruments.dedup();
    assert_eq!(
        instruments,
        [
            "cupel.items.excluded",
            "cupel.selection.duration",
            "cupel.selection.tokens",
            "cupel.selections"
        ]
    );
}
