//! The tools, one file per front end: each parses its arguments, calls the library, and serializes the output.
//!
//! A call runs on its own thread and checks between steps whether the client still waits.

mod documents;
mod memory;
mod snippets;

use pannier::Shelf;
use pannier::ops::{Control, PackRequest, Request};
use rmcp::model::JsonObject;

use crate::arguments::parse;
use crate::executor::CallControl;
use crate::tool_error::ToolError;
use crate::tool_output::ToolOutput;

/// A tool, or an operation of older clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Resolve,
    Assemble,
    Get,
    Packet,
    Select,
    ListCaches,
    InspectCache,
}

impl Call {
    /// Returns the call of this name: a tool, or an alias that other servers use.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "resolve_context" | "context.resolve" => Self::Resolve,
            "assemble_context" => Self::Assemble,
            "get_context" => Self::Get,
            "memory_packet" => Self::Packet,
            "select_context" => Self::Select,
            "context.list_caches" => Self::ListCaches,
            "context.inspect_cache" => Self::InspectCache,
            _ => return None,
        })
    }

    pub(crate) fn run(
        self,
        arguments: Option<JsonObject>,
        shelf: &Shelf,
        control: &CallControl,
        max_bytes: usize,
    ) -> Result<ToolOutput, ToolError> {
        match self {
            Self::Resolve => documents::resolve(&parse(arguments)?, shelf, control, max_bytes),
            Self::Assemble => documents::assemble(parse(arguments)?, shelf, control, max_bytes),
            Self::ListCaches => documents::list(&parse(arguments)?, shelf, max_bytes),
            Self::InspectCache => documents::inspect(&parse(arguments)?, shelf, control, max_bytes),
            Self::Get => snippets::get(&parse(arguments)?, shelf, control, max_bytes),
            Self::Packet => memory::packet(&parse(arguments)?, shelf, control, max_bytes),
            Self::Select => run::<PackRequest>(arguments, shelf, control, max_bytes),
        }
    }
}

/// Reads a request, runs it, and serializes its answer.
fn run<R: Request>(
    arguments: Option<JsonObject>,
    shelf: &Shelf,
    control: &CallControl,
    max_bytes: usize,
) -> Result<ToolOutput, ToolError> {
    let request = R::from_value(arguments.unwrap_or_default().into())?;
    let is_cancelled = || control.check().is_err();
    // A cancelled run ends at its next step.
    let step = |name| control.step(name).unwrap_or_default();
    let run = Control::default().until(&is_cancelled).on_step(&step);
    let answer = request.run(shelf, &run);
    control.check()?;
    control.step("serializing")?;
    let output = ToolOutput::object(&answer?, max_bytes)?;
    Ok(output.with_warnings(run.take_notes().warnings))
}
