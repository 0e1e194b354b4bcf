//! The operations that the specification of document caches names: `context.resolve`, `context.list_caches` and
//! `context.inspect_cache`. Their answers are the output of the commands `resolve` and `inspect`.

use pannier::Shelf;
use pannier::ops::Count;
use rmcp::model::JsonObject;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::executor::CallControl;
use crate::tool_error::ToolError;
use crate::tool_output::ToolOutput;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Resolve {
    #[serde(alias = "index")]
    cache: Option<String>,
    query: String,
    budget: Count,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Inspect {
    #[serde(alias = "index")]
    cache: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NoArguments {}

/// Parses arguments; `null` is an absent one.
fn parse<T: DeserializeOwned>(mut arguments: JsonObject) -> Result<T, ToolError> {
    arguments.retain(|_, value| !value.is_null());
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|error| {
        let (path, problem) = (error.path().to_string(), error.inner().to_string());
        let is_named = path == "." || problem.starts_with("unknown field");
        let message = if is_named { problem } else { format!("{path}: {problem}") };
        let mut error = ToolError::invalid(message, "correct the arguments, then call again");
        if error.message.contains("budget") {
            error.specified_code = "invalid_budget";
        }
        error
    })
}

/// Returns the output of `pannier resolve`.
pub(super) fn resolve(
    arguments: JsonObject,
    shelf: &Shelf,
    control: &CallControl,
    max_bytes: usize,
) -> Result<ToolOutput, ToolError> {
    let Resolve { cache, query, budget: Count(budget) } = parse(arguments)?;
    let index = shelf.documents(cache.as_deref())?;
    control.step("searching documents")?;
    let Some(index) = index.as_index() else {
        let hint = "use search_docs or read_docs";
        return Err(ToolError::invalid("the index is not a folder", hint));
    };
    let resolved = index.resolve(&query, budget as u64)?;
    control.step("serializing")?;
    ToolOutput::object(&resolved, max_bytes)
}

/// An index in the list of indexes, or the reason why it cannot be used.
#[derive(Default, Serialize)]
struct ListedCache<'s> {
    name: &'s str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    documents: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chunks: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
}

/// Lists the indexes. One that is gone does not hide the others.
pub(super) fn list(
    arguments: JsonObject,
    shelf: &Shelf,
    max_bytes: usize,
) -> Result<ToolOutput, ToolError> {
    #[derive(Serialize)]
    struct Caches<'s> {
        caches: Vec<ListedCache<'s>>,
    }
    let NoArguments {} = parse(arguments)?;
    let listed = shelf.document_names().into_iter().map(|name| match shelf.documents(Some(name)) {
        Ok(index) => {
            let manifest = index.manifest();
            ListedCache {
                name,
                version: Some(manifest.version.clone()),
                documents: Some(manifest.documents),
                bytes: Some(manifest.bytes),
                chunks: Some(manifest.chunks),
                error: None,
            }
        }
        Err(failure) => {
            let error = Some(ToolError::from(failure).specified_code);
            ListedCache { name, error, ..ListedCache::default() }
        }
    });
    ToolOutput::object(&Caches { caches: listed.collect() }, max_bytes)
}

/// Returns the output of `pannier inspect --cache --format json`.
pub(super) fn inspect(
    arguments: JsonObject,
    shelf: &Shelf,
    control: &CallControl,
    max_bytes: usize,
) -> Result<ToolOutput, ToolError> {
    let Inspect { cache } = parse(arguments)?;
    let index = shelf.documents(cache.as_deref())?;
    control.step("inspecting the index")?;
    ToolOutput::object(&index.inspect()?, max_bytes)
}
