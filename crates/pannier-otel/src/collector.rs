//! Records a run as spans.
//!
//! A sampler decides when a span starts whether it records. So every run starts its root span, and all further work
//! depends on whether that span records.

use std::fmt;
use std::time::{Duration, Instant, SystemTime};

use opentelemetry::global::{self, BoxedTracer};
use opentelemetry::trace::{Span, SpanBuilder, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue, Value};
use pannier_core::report::{
    ItemDecision, ItemEvent, PipelineStage, TraceCollector, TraceDetailLevel,
};
use pannier_core::{ContextBudget, Error, Selection};

use crate::metrics::SelectionMetrics;
use crate::names::{Names, PREFIX};

/// The level of detail of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verbosity {
    /// The run and its stages, with item counts. For production.
    #[default]
    StageOnly,
    /// Additionally, an event for each excluded item. For staging.
    StageAndExclusions,
    /// Additionally, an event for each included item. For development.
    Full,
}

impl Verbosity {
    /// Returns the value of the attribute `cupel.verbosity`.
    pub fn name(self) -> &'static str {
        match self {
            Self::StageOnly => "StageOnly",
            Self::StageAndExclusions => "StageAndExclusions",
            Self::Full => "Full",
        }
    }
}

/// A trace collector that records runs as spans and, optionally, as metrics.
///
/// A collector can record several runs, one after the other. Combine it with other collectors by
/// [`FanOutTraceCollector`](pannier_core::report::FanOutTraceCollector). The root span of a run is a child of the active span.
pub struct OtelTraceCollector<T: Tracer = BoxedTracer> {
    tracer: T,
    verbosity: Verbosity,
    names: Names,
    metrics: Option<SelectionMetrics>,
    clock: Clock,
    /// The context of the parent of all runs; by default the active one.
    parent: Option<Context>,
    /// The context of the root span while it is open, if it records.
    root: Option<Context>,
    stage: Option<Stage<T::Span>>,
}

/// A stage in progress.
struct Stage<S> {
    span: S,
    exclusions: usize,
    /// The end of the stage's own work, set by the first item event.
    end: Option<SystemTime>,
}

impl OtelTraceCollector<BoxedTracer> {
    /// Creates a collector with the tracer `cupel` of the global tracer provider.
    pub fn new(verbosity: Verbosity) -> Self {
        Self::from_source(PREFIX, verbosity)
    }

    /// Creates a collector with the tracer `source` of the global tracer provider.
    pub fn from_source(source: impl Into<String>, verbosity: Verbosity) -> Self {
        Self::with_tracer(global::tracer(source.into()), verbosity)
    }
}

impl<T: Tracer> OtelTraceCollector<T> {
    /// Creates a collector with this tracer.
    pub fn with_tracer(tracer: T, verbosity: Verbosity) -> Self {
        Self {
            tracer,
            verbosity,
            names: Names::new(PREFIX),
            metrics: None,
            clock: Clock::start(),
            parent: None,
            root: None,
            stage: None,
        }
    }

    /// Replaces the prefix of span, event and attribute names. Default: `cupel`.
    #[must_use]
    pub fn with_prefix(mut self, prefix: &str) -> Self {
        self.names = Names::new(prefix);
        self
    }

    /// Makes the span of `parent` the parent of all runs. Default: the active span.
    #[must_use]
    pub fn with_parent(mut self, parent: Context) -> Self {
        self.parent = Some(parent);
        self
    }

    /// Also records metrics, even if the trace is not recorded.
    #[must_use]
    pub fn with_metrics(mut self, metrics: SelectionMetrics) -> Self {
        self.metrics = Some(metrics);
        self
    }
}

