//! The tool `get_context`: lists snippets, or fetches them with their requirements.

use std::sync::Arc;

use pannier::Shelf;
use pannier_core::TokenCounter;
use pannier_snippets::{
    ContextFormat, GetOptions, GetResponse, ListOptions, Scope, SessionId, SnippetCatalog,
    SnippetType, SnippetsError,
};

use crate::arguments::Get;
use crate::counter::counter;
use crate::executor::CallControl;
use crate::tool_error::ToolError;
use crate::tool_output::ToolOutput;

/// Returns the output of `pannier snippets list --format json` without ids, and of `pannier snippets get --format json` with
/// ids.
pub(super) fn get(
    arguments: &Get,
    shelf: &Shelf,
    control: &CallControl,
    max_bytes: usize,
) -> Result<ToolOutput, ToolError> {
    match arguments.snippet_ids.is_empty() {
        true => list(arguments, shelf, control, max_bytes),
        false => fetch(arguments, shelf, control, max_bytes),
    }
}

fn list(
    arguments: &Get,
    shelf: &Shelf,
    control: &CallControl,
    max_bytes: usize,
) -> Result<ToolOutput, ToolError> {
    if arguments.budget.is_some() {
        let hint = "omit it and use limit to list fewer, or add snippet_ids to fetch them";
        return Err(ToolError::invalid("budget requires snippet_ids", hint));
    }
    let mut options = ListOptions::default();
    let types = arguments.areas.iter().map(|name| SnippetType::from_name(name.trim()));
    options.areas = types.collect::<Result<_, SnippetsError>>()?;
    let scopes = arguments.scopes.iter().map(|name| Scope::from_name(name.trim()));
    options.scopes = scopes.collect::<Result<_, SnippetsError>>()?;
    options.baseline_only = arguments.baseline_only;
    options.query.clone_from(&arguments.query);
    options.limit = arguments.limit;
    let indexes = shelf.snippets(arguments.docs.as_deref())?;
    control.step("listing snippets")?;
    let catalog = indexes.catalog()?;
    let counter = counter_for(arguments, &catalog)?;
    ToolOutput::object(&catalog.list(&options, &*counter)?, max_bytes)
}

fn fetch(
    arguments: &Get,
    shelf: &Shelf,
    control: &CallControl,
    max_bytes: usize,
) -> Result<ToolOutput, ToolError> {
    let list_only = [
        ("areas", !arguments.areas.is_empty()),
        ("scopes", !arguments.scopes.is_empty()),
        ("baseline_only", arguments.baseline_only),
        ("query", arguments.query.is_some()),
        ("limit", arguments.limit.is_some()),
    ];
    if let Some((name, _)) = list_only.iter().find(|(_, is_set)| *is_set) {
        let hint = "omit it to fetch snippets, or omit snippet_ids to list them";
        return Err(ToolError::invalid(
            format!("{name} cannot be combined with snippet_ids"),
            hint,
        ));
    }
    let session = arguments.session.as_deref().map(SessionId::new).transpose();
    let session = session.map_err(SnippetsError::from)?;
    if arguments.resend && session.is_none() {
        let hint = "add session, or omit resend: without a session everything is sent";
        return Err(ToolError::invalid("resend requires session", hint));
    }
    let indexes = shelf.snippets(arguments.docs.as_deref())?;
    control.step("resolving requirements")?;
    let catalog = indexes.catalog()?;
    let counter = counter_for(arguments, &catalog)?;
    let ids = catalog.resolve_ids(arguments.snippet_ids.iter().map(String::as_str))?;
    let mut options = GetOptions::default();
    (options.budget, options.resend) = (arguments.budget, arguments.resend);
    options.format = ContextFormat::Json;
    if let Some(session) = &session {
        options.delivered = shelf.deliveries()?.read(session, indexes.roots())?;
    }
    let response = catalog.get(&ids, &options, &*counter)?;
    control.step("serializing")?;
    let output = match &response {
        GetResponse::Snippets(context) => ToolOutput::object(&**context, max_bytes)?,
        GetResponse::Discovery { listing, .. } => ToolOutput::object(listing, max_bytes)?,
    };
    // A cancelled call is not recorded as delivered.
    control.step("recording the delivery")?;
    match &session {
        Some(session) => match shelf.deliveries()?.record(session, indexes.roots(), &response) {
            Ok(()) => Ok(output),
            // The output is valid nevertheless.
            Err(error) => {
                let warning = format!("{error}; the session will get these snippets again");
                Ok(output.with_warnings([warning]))
            }
        },
        None => Ok(output),
    }
}

/// Returns the requested counter, or else the one that counted the indexes.
fn counter_for(
    arguments: &Get,
    catalog: &SnippetCatalog<'_>,
) -> Result<Arc<dyn TokenCounter>, ToolError> {
    match catalog.counter().filter(|_| arguments.tokenizer.is_none()) {
        Some(indexed) => Ok(Arc::from(indexed)),
        None => counter(arguments.tokenizer.as_deref()),
    }
}
