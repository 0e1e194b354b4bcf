//! The tools on document caches.

use pannier::Shelf;
use pannier_docs::{Assembler, AssemblyConfig, Filters, SearchOptions, TokenBudget};
use serde::Serialize;

use crate::arguments::{Assemble, Inspect, NoArguments, Resolve};
use crate::counter::counter;
use crate::executor::CallControl;
use crate::tool_error::ToolError;
use crate::tool_output::ToolOutput;

/// Returns the output of `pannier resolve`.
pub(super) fn resolve(
    arguments: &Resolve,
    shelf: &Shelf,
    control: &CallControl,
    max_bytes: usize,
) -> Result<ToolOutput, ToolError> {
    let cache = shelf.documents(arguments.cache.as_deref())?;
    control.step("searching documents")?;
    let resolved = cache.resolve(&arguments.query, arguments.budget)?;
    control.step("serializing")?;
    ToolOutput::object(&resolved, max_bytes)
}

/// Returns the output of `pannier assemble --format json`.
pub(super) fn assemble(
    arguments: Assemble,
    shelf: &Shelf,
    control: &CallControl,
    max_bytes: usize,
) -> Result<ToolOutput, ToolError> {
    let mut filters = Filters::default();
    (filters.paths, filters.contains) = (arguments.paths, arguments.contains);
    (filters.after, filters.before) = (arguments.after, arguments.before);
    let mut search = SearchOptions::default();
    (search.mode, search.prefer_recent) = (arguments.mode, arguments.prefer_recent);
    search.filters = filters;
    let mut config = AssemblyConfig::default();
    (config.search, config.packing) = (search, arguments.packing);
    config.max_chunks_per_doc = arguments.max_chunks_per_doc;
    (config.neighbors, config.include_metadata) = (arguments.neighbours, arguments.metadata);

    let cache = shelf.documents(arguments.cache.as_deref())?;
    let counter = counter(arguments.tokenizer.as_deref())?;
    control.step("searching passages")?;
    let assembler = Assembler::new(&cache, config).with_counter(counter);
    let candidates = assembler.candidates(&arguments.query, shelf.query_vector(&cache))?;
    control.step("packing passages")?;
    let context = candidates.assemble(&TokenBudget::available(arguments.budget))?;
    control.step("serializing")?;
    ToolOutput::object(&context, max_bytes)
}

/// A cache in the list of caches.
#[derive(Serialize)]
struct ListedCache<'s> {
    name: &'s str,
    version: String,
    documents: u32,
    bytes: u64,
    chunks: u64,
}

/// Lists the caches.
pub(super) fn list(
    _: &NoArguments,
    shelf: &Shelf,
    max_bytes: usize,
) -> Result<ToolOutput, ToolError> {
    #[derive(Serialize)]
    struct Caches<'s> {
        caches: Vec<ListedCache<'s>>,
    }
    let listed = shelf.document_names().into_iter().map(|name| {
        let cache = shelf.documents(Some(name))?;
        let manifest = cache.manifest();
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

/// Returns the output of `pannier inspect --format json`.
pub(super) fn inspect(
    arguments: &Inspect,
    shelf: &Shelf,
    control: &CallControl,
    max_bytes: usize,
) -> Result<ToolOutput, ToolError> {
    let cache = shelf.documents(arguments.cache.as_deref())?;
    control.step("inspecting the cache")?;
    ToolOutput::object(&cache.inspect()?, max_bytes)
}
