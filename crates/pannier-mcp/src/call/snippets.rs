//! The call about snippets: two phases in one tool.

use std::sync::Arc;

use pannier_core::TokenCounter;
use pannier_snippets::{
    ContextFormat, GetOptions, GetResponse, ListOptions, Scope, SessionId, SnippetCatalog,
    SnippetType, SnippetsError,
};

use crate::answer::Answer;
use crate::arguments::Get;
use crate::tool_error::ToolError;
use pannier::Shelf;

use crate::counter::counter;
use crate::work::Watch;

/// As `pannier snippets list --format json` without ids, and as `pannier snippets get --format json` with them.
pub(super) fn get(
    arguments: &Get,
    shelf: &Shelf,
    watch: &Watch,
    most: usize,
) -> Result<Answer, ToolError> {
    match arguments.snippet_ids.is_empty() {
        true => list(arguments, shelf, watch, most),
        false => fetch(arguments, shelf, watch, most),
    }
}

fn list(arguments: &Get, shelf: &Shelf, watch: &Watch, most: usize) -> Result<Answer, ToolError> {
    if arguments.budget.is_some() {
        let hint = "leave it out, and use limit to list fewer; or add snippet_ids to fetch them";
        return Err(ToolError::invalid("budget does not go without snippet_ids", hint));
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
    watch.step("listing snippets")?;
    let catalog = indexes.catalog()?;
    let counter = counter_for(arguments, &catalog)?;
    Answer::object(&catalog.list(&options, &*counter)?, most)
}

fn fetch(arguments: &Get, shelf: &Shelf, watch: &Watch, most: usize) -> Result<Answer, ToolError> {
    let unfit = [
        ("areas", !arguments.areas.is_empty()),
        ("scopes", !arguments.scopes.is_empty()),
        ("baseline_only", arguments.baseline_only),
        ("query", arguments.query.is_some()),
        ("limit", arguments.limit.is_some()),
    ];
    if let Some((name, _)) = unfit.iter().find(|(_, is_given)| *is_given) {
        let hint = "leave it out to fetch snippets, or leave snippet_ids out to list them";
        return Err(ToolError::invalid(format!("{name} does not go with snippet_ids"), hint));
    }
    let session = arguments.session.as_deref().map(SessionId::new).transpose();
    let session = session.map_err(SnippetsError::from)?;
    if arguments.resend && session.is_none() {
        let hint = "add session, or leave resend out: without a session everything is sent";
        return Err(ToolError::invalid("resend is about a session, and there is none", hint));
    }
    let indexes = shelf.snippets(arguments.docs.as_deref())?;
    watch.step("gathering what is required")?;
    let catalog = indexes.catalog()?;
    let counter = counter_for(arguments, &catalog)?;
    let ids = catalog.resolve_ids(arguments.snippet_ids.iter().map(String::as_str))?;
    let mut options = GetOptions::default();
    (options.budget, options.resend) = (arguments.budget, arguments.resend);
    options.format = ContextFormat::Json;
    if let Some(session) = &session {
        options.delivered = shelf.deliveries()?.read(session, indexes.roots())?;
    }
    let found = catalog.get(&ids, &options, &*counter)?;
    watch.step("writing the answer")?;
    let answer = match &found {
        GetResponse::Snippets(context) => Answer::object(&**context, most)?,
        GetResponse::Discovery { listing, .. } => Answer::object(listing, most)?,
    };
    // Only what somebody still waits for is remembered as given.
    watch.step("remembering what was given")?;
    match &session {
        Some(session) => match shelf.deliveries()?.record(session, indexes.roots(), &found) {
            Ok(()) => Ok(answer),
            // The answer is good all the same.
            Err(error) => {
                let told = format!("{error}; what was sent will be sent to the session again");
                Ok(answer.warn([told]))
            }
        },
        None => Ok(answer),
    }
}

/// What counts tokens: what was asked for, or else what counted those in the indexes.
fn counter_for(
    arguments: &Get,
    catalog: &SnippetCatalog<'_>,
) -> Result<Arc<dyn TokenCounter>, ToolError> {
    match catalog.counter().filter(|_| arguments.tokenizer.is_none()) {
        Some(indexed) => Ok(Arc::from(indexed)),
        None => counter(arguments.tokenizer.as_deref()),
    }
}
