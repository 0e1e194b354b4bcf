//! `pannier assemble`: assembles passages for a query.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum, ValueHint};
use pannier_core::{Timestamp, TokenCounter};
use pannier_docs::{
    AssembledContext, Assembler, AssemblyConfig, Candidates, DocumentIndex, Embedder, Filters,
    QueryVector, SearchMode, SearchOptions, TokenBudget, parse_date,
};
use pannier_policy::Packing;

use super::docs::{CacheArguments, EmbedderArguments};
use super::{explanation, find_items};
use crate::arguments::TokenizerArguments;
use crate::error::CliError;
use crate::input;
use crate::output::{self, Output};

/// Assemble passages for a query, within a budget
///
/// Searches passages by BM25, and by embeddings if the cache has them. Takes the best passages that fit, drops
/// near-duplicates, and prints the passages of each document together, in document order, under its path. Words in double
/// quotes match as a phrase.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier assemble --cache .cache/docs --query 'how do we roll back a deployment?' --budget 2000
  pannier assemble --cache .cache/docs --query '\"rolling back\"' --budget 2000 --path 'guides/**' --format pretty
  pannier assemble --cache .cache/docs --query deploy --budget 2000 --format items | pannier simulate -p assemble --sweep --from 500 --to 4000")]
pub(crate) struct Assemble {
    #[command(flatten)]
    cache: CacheArguments,

    /// Query
    #[arg(long, value_name = "QUERY")]
    query: String,

    /// Token budget of the context
    #[arg(long, short, value_name = "TOKENS")]
    budget: usize,

    #[command(flatten)]
    tokenizer: TokenizerArguments,

    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    format: ContextFormat,

    /// Order in which passages are taken and printed
    #[arg(long, value_enum, default_value_t, help_heading = "Packing")]
    packing: PackingArgument,

    /// Maximum passages per document; neighbors are not counted
    #[arg(long, value_name = "COUNT", help_heading = "Packing")]
    max_chunks_per_doc: Option<usize>,

    /// Shingle containment above which a passage is a near-duplicate, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.8, help_heading = "Packing")]
    dedup_threshold: f64,

    /// Minimum cost of the line that names a document
    #[arg(long, value_name = "TOKENS", default_value_t = 10, help_heading = "Packing")]
    per_doc_overhead: usize,

    /// Add the passages before and after each passage, or drop all three
    #[arg(long, help_heading = "Packing")]
    neighbours: bool,

    /// Include headings, dates and matched terms (JSON)
    #[arg(long)]
    metadata: bool,

    #[command(flatten)]
    search: SearchArguments,

    #[command(flatten)]
    vector: VectorArguments,

    /// Passages to explain instead of printing the context; repeatable
    #[arg(long, value_name = "ID|INDEX")]
    explain: Vec<String>,

    /// File for a receipt, with which `pannier replay` repeats the selection
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    receipt: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ContextFormat {
    /// The rendered text
    #[default]
    Text,
    /// One line of JSON
    Json,
    /// Indented JSON
    Pretty,
    /// The found passages as items for `select`, `simulate` and `compare`
    Items,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum PackingArgument {
    /// Best first, grouped by document
    #[default]
    Greedy,
    /// Documents in turns
    Interleaved,
    /// Best first, ungrouped
    ScoreWeighted,
}

impl From<PackingArgument> for Packing {
    fn from(packing: PackingArgument) -> Self {
        match packing {
            PackingArgument::Greedy => Self::Greedy,
            PackingArgument::Interleaved => Self::Interleaved,
            PackingArgument::ScoreWeighted => Self::ScoreWeighted,
        }
    }
}

/// The search options.
#[derive(Args, Debug)]
#[command(next_help_heading = "Search")]
pub(crate) struct SearchArguments {
    /// Retrievers
    #[arg(long, value_enum, default_value_t)]
    mode: ModeArgument,

    /// Number of passages of the lexical retriever
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    lexical_k: usize,

    /// Number of passages of the semantic retriever
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    semantic_k: usize,

    /// Number of passages after fusion
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    top_k: usize,

    /// RRF constant k; larger values flatten rank differences
    #[arg(long, value_name = "NUMBER", default_value_t = 60)]
    rrf_k: u32,

    /// Weight of the lexical retriever, an integer
    #[arg(long, value_name = "WEIGHT", default_value_t = 1)]
    lexical_weight: u32,

    /// Weight of the semantic retriever, an integer
    #[arg(long, value_name = "WEIGHT", default_value_t = 1)]
    semantic_weight: u32,

    /// Rank the later document first if scores are equal
    #[arg(long)]
    prefer_recent: bool,

    /// Path pattern of documents to search, as in 'guides/**'; repeatable
    #[arg(long = "path", value_name = "PATTERN")]
    paths: Vec<String>,

    /// Earliest date of documents to search, as in 2026-03-01
    #[arg(long, value_name = "DATE", value_parser = date)]
    after: Option<Timestamp>,

    /// Date before which documents to search are dated
    #[arg(long, value_name = "DATE", value_parser = date)]
    before: Option<Timestamp>,

    /// Text that passages must contain, case-insensitive; repeatable
    #[arg(long, value_name = "TEXT")]
    contains: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ModeArgument {
    /// Lexical, and semantic if the cache has vectors
    #[default]
    Hybrid,
    /// BM25
    Lexical,
    /// Embeddings
    Semantic,
}

pub(super) fn date(text: &str) -> Result<Timestamp, String> {
    parse_date(text)
        .ok_or_else(|| "write a date, as in 2026-03-01 or 2026-03-01T12:00:00Z".to_owned())
}

impl SearchArguments {
    pub(crate) fn read(&self) -> SearchOptions {
        let mut search = SearchOptions::default();
        search.mode = match self.mode {
            ModeArgument::Hybrid => SearchMode::Hybrid,
            ModeArgument::Lexical => SearchMode::Lexical,
            ModeArgument::Semantic => SearchMode::Semantic,
        };
        (search.lexical_k, search.semantic_k) = (self.lexical_k, self.semantic_k);
        (search.top_k, search.rrf_k) = (self.top_k, self.rrf_k);
        (search.lexical_weight, search.semantic_weight) =
            (self.lexical_weight, self.semantic_weight);
        search.prefer_recent = self.prefer_recent;
        let mut filters = Filters::default();
        (filters.paths, filters.contains) = (self.paths.clone(), self.contains.clone());
        (filters.after, filters.before) = (self.after, self.before);
        search.filters = filters;
        search
    }
}

/// The source of the query vector.
#[derive(Args, Debug)]
#[command(next_help_heading = "Vectors")]
pub(crate) struct VectorArguments {
    #[command(flatten)]
    embedder: EmbedderArguments,

    /// File with the query vector, a JSON array, for a cache with your own vectors
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "embedder")]
    query_vector: Option<PathBuf>,
}

/// A query vector, or the model that computes it.
pub(crate) struct Vector {
    embedder: Option<Box<dyn Embedder>>,
    imported: Option<Vec<i16>>,
}

impl VectorArguments {
    pub(crate) fn open(&self) -> Result<Vector, CliError> {
        let imported = self.query_vector.as_deref().map(input::read_vector).transpose()?;
        Ok(Vector { embedder: self.embedder.open()?, imported })
    }
}

impl Vector {
    pub(crate) fn query(&self) -> QueryVector<'_> {
        match (&self.embedder, &self.imported) {
            (_, Some(imported)) => QueryVector::Given(imported),
            (Some(embedder), None) => QueryVector::Embedder(&**embedder),
            (None, None) => QueryVector::None,
        }
    }
}

