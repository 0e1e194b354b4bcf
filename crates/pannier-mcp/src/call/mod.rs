//! The calls, one front end a file: each reads its arguments, asks the library, and writes the answer.
//!
//! They run on threads of their own, and look between their steps whether anybody still waits for them.

mod documents;
mod memory;
mod selection;
mod snippets;

use pannier::Shelf;
use rmcp::model::JsonObject;

use crate::answer::Answer;
use crate::arguments::read;
use crate::tool_error::ToolError;
use crate::work::Watch;

/// What can be called.
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
    /// What a name means: that of a tool, or one under which others know it.
    pub(crate) fn of(name: &str) -> Option<Self> {
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
        watch: &Watch,
        most: usize,
    ) -> Result<Answer, ToolError> {
        match self {
            Self::Resolve => documents::resolve(&read(arguments)?, shelf, watch, most),
            Self::Assemble => documents::assemble(read(arguments)?, shelf, watch, most),
            Self::ListCaches => documents::list(&read(arguments)?, shelf, most),
            Self::InspectCache => documents::inspect(&read(arguments)?, shelf, watch, most),
            Self::Get => snippets::get(&read(arguments)?, shelf, watch, most),
            Self::Packet => memory::packet(&read(arguments)?, shelf, watch, most),
            Self::Select => selection::select(read(arguments)?, watch, most),
        }
    }
}
