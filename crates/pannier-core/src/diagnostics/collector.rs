//! Trace collectors: observers of a run.
//!
//! The pipeline calls a collector at the start and the end of a run and of each stage, on failure, and, if the collector
//! asks for it, for each decision about an item. The collector owns the clock, because the engine reads none. The
//! pipeline is generic over the collector, so the compiler removes all calls of the null collector.

use std::time::Duration;

use super::{ItemDecision, ItemEvent, PipelineStage, TraceEvent};
use crate::{ContextBudget, Error, Selection};

/// The detail of the events that a collector receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum TraceDetailLevel {
    /// Stages only. Costs nothing per item.
    #[default]
    Stage,
    /// Stages, and the items that each of them dropped.
    Exclusion,
    /// Stages, and every decision about an item.
    Item,
}

impl TraceDetailLevel {
    /// Returns whether a collector of this level receives a decision.
    pub fn includes(self, decision: &ItemDecision<'_>) -> bool {
        match decision {
            ItemDecision::Excluded(_) => self >= Self::Exclusion,
            _ => self >= Self::Item,
        }
    }
}

/// Observes a run. Every method but the first has a default that does nothing.
///
/// The order of calls is fixed: `run_started`; for each stage `stage_started`, its item events, and
/// `stage_ended`; then `run_ended`. A run that fails stops where it is and calls `run_failed`.
#[allow(unused_variables, reason = "the default methods do nothing")]
pub trait TraceCollector {
    /// Returns whether the pipeline calls this collector at all. It asks before it builds an event.
    fn is_enabled(&self) -> bool;

    /// Returns the detail that it wants.
    fn detail_level(&self) -> TraceDetailLevel {
        TraceDetailLevel::Stage
    }

    /// A run starts.
    fn run_started(&mut self, candidates: usize, budget: &ContextBudget) {}

    /// A stage starts.
    fn stage_started(&mut self, stage: &PipelineStage, items_in: usize) {}

    /// A stage decided about an item. Only called if the [level](Self::detail_level) includes the decision.
    fn record_item(&mut self, event: &ItemEvent<'_>) {}

    /// A stage ended.
    fn stage_ended(&mut self, stage: &PipelineStage, items_in: usize, items_out: usize) {}

    /// The run ended with this selection.
    fn run_ended(&mut self, selection: &Selection<'_>) {}

    /// The run failed, in the stage that started last.
    fn run_failed(&mut self, error: &Error) {}
}

/// A collector that is never called, and costs nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullTraceCollector;

impl TraceCollector for NullTraceCollector {
    fn is_enabled(&self) -> bool {
        false
    }
}

type Clock<'c> = Box<dyn Fn() -> Duration + 'c>;
type Callback<'c> = Box<dyn FnMut(&TraceEvent) + 'c>;

/// A collector that keeps all events, in order.
///
/// ```
/// use std::time::Instant;
/// use pannier_core::report::{DiagnosticTraceCollector, TraceDetailLevel};
///
/// let start = Instant::now();
/// let collector = DiagnosticTraceCollector::new(TraceDetailLevel::Item)
///     .with_clock(move || start.elapsed())
///     .with_callback(|event| eprintln!("{}: {} items", event.stage, event.item_count));
/// ```
#[derive(Default)]
pub struct DiagnosticTraceCollector<'c> {
    detail_level: TraceDetailLevel,
    clock: Option<Clock<'c>>,
    callback: Option<Callback<'c>>,
    stage_start: Duration,
    /// The end of the stage, if item events have been recorded since.
    stage_end: Option<Duration>,
    events: Vec<TraceEvent>,
}

impl<'c> DiagnosticTraceCollector<'c> {
    /// Creates a collector without a clock: all durations are 0.
    pub fn new(detail_level: TraceDetailLevel) -> Self {
        Self { detail_level, ..Self::default() }
    }

    /// Measures stages with a clock that returns the time since a fixed moment.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> Duration + 'c) -> Self {
        self.clock = Some(Box::new(clock));
        self
    }

    /// Calls a function with each event, as soon as it is recorded.
    #[must_use]
    pub fn with_callback(mut self, callback: impl FnMut(&TraceEvent) + 'c) -> Self {
        self.callback = Some(Box::new(callback));
        self
    }

