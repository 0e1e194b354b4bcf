//! The calls: each reads a request, runs it, and serializes the answer.
//!
//! A call runs on its own thread and checks between steps whether the client still waits.

mod specified;

use pannier::Shelf;
use pannier::ops::{
    Answer, Control, MemoryRequest, PackRequest, ReadRequest, RecallRequest, Request,
    SearchRequest, SnippetGetRequest, SnippetListRequest,
};
use rmcp::model::JsonObject;

use crate::executor::CallControl;
use crate::tool_error::ToolError;
use crate::tool_output::ToolOutput;

/// A tool, or an operation of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Search,
    Read,
    Snippets,
    Memory,
    Pack,
    Recall,
    /// The specification's operations on caches.
    Resolve,
    ListCaches,
    InspectCache,
}

impl Call {
    /// Returns the call of this name: a tool, a former name of one, or a name of the specification.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "search_docs" | "assemble_context" => Self::Search,
            "read_docs" => Self::Read,
            "get_context" => Self::Snippets,
            "get_memory" | "memory_packet" => Self::Memory,
            "pack_items" | "select_context" => Self::Pack,
            "recall" => Self::Recall,
            "context.resolve" | "resolve_context" => Self::Resolve,
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
        let mut arguments = arguments.unwrap_or_default();
        match self {
            Self::Search => run::<SearchRequest>(arguments, shelf, control, max_bytes),
            Self::Read => run::<ReadRequest>(arguments, shelf, control, max_bytes),
            Self::Memory => run::<MemoryRequest>(arguments, shelf, control, max_bytes),
            Self::Pack => run::<PackRequest>(arguments, shelf, control, max_bytes),
            Self::Recall => run::<RecallRequest>(arguments, shelf, control, max_bytes),
            Self::Snippets => {
                let is_set = |name: &str| arguments.get(name).is_some_and(|ids| !is_empty(ids));
                match is_set("snippet_ids") || is_set("ids") {
                    true => run::<SnippetGetRequest>(arguments, shelf, control, max_bytes),
                    false => {
                        // They are about texts that are sent.
                        arguments.retain(|name, _| name != "session" && name != "resend");
                        run::<SnippetListRequest>(arguments, shelf, control, max_bytes)
                    }
                }
            }
            Self::Resolve => specified::resolve(arguments, shelf, control, max_bytes),
            Self::ListCaches => specified::list(arguments, shelf, max_bytes),
            Self::InspectCache => specified::inspect(arguments, shelf, control, max_bytes),
        }
    }
}

fn is_empty(value: &serde_json::Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

/// Reads a request, runs it, and serializes its answer.
fn run<R: Request>(
    arguments: JsonObject,
    shelf: &Shelf,
    control: &CallControl,
    max_bytes: usize,
) -> Result<ToolOutput, ToolError> {
    let request = R::from_value(arguments.into())?;
    let is_cancelled = || control.check().is_err();
    // A cancelled run ends at its next step.
    let step = |name| control.step(name).unwrap_or_default();
    let run = Control::default().until(&is_cancelled).on_step(&step);
    let answer = request.run(shelf, &run);
    control.check()?;
    control.step("serializing")?;
    let answer = answer?;
    let output = ToolOutput::new(answer.text().into_owned(), answer.structured(), max_bytes)?;
    Ok(output.with_warnings(run.into_notes().warnings))
}
