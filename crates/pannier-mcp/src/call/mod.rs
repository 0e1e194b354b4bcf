//! The calls: each reads a request, runs it, and serializes the answer.
//!
//! A call runs on its own thread and checks between steps whether the client still waits.

mod specified;

use pannier::ops::{
    Answer, Control, Limit, MemoryRequest, PackRequest, ReadRequest, RecallRequest, Request,
    SearchRequest, Sends, SnippetGetRequest, SnippetListRequest,
};
use pannier::{Failure, Shelf};
use rmcp::model::JsonObject;
use serde_json::Value;

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

    /// Returns its current name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Search => "search_docs",
            Self::Read => "read_docs",
            Self::Snippets => "get_context",
            Self::Memory => "get_memory",
            Self::Pack => "pack_items",
            Self::Recall => "recall",
            Self::Resolve => "context.resolve",
            Self::ListCaches => "context.list_caches",
            Self::InspectCache => "context.inspect_cache",
        }
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

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

/// The share of a budget that notes may take: one in this many tokens.
const NOTES_SHARE: i64 = 4;

/// The number of runs for an answer with notes or details, which take tokens from its text.
const MAX_RUNS: usize = 4;

/// Reads a request and runs it. Its budget bounds everything that is sent.
fn run<R: Request>(
    mut arguments: JsonObject,
    shelf: &Shelf,
    control: &CallControl,
    max_bytes: usize,
) -> Result<ToolOutput, ToolError> {
    let sends = if take_detail(&mut arguments)? { Sends::Details } else { Sends::Text };
    let run = Run { sends, shelf, control, max_bytes };
    if is_explained(&arguments) {
        return Ok(run.once::<R>(arguments)?.0);
    }
    // A delivery is recorded once. Of items, which are many, there is no second copy for a note.
    let is_repeatable = !arguments.contains_key("session")
        && (sends == Sends::Details || !arguments.contains_key("items"));
    let repeated = is_repeatable.then(|| arguments.clone());
    let refused: ToolError = match run.bounded::<R>(arguments, repeated.as_ref()) {
        Err(error) if sends == Sends::Details => error,
        result => return result,
    };
    // Details grow with the text. So a larger budget is tried before it is named.
    let (Some(mut smallest), Some(arguments)) = (refused.smallest_budget, &repeated) else {
        return Err(refused);
    };
    for _ in 0..MAX_RUNS {
        match run.bounded::<R>(with_budget(arguments, smallest), repeated.as_ref()) {
            Ok(_) => break,
            Err(error) => match error.smallest_budget.filter(|needed| *needed > smallest) {
                Some(needed) => smallest = needed,
                None => smallest = smallest.saturating_add(smallest / 4),
            },
        }
    }
    Err(ToolError::over_budget(smallest))
}

/// The arguments that make up a budget.
const BUDGET_ARGUMENTS: [&str; 4] = ["budget", "max_tokens", "reserve", "target"];

/// Returns the arguments with another budget.
fn with_budget(arguments: &JsonObject, budget: i64) -> JsonObject {
    let mut arguments = arguments.clone();
    arguments.retain(|name, _| !BUDGET_ARGUMENTS.contains(&name.as_str()));
    arguments.insert(BUDGET_ARGUMENTS[0].to_owned(), budget.into());
    arguments
}

/// Returns whether the call asks for explanations. Its budget is the one in question, not that of the answer.
fn is_explained(arguments: &JsonObject) -> bool {
    arguments.get("explain").is_some_and(|names| !is_empty(names))
}

/// Removes the argument `detail`, which every tool takes.
fn take_detail(arguments: &mut JsonObject) -> Result<bool, ToolError> {
    match arguments.remove("detail") {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(detail)) => Ok(detail),
        Some(_) => {
            Err(ToolError::invalid("detail: write true or false", "correct it, then call again"))
        }
    }
}

/// The circumstances of a call.
struct Run<'c> {
    sends: Sends,
    shelf: &'c Shelf,
    control: &'c CallControl,
    max_bytes: usize,
}

impl Run<'_> {
    /// Runs a request, and again if what follows the text must take its tokens from the text.
    fn bounded<R: Request>(
        &self,
        arguments: JsonObject,
        repeated: Option<&JsonObject>,
    ) -> Result<ToolOutput, ToolError> {
        let (mut output, limit) = self.once::<R>(arguments)?;
        let Some(Limit { tokens: budget, counter, .. }) = limit else { return Ok(output) };
        let required = output.count(&*counter);
        let is_long = output.count_notes(&*counter) > budget / NOTES_SHARE;
        if is_long || repeated.is_none() && required > budget {
            output.hide_notes();
        }
        let mut runs = 1;
        while output.count(&*counter) > budget && runs < MAX_RUNS {
            let additions = output.count_additions(&*counter);
            let Some(again) = repeated.filter(|_| additions > 0 && additions < budget) else {
                break;
            };
            let Ok((next, _)) = self.once::<R>(with_budget(again, budget - additions)) else {
                break;
            };
            output = next;
            runs += 1;
        }
        if output.count(&*counter) > budget {
            output.hide_notes();
        }
        match output.count(&*counter) <= budget {
            true => Ok(output),
            false => Err(Failure::AnswerOverBudget { smallest_budget: required, budget }.into()),
        }
    }

    /// Runs a request once, and returns its budget, too.
    fn once<R: Request>(
        &self,
        arguments: JsonObject,
    ) -> Result<(ToolOutput, Option<Limit>), ToolError> {
        let request = R::from_value(arguments.into())?;
        let Self { sends, shelf, control, max_bytes } = *self;
        let is_cancelled = || control.check().is_err();
        // A cancelled run ends at its next step.
        let step = |name| control.step(name).unwrap_or_default();
        let run = Control::default().until(&is_cancelled).on_step(&step).sending(sends);
        let answer = request.run(shelf, &run);
        control.check()?;
        control.step("serializing")?;
        let answer = answer?;
        let details = if sends == Sends::Details { answer.details() } else { Value::Null };
        let limit = run.limit();
        let notes = run.into_notes().warnings;
        let notes = notes.iter().map(|note| shelf.without_paths(note)).collect();
        let output = ToolOutput::new(answer.text().into_owned(), &details, notes, max_bytes)?;
        Ok((output, limit))
    }
}
