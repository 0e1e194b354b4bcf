//! Diagnostics: reasons for every decision, reports, and collectors that observe a run.

mod collector;
mod event;
mod note;
mod reason;
mod report;
mod thread_collector;

pub use collector::{
    DiagnosticTraceCollector, FanOutTraceCollector, NullTraceCollector, TraceCollector,
    TraceDetailLevel,
};
pub use event::{ItemDecision, ItemEvent, OverflowEvent, PipelineStage, TraceEvent};
pub use note::Note;
pub use reason::{ExclusionReason, ExclusionVariant, InclusionReason};
pub use report::{ExcludedItem, IncludedItem, ReportedItem, SelectionReport, StageCount};
pub use thread_collector::collect_runs;
pub(crate) use thread_collector::with_collector;
