//! Telemetry of calls over standard streams, by the program that starts the server. Over HTTP, the server observes requests.

use std::fmt;
use std::sync::Arc;

use pannier_core::report::TraceCollector;

/// Observes calls over standard streams.
pub trait CallTelemetry: fmt::Debug + Send + Sync {
    /// A call begins. `parent` is the `traceparent` of its metadata.
    fn begin(&self, operation: Operation, parent: Option<&str>) -> Arc<dyn CallSpan>;
}

/// Observes one call.
pub trait CallSpan: Send + Sync {
    /// Returns a collector of the selections of the call.
    fn collector(&self) -> Box<dyn TraceCollector>;

    /// The call has ended, with the code of its error if it failed.
    fn end(&self, error: Option<&'static str>);
}

/// What a client calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The method of the protocol.
    pub method: &'static str,
    /// The tool, by its current name.
    pub tool: Option<&'static str>,
}

impl Operation {
    /// A method without a tool.
    pub(crate) const fn method(method: &'static str) -> Self {
        Self { method, tool: None }
    }
}