    /// Returns the events so far.
    pub fn events(&self) -> &[TraceEvent] {
        &self.events
    }

    /// Returns the events, for a report; see [`Selection::report_with`].
    pub fn into_events(self) -> Vec<TraceEvent> {
        self.events
    }

    fn now(&self) -> Duration {
        self.clock.as_ref().map_or(Duration::ZERO, |clock| clock())
    }

    fn record(&mut self, event: TraceEvent) {
        if let Some(callback) = &mut self.callback {
            callback(&event);
        }
        self.events.push(event);
    }
}

impl TraceCollector for DiagnosticTraceCollector<'_> {
    fn is_enabled(&self) -> bool {
        true
    }

    fn detail_level(&self) -> TraceDetailLevel {
        self.detail_level
    }

    /// Forgets the events of the previous run.
    fn run_started(&mut self, _candidates: usize, _budget: &ContextBudget) {
        self.events.clear();
    }

    fn stage_started(&mut self, _stage: &PipelineStage, _items_in: usize) {
        self.stage_start = self.now();
    }

    fn record_item(&mut self, event: &ItemEvent<'_>) {
        if !self.detail_level.includes(&event.decision) {
            return;
        }
        // Recording takes time that is not the stage's.
        if self.stage_end.is_none() {
            self.stage_end = Some(self.now());
        }
        self.record(TraceEvent {
            stage: event.stage.clone(),
            duration_ms: 0.0,
            item_count: 1,
            message: Some(event.to_string()),
        });
    }

    fn stage_ended(&mut self, stage: &PipelineStage, items_in: usize, _items_out: usize) {
        let end = self.stage_end.take().unwrap_or_else(|| self.now());
        let duration = end.saturating_sub(self.stage_start);
        self.record(TraceEvent {
            stage: stage.clone(),
            duration_ms: duration.as_secs_f64() * 1000.0,
            item_count: items_in,
            message: None,
        });
    }
}

/// Several collectors as one. Each receives the detail that it wants.
#[derive(Default)]
pub struct FanOutTraceCollector<'c> {
    collectors: Vec<&'c mut dyn TraceCollector>,
}

impl<'c> FanOutTraceCollector<'c> {
    /// Calls all of these, in this order.
    pub fn new(collectors: impl IntoIterator<Item = &'c mut dyn TraceCollector>) -> Self {
        Self { collectors: collectors.into_iter().collect() }
    }

    fn enabled(&mut self) -> impl Iterator<Item = &mut &'c mut dyn TraceCollector> {
        self.collectors.iter_mut().filter(|collector| collector.is_enabled())
    }
}

impl TraceCollector for FanOutTraceCollector<'_> {
    fn is_enabled(&self) -> bool {
        self.collectors.iter().any(|collector| collector.is_enabled())
    }

    fn detail_level(&self) -> TraceDetailLevel {
        let enabled = self.collectors.iter().filter(|collector| collector.is_enabled());
        enabled.map(|collector| collector.detail_level()).max().unwrap_or_default()
    }

    fn run_started(&mut self, candidates: usize, budget: &ContextBudget) {
        self.enabled().for_each(|collector| collector.run_started(candidates, budget));
    }

    fn stage_started(&mut self, stage: &PipelineStage, items_in: usize) {
        self.enabled().for_each(|collector| collector.stage_started(stage, items_in));
    }

    fn record_item(&mut self, event: &ItemEvent<'_>) {
        self.enabled()
            .filter(|collector| collector.detail_level().includes(&event.decision))
            .for_each(|collector| collector.record_item(event));
    }

    fn stage_ended(&mut self, stage: &PipelineStage, items_in: usize, items_out: usize) {
        self.enabled().for_each(|collector| collector.stage_ended(stage, items_in, items_out));
    }

    fn run_ended(&mut self, selection: &Selection<'_>) {
        self.enabled().for_each(|collector| collector.run_ended(selection));
    }

    fn run_failed(&mut self, error: &Error) {
        self.enabled().for_each(|collector| collector.run_failed(error));
    }
}

opaque_debug!(DiagnosticTraceCollector<'c>, FanOutTraceCollector<'c>);
