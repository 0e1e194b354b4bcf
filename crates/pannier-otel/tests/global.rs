//! The collector with the global providers, as applications use it.

use opentelemetry::global;
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use pannier_core::score::ReflexiveScorer;
use pannier_core::{ContextBudget, ContextItem, Pipeline};
use pannier_otel::{OtelTraceCollector, SelectionMetrics, Verbosity};

#[test]
fn global_providers_are_used_with_the_specified_source() {
    let spans = InMemorySpanExporter::default();
    global::set_tracer_provider(
        SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build(),
    );
    let metrics = InMemoryMetricExporter::default();
    let meters = SdkMeterProvider::builder()
        .with_reader(PeriodicReader::builder(metrics.clone()).build())
        .build();
    global::set_meter_provider(meters.clone());

    let items = [ContextItem::new("text", 4).unwrap()];
    let pipeline = Pipeline::builder(ReflexiveScorer).build();
    let budget = ContextBudget::new(10, 10).unwrap();
    let mut collector =
        OtelTraceCollector::new(Verbosity::Full).with_metrics(SelectionMetrics::global());
    pipeline.run_traced(&items, &budget, &mut collector).unwrap();
    let mut other = OtelTraceCollector::from_source("my-agent", Verbosity::StageOnly);
    pipeline.run_traced(&items, &budget, &mut other).unwrap();

    let spans = spans.get_finished_spans().unwrap();
    let sources: Vec<_> = spans.iter().map(|span| span.instrumentation_scope.name()).collect();
    assert_eq!(sources, [["cupel"; 6], ["my-agent"; 6]].concat());
    meters.force_flush().unwrap();
    let metrics = metrics.get_finished_metrics().unwrap();
    assert!(metrics[0].scope_metrics().all(|scope| scope.scope().name() == "cupel"));
}
