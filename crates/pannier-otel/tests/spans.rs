//! Exported spans and metrics: hierarchy, attributes, times, and no item content.

use std::time::Duration;

use opentelemetry::metrics::MeterProvider;
use opentelemetry::trace::{
    SpanId, Status, TraceContextExt, Tracer, TracerProvider, noop::NoopTracerProvider,
};
use opentelemetry::{Context, Value};
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ResourceMetrics};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, Sampler, SdkTracerProvider, SpanData};
use pannier_core::{report::*, score::*, slice::*, *};
use pannier_otel::{OtelTraceCollector, SelectionMetrics, Verbosity};

/// A part of every content, id, tag and metadata; telemetry must not contain it.
const SECRET: &str = "tangerine-7731";

fn pool() -> Vec<ContextItem> {
    let item = |content: &str, tokens, hint| {
        ContextItem::builder(format!("{content} {SECRET}"), tokens)
            .metadata("note", SECRET)
            .tags([SECRET])
            .id(format!("{content}-{SECRET}"))
            .future_relevance_hint(hint)
    };
    vec![
        item("pinned", 10, 0.0).pinned(true).kind(ContextKind::SYSTEM_PROMPT).build().unwrap(),
        item("taken", 40, 0.9).build().unwrap(),
        item("taken", 40, 0.2).build().unwrap(),
        item("large", 90, 0.5).kind(ContextKind::DOCUMENT).build().unwrap(),
        item("invalid", -3, 0.5).build().unwrap(),
    ]
}

fn provider() -> (SdkTracerProvider, InMemorySpanExporter) {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    (provider, exporter)
}

fn budget() -> ContextBudget {
    ContextBudget::new(100, 100).unwrap()
}

/// Returns the spans of one run.
fn spans(pipeline: &Pipeline, verbosity: Verbosity) -> Vec<SpanData> {
    let (provider, exporter) = provider();
    let mut collector = OtelTraceCollector::with_tracer(provider.tracer("cupel"), verbosity);
    let _ = pipeline.run_traced(&pool(), &budget(), &mut collector);
    exporter.get_finished_spans().unwrap()
}

fn pipeline() -> Pipeline {
    Pipeline::builder(ReflexiveScorer).build()
}

fn find<'s>(spans: &'s [SpanData], name: &str) -> &'s SpanData {
    spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no span {name}"))
}

fn attributes(span: &SpanData) -> Vec<(String, String)> {
    let pair = |pair: &opentelemetry::KeyValue| (pair.key.to_string(), pair.value.to_string());
    span.attributes.iter().map(pair).collect()
}

fn events(span: &SpanData) -> Vec<String> {
    let event = |event: &opentelemetry::trace::Event| {
        let pairs = event.attributes.iter().map(|pair| format!("{}={}", pair.key, pair.value));
        format!("{} {}", event.name, pairs.collect::<Vec<_>>().join(" "))
    };
    span.events.iter().map(event).collect()
}

fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(String, String)> {
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

#[test]
fn a_run_is_a_span_with_five_child_spans() {
    let spans = spans(&pipeline(), Verbosity::StageOnly);
    let names: Vec<_> = spans.iter().map(|span| span.name.as_ref()).collect();
    assert_eq!(
        names,
        [
            "cupel.stage.classify",
            "cupel.stage.score",
            "cupel.stage.deduplicate",
            "cupel.stage.slice",
            "cupel.stage.place",
            "cupel.pipeline",
        ]
    );
    let root = find(&spans, "cupel.pipeline");
    assert_eq!(root.parent_span_id, SpanId::INVALID);
    assert_eq!(root.instrumentation_scope.name(), "cupel");
    assert_eq!(
        attributes(root),
        pairs([("cupel.budget.max_tokens", "100"), ("cupel.verbosity", "StageOnly")])
    );
    for span in &spans[..5] {
        assert_eq!(span.parent_span_id, root.span_context.span_id());
        assert_eq!(span.span_context.trace_id(), root.span_context.trace_id());
        assert!(span.events.is_empty());
        assert!(root.start_time <= span.start_time && span.end_time <= root.end_time);
    }
    let counts = [
        ("classify", "5", "4"),
        ("score", "3", "3"),
        ("deduplicate", "3", "2"),
        ("slice", "2", "1"),
        ("place", "2", "2"),
    ];
    for (stage, items_in, items_out) in counts {
        assert_eq!(
            attributes(find(&spans, &format!("cupel.stage.{stage}"))),
            pairs([
                ("cupel.stage.name", stage),
                ("cupel.stage.item_count_in", items_in),
                ("cupel.stage.item_count_out", items_out),
            ])
        );
    }
    let integer = |value: &Value| matches!(value, Value::I64(_));
    assert!(integer(&find(&spans, "cupel.stage.slice").attributes[1].value));
}

#[test]
fn exclusion_events_are_in_the_stage_that_excludes() {
    let spans = spans(&pipeline(), Verbosity::StageAndExclusions);
    let root = find(&spans, "cupel.pipeline");
    assert!(
        attributes(root).contains(&("cupel.verbosity".to_owned(), "StageAndExclusions".to_owned()))
    );
    let stage = |stage: &str| {
        let span = find(&spans, &format!("cupel.stage.{stage}"));
        let count =
            span.attributes.iter().find(|pair| pair.key.as_str() == "cupel.exclusion.count");
        (count.unwrap().value.to_string(), events(span))
    };
    let exclusion = |reason: &str, kind: &str, tokens: i64| {
        let event = format!(
            "cupel.exclusion cupel.exclusion.reason={reason} cupel.exclusion.item_kind={kind} \
             cupel.exclusion.item_tokens={tokens}"
        );
        ("1".to_owned(), vec![event])
    };
    assert_eq!(stage("classify"), exclusion("NegativeTokens", "Message", -3));
    assert_eq!(stage("score"), ("0".to_owned(), vec![]));
    assert_eq!(stage("deduplicate"), exclusion("Deduplicated", "Message", 40));
    assert_eq!(stage("slice"), exclusion("BudgetExceeded", "Document", 90));
    assert_eq!(stage("place"), ("0".to_owned(), vec![]));
}

#[test]
fn at_full_verbosity_the_place_stage_has_inclusion_events() {
    let spans = spans(&pipeline(), Verbosity::Full);
    assert_eq!(
        events(find(&spans, "cupel.stage.place")),
        [
            "cupel.item.included cupel.item.kind=SystemPrompt cupel.item.tokens=10 cupel.item.score=1",
            "cupel.item.included cupel.item.kind=Message cupel.item.tokens=40 cupel.item.score=0.9",
        ]
    );
    assert!(events(find(&spans, "cupel.stage.score")).is_empty());
    assert_eq!(find(&spans, "cupel.stage.slice").events.len(), 1);
}

struct SlowScorer;

impl Scorer for SlowScorer {
    fn score(&self, _pool: &Pool<'_>, scores: &mut [f64]) -> Result<(), Error> {
        std::thread::sleep(Duration::from_millis(100));
        scores.fill(0.5);
        Ok(())
    }
}

#[test]
fn a_span_lasts_as_long_as_its_stage() {
    let spans = spans(&Pipeline::builder(SlowScorer).build(), Verbosity::Full);
    let length = |name: &str| {
        let span = find(&spans, name);
        span.end_time.duration_since(span.start_time).unwrap()
    };
    // A sleep may take longer than requested, so other spans are only compared with it.
    assert!(length("cupel.stage.score") >= Duration::from_millis(100));
    assert!(length("cupel.pipeline") >= length("cupel.stage.score"));
    let stages = ["classify", "score", "deduplicate", "slice", "place"];
    let sum: Duration = stages.iter().map(|stage| length(&format!("cupel.stage.{stage}"))).sum();
    assert!(length("cupel.pipeline") >= sum, "stages do not overlap");
    let order: Vec<_> =
        stages.iter().map(|stage| find(&spans, &format!("cupel.stage.{stage}"))).collect();
    assert!(order.windows(2).all(|pair| pair[0].end_time <= pair[1].start_time));
}

struct FailingSlicer;

impl Slicer for FailingSlicer {
    fn slice(&self, tally: &mut Tally<'_, '_>) -> Result<(), Error> {
        // The message of a custom component may quote an item.
        let problem = format!("cannot slice '{}'", tally.candidates()[0].item.content());
        Err(Error::custom(format!("the slicer of {SECRET}"), problem))
    }

    fn properties(&self) -> SlicerProperties {
        SlicerProperties::SCORE_ORDERED
    }
}

#[test]
fn a_failed_run_ends_its_spans_with_an_error() {
    let spans =
        spans(&Pipeline::builder(ReflexiveScorer).slicer(FailingSlicer).build(), Verbosity::Full);
    let names: Vec<_> = spans.iter().map(|span| span.name.as_ref()).collect();
    assert_eq!(
        names,
        [
            "cupel.stage.classify",
            "cupel.stage.score",
            "cupel.stage.deduplicate",
            "cupel.stage.slice",
            "cupel.pipeline",
        ]
    );
    let failed = Status::error("internal");
    assert_eq!(find(&spans, "cupel.stage.slice").status, failed);
    let root = find(&spans, "cupel.pipeline");
    assert_eq!(root.status, failed);
    assert!(attributes(root).contains(&("error.type".to_owned(), "internal".to_owned())));
    assert_eq!(find(&spans, "cupel.stage.score").status, Status::Unset);
    assert!(!format!("{spans:?}").contains(SECRET));

    let (provider, exporter) = provider();
    let mut collector = OtelTraceCollector::with_tracer(provider.tracer("cupel"), Verbosity::Full);
    let small = ContextBudget::new(5, 5).unwrap();
    assert!(pipeline().run_traced(&pool(), &small, &mut collector).is_err());
    let spans = exporter.get_finished_spans().unwrap();
    assert_eq!(find(&spans, "cupel.stage.classify").status, Status::error("budget_not_met"));
    assert_eq!(spans.len(), 2);
}

#[test]
fn spans_contain_no_content_and_no_metadata() {
    let mut every_slicer: Vec<Pipeline> = vec![pipeline()];
    let count = CountQuotaEntry::new(ContextKind::MESSAGE, 0, 0).unwrap();
    let capped = CountQuotaSlice::new([count], GreedySlice, ScarcityBehavior::Degrade).unwrap();
    every_slicer.push(Pipeline::builder(ReflexiveScorer).slicer(capped).build());
    for pipeline in every_slicer {
        for verbosity in [Verbosity::StageOnly, Verbosity::StageAndExclusions, Verbosity::Full] {
            let spans = spans(&pipeline, verbosity);
            assert_eq!(spans.len(), 6);
            assert!(!format!("{spans:?}").contains(SECRET));
        }
    }
}

#[test]
fn prefix_and_source_are_configurable() {
    let (provider, exporter) = provider();
    let mut collector =
        OtelTraceCollector::with_tracer(provider.tracer("my-agent"), Verbosity::Full)
            .with_prefix("pannier");
    pipeline().run_traced(&pool(), &budget(), &mut collector).unwrap();
    let spans = exporter.get_finished_spans().unwrap();
    assert!(
        !format!(
            "{:?}",
            spans
                .iter()
                .map(|span| (&span.name, &span.attributes, &span.events))
                .collect::<Vec<_>>()
        )
        .contains("cupel")
    );
    let root = find(&spans, "pannier.pipeline");
    assert_eq!(root.instrumentation_scope.name(), "my-agent");
    assert!(attributes(root).contains(&("pannier.verbosity".to_owned(), "Full".to_owned())));
}

#[test]
fn each_run_of_a_collector_is_a_child_of_the_active_span() {
    let (provider, exporter) = provider();
    let tracer = provider.tracer("application");
    let parent = tracer.start("answer a question");
    let active = Context::current_with_span(parent);
    let guard = active.clone().attach();
    let mut collector =
        OtelTraceCollector::with_tracer(provider.tracer("cupel"), Verbosity::StageOnly);
    for _ in 0..2 {
        pipeline().run_traced(&pool(), &budget(), &mut collector).unwrap();
    }
    drop(guard);
    active.span().end();
    let spans = exporter.get_finished_spans().unwrap();
    assert_eq!(spans.len(), 13);
    let roots: Vec<_> = spans.iter().filter(|span| span.name == "cupel.pipeline").collect();
    assert_eq!(roots.len(), 2);
    assert!(roots.iter().all(|root| root.parent_span_id == active.span().span_context().span_id()));
    assert_ne!(roots[0].span_context.span_id(), roots[1].span_context.span_id());
}

#[test]
fn the_collector_combines_with_others() {
    let (provider, exporter) = provider();
    let mut telemetry =
        OtelTraceCollector::with_tracer(provider.tracer("cupel"), Verbosity::StageOnly);
    let mut events = DiagnosticTraceCollector::new(TraceDetailLevel::Item);
    let mut both = FanOutTraceCollector::new([
        &mut telemetry as &mut dyn TraceCollector,
        &mut events as &mut dyn TraceCollector,
    ]);
    pipeline().run_traced(&pool(), &budget(), &mut both).unwrap();
    let spans = exporter.get_finished_spans().unwrap();
    assert_eq!(spans.len(), 6);
    assert!(spans.iter().all(|span| span.events.is_empty()), "item events need a higher verbosity");
    assert!(events.events().len() > 5);
}

#[test]
fn without_recording_the_collector_requests_no_item_events() {
    let mut silent =
        OtelTraceCollector::with_tracer(NoopTracerProvider::new().tracer("cupel"), Verbosity::Full);
    silent.run_started(5, &budget());
    assert_eq!(silent.detail_level(), TraceDetailLevel::Stage);
    pipeline().run_traced(&pool(), &budget(), &mut silent).unwrap();

    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .with_sampler(Sampler::AlwaysOff)
        .build();
    let mut sampled_out =
        OtelTraceCollector::with_tracer(provider.tracer("cupel"), Verbosity::Full);
    sampled_out.run_started(5, &budget());
    assert_eq!(sampled_out.detail_level(), TraceDetailLevel::Stage);
    pipeline().run_traced(&pool(), &budget(), &mut sampled_out).unwrap();
    assert!(exporter.get_finished_spans().unwrap().is_empty());
}

#[test]
fn the_exclusion_count_includes_dropped_events() {
    let items: Vec<_> =
        (0..300).map(|i| ContextItem::new(format!("text {i}"), 50).unwrap()).collect();
    let (provider, exporter) = provider();
    let mut collector =
        OtelTraceCollector::with_tracer(provider.tracer("cupel"), Verbosity::StageAndExclusions);
    pipeline().run_traced(&items, &budget(), &mut collector).unwrap();
    let spans = exporter.get_finished_spans().unwrap();
    let slice = find(&spans, "cupel.stage.slice");
    assert_eq!(slice.events.len() + slice.events.dropped_count as usize, 298);
    assert!(attributes(slice).contains(&("cupel.exclusion.count".to_owned(), "298".to_owned())));
}

#[test]
fn metrics_count_selections_tokens_and_reasons() {
    let exporter = InMemoryMetricExporter::default();
    let provider = SdkMeterProvider::builder()
        .with_reader(PeriodicReader::builder(exporter.clone()).build())
        .build();
    let metrics = SelectionMetrics::new(&provider.meter("cupel"));
    // Metrics are recorded even if the trace is not.
    let tracer = NoopTracerProvider::new().tracer("cupel");
    let mut collector =
        OtelTraceCollector::with_tracer(tracer, Verbosity::Full).with_metrics(metrics);
    for tokens in [100, 100, 5] {
        let budget = ContextBudget::new(tokens, tokens).unwrap();
        let _ = pipeline().run_traced(&pool(), &budget, &mut collector);
    }
    provider.force_flush().unwrap();
    let finished = exporter.get_finished_metrics().unwrap();
    assert!(!format!("{finished:?}").contains(SECRET));
    assert_eq!(
        counts(&finished, "cupel.selections"),
        [("".to_owned(), 2), ("error.type=budget_not_met".to_owned(), 1)]
    );
    assert_eq!(
        counts(&finished, "cupel.items.excluded"),
        ["BudgetExceeded", "Deduplicated", "NegativeTokens"]
            .map(|reason| (format!("cupel.exclusion.reason={reason}"), 2))
    );
    let metric = |name: &str| {
        finished[0]
            .scope_metrics()
            .flat_map(|scope| scope.metrics())
            .find(|metric| metric.name() == name)
            .unwrap()
    };
    let AggregatedMetrics::U64(MetricData::Histogram(tokens)) =
        metric("cupel.selection.tokens").data()
    else {
        panic!("tokens are a histogram")
    };
    let point = tokens.data_points().next().unwrap();
    assert_eq!((point.count(), point.sum()), (2, 100));
    let AggregatedMetrics::F64(MetricData::Histogram(durations)) =
        metric("cupel.selection.duration").data()
    else {
        panic!("durations are a histogram")
    };
    assert_eq!(metric("cupel.selection.duration").unit(), "s");
    assert_eq!(durations.data_points().map(|point| point.count()).sum::<u64>(), 3);
}

/// Returns the values of a counter by attributes, sorted.
fn counts(metrics: &[ResourceMetrics], name: &str) -> Vec<(String, u64)> {
    let metric = metrics[0]
        .scope_metrics()
        .flat_map(|scope| scope.metrics())
        .find(|metric| metric.name() == name);
    let AggregatedMetrics::U64(MetricData::Sum(sum)) = metric.unwrap().data() else {
        panic!("{name} is a counter")
    };
    let mut counts: Vec<(String, u64)> = sum
        .data_points()
        .map(|point| {
            let pairs = point.attributes().map(|pair| format!("{}={}", pair.key, pair.value));
            (pairs.collect::<Vec<_>>().join(" "), point.value())
        })
        .collect();
    counts.sort();
    counts
}
