//! Prints the trace of a selection as a tree: `cargo run -p pannier-otel --example print_trace`.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::error::Error;

use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanId, TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use pannier_core::score::RecencyScorer;
use pannier_core::{ContextBudget, ContextItem, ContextKind, Pipeline};
use pannier_otel::{OtelTraceCollector, Verbosity};

fn main() -> Result<(), Box<dyn Error>> {
    // In an application: an OTLP exporter, and `opentelemetry::global::set_tracer_provider`.
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();

    let items = [
        ContextItem::builder("You answer in French.", 6)
            .kind(ContextKind::SYSTEM_PROMPT)
            .pinned(true)
            .build()?,
        ContextItem::new("Bonjour !", 3)?,
        ContextItem::builder("The whole manual ...", 4_000).kind(ContextKind::DOCUMENT).build()?,
    ];
    let pipeline = Pipeline::builder(RecencyScorer).build();
    let mut collector = OtelTraceCollector::with_tracer(provider.tracer("cupel"), Verbosity::Full);
    pipeline.run_traced(&items, &ContextBudget::new(100, 100)?, &mut collector)?;

    print_below(&exporter.get_finished_spans()?, SpanId::INVALID, "");
    Ok(())
}

fn print_below(spans: &[SpanData], parent: SpanId, indent: &str) {
    for span in spans.iter().filter(|span| span.parent_span_id == parent) {
        let length = span.end_time.duration_since(span.start_time).unwrap_or_default();
        println!("{indent}{} ({length:?}){}", span.name, format_attributes(&span.attributes));
        for event in span.events.iter() {
            println!("{indent}  * {}{}", event.name, format_attributes(&event.attributes));
        }
        print_below(spans, span.span_context.span_id(), &format!("{indent}  "));
    }
}

fn format_attributes(attributes: &[KeyValue]) -> String {
    attributes.iter().map(|pair| format!(" {}={}", pair.key, pair.value)).collect()
}
