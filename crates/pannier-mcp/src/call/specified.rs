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
        ToolError::invalid(message, "correct the arguments, then call again")
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
    let resolved = index.resolve(&query, budget as u64)?;
    control.step("serializing")?;
    ToolOutput::object(&resolved, max_bytes)
}

/// An index in the list of indexes.
#[derive(Serialize)]
struct ListedCache<'s> {
    name: &'s str,
    version: String,
    documents: u32,
    bytes: u64,
    chunks: u64,
}

/// Lists the indexes.
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
    let listed = shelf.document_names().into_iter().map(|name| {
        let index = shelf.documents(Some(name))?;
        let manifest = index.manifest();
        Ok(ListedCache {
            name,
            version: manifest.version.clone(),
            documents: manifest.documents,
            bytes: manifest.bytes,
            chunks: manifest.chunks,
        })
    });
    ToolOutput::object(&Caches { caches: listed.collect::<Result<_, ToolError>>()? }, max_bytes)
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