/// Returns why a context is empty.
fn empty_reason(context: &AssembledContext) -> String {
    let smallest = context.omitted.iter().map(|omitted| omitted.tokens).min();
    match smallest {
        None => "no passage matches; try other words or fewer filters".to_owned(),
        Some(tokens) => format!(
            "no passage fits: {} match, the smallest has {tokens} tokens without its path line",
            context.omitted.len()
        ),
    }
}

impl Assemble {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        let counter: Arc<dyn TokenCounter> = Arc::from(self.tokenizer.counter()?);
        let config = self.config()?;
        let vector = self.vector.open()?;
        let cache = DocumentIndex::open(&self.cache.cache)?;
        let assembler = Assembler::new(&cache, config).with_counter(counter);
        let candidates = assembler.candidates(&self.query, vector.query())?;
        let mut budget = TokenBudget::available(self.budget);
        budget.per_doc_overhead = self.per_doc_overhead;
        if let Some(path) = &self.receipt {
            let receipt = candidates.receipt(&budget)?;
            output::write_json(path, &receipt)?;
        }
        let mut output = Output::new();
        match self.explain.is_empty() {
            true => self.write(&candidates, &budget, &mut output)?,
            false => {
                let pool = candidates.pool(&budget)?;
                let indices = find_items(&pool, &self.explain)?;
                let pipeline = candidates.pipeline(&budget)?;
                let explanations =
                    pipeline.explain_all(&*pool, &budget.context_budget()?, &indices)?;
                match self.format {
                    ContextFormat::Json => output.json(&explanations)?,
                    ContextFormat::Pretty => output.pretty_json(&explanations)?,
                    ContextFormat::Text | ContextFormat::Items => {
                        output.text(&explanation::texts(&explanations, false))?;
                    }
                }
            }
        }
        output.finish()
    }

    fn config(&self) -> Result<AssemblyConfig, CliError> {
        if !(0.0..=1.0).contains(&self.dedup_threshold) {
            return Err(CliError::Usage(format!(
                "--dedup-threshold is {}; it must be from 0 to 1",
                self.dedup_threshold
            )));
        }
        let mut config = AssemblyConfig::default();
        config.search = self.search.read();
        config.packing = self.packing.into();
        config.dedup_threshold = (self.dedup_threshold * 1_000.0).round() as u16;
        config.max_chunks_per_doc = self.max_chunks_per_doc;
        config.neighbors = self.neighbours;
        config.include_metadata = self.metadata;
        Ok(config)
    }

    fn write(
        &self,
        candidates: &Candidates<'_>,
        budget: &TokenBudget,
        output: &mut Output,
    ) -> Result<(), CliError> {
        if let ContextFormat::Items = self.format {
            for item in candidates.pool(budget)?.iter() {
                output.json(item)?;
            }
            return Ok(());
        }
        let context = candidates.assemble(budget)?;
        match self.format {
            ContextFormat::Json => output.json(&context),
            ContextFormat::Pretty => output.pretty_json(&context),
            ContextFormat::Text | ContextFormat::Items => {
                if context.chunks.is_empty() {
                    output::note(&empty_reason(&context));
                }
                output.text(&context.text)
            }
        }
    }
}
