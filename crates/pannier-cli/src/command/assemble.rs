//! `pannier assemble`: the passages that answer a query, packed and written under the names of their documents.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum, ValueHint};
use pannier_core::{Timestamp, TokenCounter, find_item};
use pannier_docs::{
    AssembledContext, Assembler, AssemblyConfig, Candidates, DocumentIndex, Embedder, Filters,
    QueryVector, SearchMode, SearchOptions, TokenBudget, parse_date,
};
use pannier_policy::Packing;

use super::docs::{CacheArguments, EmbedderArguments};
use super::explanation;
use crate::arguments::TokenizerArguments;
use crate::error::CliError;
use crate::input;
use crate::output::{self, Output};

/// Assemble the passages that answer a query, within a budget
///
/// Passages are found by their words, and by their vectors where the cache has some. The best are taken that fit, what says
/// the same as a better one is left out, and each document's passages stand together, in their order, under its path.
/// Whatever is typed is a query; words in double quotes must follow each other.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier assemble --cache .cache/docs --query 'how do we roll back a deployment?' --budget 2000
  pannier assemble --cache .cache/docs --query '\"rolling back\"' --budget 2000 --path 'guides/**' --format pretty
  pannier assemble --cache .cache/docs --query deploy --budget 2000 --format items | pannier simulate -p assemble --sweep --from 500 --to 4000")]
pub(crate) struct Assemble {
    #[command(flatten)]
    cache: CacheArguments,

    /// What to look for
    #[arg(long, value_name = "QUERY")]
    query: String,

    /// How many tokens the context may have
    #[arg(long, short, value_name = "TOKENS")]
    budget: usize,

    #[command(flatten)]
    tokenizer: TokenizerArguments,

    /// How the context is written
    #[arg(long, short, value_enum, default_value_t)]
    format: ContextFormat,

    /// In which order passages are taken and laid out
    #[arg(long, value_enum, default_value_t, help_heading = "Packing")]
    packing: PackingArgument,

    /// How many passages of one document may be taken; with --neighbours, each with its neighbours
    #[arg(long, value_name = "COUNT", help_heading = "Packing")]
    max_chunks_per_doc: Option<usize>,

    /// Above which share what a passage has in common with a better one makes it superfluous
    #[arg(long, value_name = "SHARE", default_value_t = 0.8, help_heading = "Packing")]
    dedup_threshold: f64,

    /// What the line that names a document costs at least
    #[arg(long, value_name = "TOKENS", default_value_t = 10, help_heading = "Packing")]
    per_doc_overhead: usize,

    /// Take the passages before and after each one with it, or none of them; one that was found by itself stays by itself
    #[arg(long, help_heading = "Packing")]
    neighbours: bool,

    /// Tell headings, dates and the terms that were found (JSON)
    #[arg(long)]
    metadata: bool,

    #[command(flatten)]
    search: SearchArguments,

    #[command(flatten)]
    vector: VectorArguments,

    /// Say why a passage is in or out, and what would change that, instead of writing the context
    #[arg(long, value_name = "ID|INDEX")]
    explain: Vec<String>,

    /// Write what is needed to make this selection again and verify it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    receipt: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ContextFormat {
    /// What is sent
    #[default]
    Text,
    /// One line of JSON
    Json,
    /// JSON for people
    Pretty,
    /// The passages that were found, as items for `select`, `simulate` and `compare`
    Items,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum PackingArgument {
    /// The best first, laid out by document
    #[default]
    Greedy,
    /// The documents in turns
    Interleaved,
    /// The best first, laid out as taken
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

/// How passages are found.
#[derive(Args, Debug)]
#[command(next_help_heading = "Search")]
pub(crate) struct SearchArguments {
    /// By what passages are found
    #[arg(long, value_enum, default_value_t)]
    mode: ModeArgument,

    /// How many passages are found by words
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    lexical_k: usize,

    /// How many passages are found by vectors
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    semantic_k: usize,

    /// How many are left of both
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    top_k: usize,

    /// How much the first ranks stand out: the greater, the less
    #[arg(long, value_name = "NUMBER", default_value_t = 60)]
    rrf_k: u32,

    /// What a rank by words counts: a whole number, as in --lexical-weight 3 --semantic-weight 1
    #[arg(long, value_name = "WEIGHT", default_value_t = 1)]
    lexical_weight: u32,

    /// What a rank by vectors counts
    #[arg(long, value_name = "WEIGHT", default_value_t = 1)]
    semantic_weight: u32,

    /// Of equal scores, put the later document first
    #[arg(long)]
    prefer_recent: bool,

    /// Look only at documents whose path matches one of these patterns, as in 'guides/**'; case matters
    #[arg(long = "path", value_name = "PATTERN")]
    paths: Vec<String>,

    /// Look only at documents dated then or later: 2026-03-01; those without a date are left out
    #[arg(long, value_name = "DATE", value_parser = date)]
    after: Option<Timestamp>,

    /// Look only at documents dated earlier; those without a date are left out
    #[arg(long, value_name = "DATE", value_parser = date)]
    before: Option<Timestamp>,

    /// Look only at passages that have this text, in whatever case
    #[arg(long, value_name = "TEXT")]
    contains: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ModeArgument {
    /// By words, and by vectors where the cache has them
    #[default]
    Hybrid,
    /// By words
    Lexical,
    /// By vectors
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

/// Where the vector of a query comes from.
#[derive(Args, Debug)]
#[command(next_help_heading = "Vectors")]
pub(crate) struct VectorArguments {
    #[command(flatten)]
    embedder: EmbedderArguments,

    /// The vector of the query, if you have made those of the cache: a JSON array of numbers
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "embedder")]
    query_vector: Option<PathBuf>,
}

/// A vector, or what makes one.
pub(crate) struct Vector {
    embedder: Option<Box<dyn Embedder>>,
    given: Option<Vec<i16>>,
}

impl VectorArguments {
    pub(crate) fn open(&self) -> Result<Vector, CliError> {
        let given = self.query_vector.as_deref().map(input::read_vector).transpose()?;
        Ok(Vector { embedder: self.embedder.open()?, given })
    }
}

impl Vector {
    pub(crate) fn query(&self) -> QueryVector<'_> {
        match (&self.embedder, &self.given) {
            (_, Some(given)) => QueryVector::Given(given),
            (Some(embedder), None) => QueryVector::Embedder(&**embedder),
            (None, None) => QueryVector::None,
        }
    }
}

/// Why a context is empty.
fn nothing(context: &AssembledContext) -> String {
    let smallest = context.omitted.iter().map(|omitted| omitted.tokens).min();
    match smallest {
        None => "nothing was found; try other words, or fewer filters".to_owned(),
        Some(tokens) => format!(
            "nothing fits: {} passages were found, the smallest of {tokens} tokens, besides the line with its path",
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
                let numbers = self.explain.iter().map(|name| find_item(&pool, name));
                let numbers: Vec<usize> = numbers.collect::<Result<_, _>>()?;
                let pipeline = candidates.pipeline(&budget)?;
                let answers = pipeline.explain_all(&*pool, &budget.context_budget()?, &numbers)?;
                match self.format {
                    ContextFormat::Json => output.json(&answers)?,
                    ContextFormat::Pretty => output.pretty_json(&answers)?,
                    ContextFormat::Text | ContextFormat::Items => {
                        output.text(&explanation::texts(&answers, false))?;
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
                    // Nothing is an answer, too; people and agents want to know which.
                    let _ = writeln!(std::io::stderr(), "{}", nothing(&context));
                }
                output.text(&context.text)
            }
        }
    }
}
