//! Why an item is in, and why another is out.

mod collector;
mod event;
mod reason;
mod report;

pub use collector::{
    DiagnosticTraceCollector, FanOutTraceCollector, NullTraceCollector, TraceCollector,
    TraceDetailLevel,
};
pub use event::{ItemDecision, ItemEvent, OverflowEvent, PipelineStage, TraceEvent};
pub use reason::{ExclusionReason, ExclusionVariant, InclusionReason};
pub use report::{ExcludedItem, IncludedItem, SelectionReport, StageCount};
