//! Prints the trace of a selection: `cargo run -p pannier-otel --example print_trace`.

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use pannier_core::{ContextBudget, ContextItem, ContextKind, Error, Pipeline, RecencyScorer};
use pannier_otel::{OtelTraceCollector, Verbosity};

fn main() -> Result<(), Error> {
    // In an application, an OTLP exporter, and `opentelemetry::global::set_tracer_provider`.
    let exporter = opentelemetry_stdout::SpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter).build();

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

    if let Err(error) = provider.shutdown() {
        eprintln!("error: the trace could not be written: {error}");
    }
    Ok(())
}