impl<T: Tracer> TraceCollector for OtelTraceCollector<T>
where
    T::Span: Send + Sync + 'static,
{
    fn is_enabled(&self) -> bool {
        true
    }

    fn detail_level(&self) -> TraceDetailLevel {
        match self.verbosity {
            _ if self.root.is_none() => TraceDetailLevel::Stage,
            Verbosity::StageOnly => TraceDetailLevel::Stage,
            Verbosity::StageAndExclusions => TraceDetailLevel::Exclusion,
            Verbosity::Full => TraceDetailLevel::Item,
        }
    }

    fn run_started(&mut self, _candidates: usize, budget: &ContextBudget) {
        self.clock = Clock::start();
        self.stage = None;
        let name = format!("{}.pipeline", self.names.prefix);
        let builder = SpanBuilder::from_name(name).with_start_time(self.clock.system);
        let parent = self.parent.clone().unwrap_or_else(Context::current);
        let mut span = self.tracer.build_with_context(builder, &parent);
        self.root = span.is_recording().then(|| {
            span.set_attribute(KeyValue::new(
                self.names.budget_max_tokens.clone(),
                budget.max_tokens(),
            ));
            span.set_attribute(KeyValue::new(self.names.verbosity.clone(), self.verbosity.name()));
            parent.with_span(span)
        });
    }

    fn stage_started(&mut self, stage: &PipelineStage, items_in: usize) {
        let Some(root) = &self.root else {
            return;
        };
        let stage = stage.name().to_ascii_lowercase();
        let name = format!("{}.stage.{stage}", self.names.prefix);
        let builder = SpanBuilder::from_name(name).with_start_time(self.clock.now());
        let mut span = self.tracer.build_with_context(builder, root);
        span.set_attribute(KeyValue::new(self.names.stage_name.clone(), stage));
        let items_in = count(items_in);
        span.set_attribute(KeyValue::new(self.names.stage_item_count_in.clone(), items_in));
        self.stage = Some(Stage { span, exclusions: 0, end: None });
    }

    fn record_item(&mut self, event: &ItemEvent<'_>) {
        let Some(stage) = &mut self.stage else {
            return;
        };
        // Recording item events takes time that is not part of the stage.
        let now = *stage.end.get_or_insert_with(|| self.clock.now());
        let kind = || event.item.kind().to_string();
        let tokens = event.item.tokens();
        match event.decision {
            ItemDecision::Excluded(reason) if self.verbosity >= Verbosity::StageAndExclusions => {
                stage.exclusions += 1;
                let attributes = vec![
                    KeyValue::new(self.names.exclusion_reason.clone(), reason.variant().name()),
                    KeyValue::new(self.names.exclusion_item_kind.clone(), kind()),
                    KeyValue::new(self.names.exclusion_item_tokens.clone(), tokens),
                ];
                let name = self.names.exclusion.clone();
                stage.span.add_event_with_timestamp(name, now, attributes);
            }
            ItemDecision::Included(_) if self.verbosity >= Verbosity::Full => {
                let attributes = vec![
                    KeyValue::new(self.names.item_kind.clone(), kind()),
                    KeyValue::new(self.names.item_tokens.clone(), tokens),
                    KeyValue::new(self.names.item_score.clone(), event.score),
                ];
                let name = self.names.item_included.clone();
                stage.span.add_event_with_timestamp(name, now, attributes);
            }
            _ => {}
        }
    }

    fn stage_ended(&mut self, _stage: &PipelineStage, _items_in: usize, items_out: usize) {
        let Some(Stage { mut span, exclusions, end }) = self.stage.take() else {
            return;
        };
        let end = end.unwrap_or_else(|| self.clock.now());
        let items_out = count(items_out);
        span.set_attribute(KeyValue::new(self.names.stage_item_count_out.clone(), items_out));
        if self.verbosity >= Verbosity::StageAndExclusions {
            let exclusions = count(exclusions);
            span.set_attribute(KeyValue::new(self.names.exclusion_count.clone(), exclusions));
        }
        span.end_with_timestamp(end);
    }

    fn run_ended(&mut self, selection: &Selection<'_>) {
        let duration = self.clock.elapsed();
        if let Some(root) = self.root.take() {
            root.span().end_with_timestamp(self.clock.now());
        }
        if let Some(metrics) = &self.metrics {
            metrics.record(selection, duration);
        }
    }

    fn run_failed(&mut self, error: &Error) {
        let (duration, now) = (self.clock.elapsed(), self.clock.now());
        // The message of an error may quote an item; its kind cannot.
        let code = error.kind().code();
        if let Some(Stage { mut span, .. }) = self.stage.take() {
            span.set_status(Status::error(code));
            span.end_with_timestamp(now);
        }
        if let Some(root) = self.root.take() {
            let span = root.span();
            span.set_attribute(KeyValue::new("error.type", code));
            span.set_status(Status::error(code));
            span.end_with_timestamp(now);
        }
        if let Some(metrics) = &self.metrics {
            metrics.record_failure(error, duration);
        }
    }
}

impl<T: Tracer> fmt::Debug for OtelTraceCollector<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = &self.names.prefix;
        f.debug_struct("OtelTraceCollector").field("prefix", prefix).finish_non_exhaustive()
    }
}

/// Converts an item count to an attribute value.
fn count(items: usize) -> Value {
    i64::try_from(items).unwrap_or(i64::MAX).into()
}

/// The system time at the start plus a monotonic clock, so that a span cannot end before its start.
struct Clock {
    system: SystemTime,
    monotonic: Instant,
}

impl Clock {
    fn start() -> Self {
        Self { system: SystemTime::now(), monotonic: Instant::now() }
    }

    fn elapsed(&self) -> Duration {
        self.monotonic.elapsed()
    }

    fn now(&self) -> SystemTime {
        self.system + self.elapsed()
    }
}
