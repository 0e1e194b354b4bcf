//! Calls about document caches.

use pannier_docs::{Assembler, AssemblyConfig, Filters, SearchOptions, TokenBudget};
use serde::Serialize;

use crate::answer::Answer;
use crate::arguments::{Assemble, Inspect, Nothing, Resolve};
use crate::tool_error::ToolError;
use pannier::Shelf;

use crate::counter::counter;
use crate::work::Watch;

/// As `pannier resolve`.
pub(super) fn resolve(
    arguments: &Resolve,
    shelf: &Shelf,
    watch: &Watch,
    most: usize,
) -> Result<Answer, ToolError> {
    let cache = shelf.documents(arguments.cache.as_deref())?;
    watch.step("looking for documents")?;
    let resolved = cache.resolve(&arguments.query, arguments.budget)?;
    watch.step("writing the answer")?;
    Answer::object(&resolved, most)
}

/// As `pannier assemble --format json`.
pub(super) fn assemble(
    arguments: Assemble,
    shelf: &Shelf,
    watch: &Watch,
    most: usize,
) -> Result<Answer, ToolError> {
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
    watch.step("looking for passages")?;
    let assembler = Assembler::new(&cache, config).with_counter(counter);
    let candidates = assembler.candidates(&arguments.query, shelf.query_vector(&cache))?;
    watch.step("packing passages")?;
    let context = candidates.assemble(&TokenBudget::available(arguments.budget))?;
    watch.step("writing the answer")?;
    Answer::object(&context, most)
}

/// A cache, for whoever chooses one.
#[derive(Serialize)]
struct ListedCache<'s> {
    name: &'s str,
    version: String,
    documents: u32,
    bytes: u64,
    chunks: u64,
}

/// Which caches there are.
pub(super) fn list(_: &Nothing, shelf: &Shelf, most: usize) -> Result<Answer, ToolError> {
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
    Answer::object(&Caches { caches: listed.collect::<Result<_, ToolError>>()? }, most)
}

/// As `pannier inspect --format json`.
pub(super) fn inspect(
    arguments: &Inspect,
    shelf: &Shelf,
    watch: &Watch,
    most: usize,
) -> Result<Answer, ToolError> {
    let cache = shelf.documents(arguments.cache.as_deref())?;
    watch.step("looking through the cache")?;
    Answer::object(&cache.inspect()?, most)
}
