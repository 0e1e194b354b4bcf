//! From a run to spans.
//!
//! Whether anybody records is only known once the root span has been started: a sampler decides then. So a run
//! always starts that one span, and everything else depends on whether it records.

use std::fmt;
use std::time::{Duration, Instant, SystemTime};

use opentelemetry::global::{self, BoxedTracer};
use opentelemetry::trace::{Span, SpanBuilder, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue, Value};
use pannier_core::{
    ContextBudget, Error, ItemDecision, ItemEvent, PipelineStage, Selection, TraceCollector,
    TraceDetailLevel,
};

use crate::metrics::SelectionMetrics;
use crate::names::{Names, PREFIX};

/// How much a trace tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verbosity {
    /// The run and its stages, with counts. For production.
    #[default]
    StageOnly,
    /// Also an event for each item that was dropped. For staging.
    StageAndExclusions,
    /// Also an event for each item that was selected. For development.
    Full,
}

impl Verbosity {
    /// The name that traces carry.
    pub fn name(self) -> &'static str {
        match self {
            Self::StageOnly => "StageOnly",
            Self::StageAndExclusions => "StageAndExclusions",
            Self::Full => "Full",
        }
    }
}

/// Turns a run into spans, and into metrics if it has instruments.
///
/// It serves one run after the other. Combine it with other collectors by
/// [`FanOutTraceCollector`](pannier_core::FanOutTraceCollector). A run is a child of the span that is active where
/// it starts.
pub struct OtelTraceCollector<T: Tracer = BoxedTracer> {
    tracer: T,
    verbosity: Verbosity,
    names: Names,
    metrics: Option<SelectionMetrics>,
    clock: Clock,
    /// The context of the root span, from its start to its end, if it records.
    root: Option<Context>,
    stage: Option<Stage<T::Span>>,
}

/// A stage under way.
struct Stage<S> {
    span: S,
    exclusions: usize,
    /// When its work was done, if its items have been told of since.
    end: Option<SystemTime>,
}

impl OtelTraceCollector<BoxedTracer> {
    /// A collector that uses the global tracer provider, under the source `cupel`.
    pub fn new(verbosity: Verbosity) -> Self {
        Self::from_source(PREFIX, verbosity)
    }

    /// A collector that uses the global tracer provider, under a source of this name.
    pub fn from_source(source: impl Into<String>, verbosity: Verbosity) -> Self {
        Self::with_tracer(global::tracer(source.into()), verbosity)
    }
}

impl<T: Tracer> OtelTraceCollector<T> {
    /// A collector that uses this tracer.
    pub fn with_tracer(tracer: T, verbosity: Verbosity) -> Self {
        Self {
            tracer,
            verbosity,
            names: Names::new(PREFIX),
            metrics: None,
            clock: Clock::start(),
            root: None,
            stage: None,
        }
    }

    /// Puts another word in place of `cupel` at the beginning of the names of spans, events and attributes.
    #[must_use]
    pub fn with_prefix(mut self, prefix: &str) -> Self {
        self.names = Names::new(prefix);
        self
    }

    /// Records metrics, too, whether or not anybody records the trace.
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
        let mut span = self.tracer.build_with_context(builder, &Context::current());
        self.root = span.is_recording().then(|| {
            span.set_attribute(KeyValue::new(
                self.names.budget_max_tokens.clone(),
                budget.max_tokens(),
            ));
            span.set_attribute(KeyValue::new(self.names.verbosity.clone(), self.verbosity.name()));
            Context::current_with_span(span)
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
        // Telling takes time of its own, which is not the stage's.
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
        // The text of an error may quote an item; its kind cannot.
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
        f.debug_struct("OtelTraceCollector")
            .field("verbosity", &self.verbosity)
            .field("prefix", &self.names.prefix)
            .field("metrics", &self.metrics.is_some())
            .finish_non_exhaustive()
    }
}

/// A number of items as an attribute has it.
fn count(items: usize) -> Value {
    i64::try_from(items).unwrap_or(i64::MAX).into()
}

/// The system's time at the start, and a steady clock from there on: a span cannot end before it began.
struct Clock {
    system: SystemTime,
    steady: Instant,
}

impl Clock {
    fn start() -> Self {
        Self { system: SystemTime::now(), steady: Instant::now() }
    }

    fn elapsed(&self) -> Duration {
        self.steady.elapsed()
    }

    fn now(&self) -> SystemTime {
        self.system + self.elapsed()
    }
}
