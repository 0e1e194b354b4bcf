//! The commands that specifications name: `build`, `resolve`, `assemble` and `inspect --cache`. Their flags, defaults, output
//! and exit codes stay as specified. They ignore the settings of the project.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum, ValueHint};
use pannier::ops::{Control, IndexRequest, PassageOptions, QueryOptions};
use pannier::{Defaults, Shelf};
use pannier_core::{ContextBudget, TokenCounter};
use pannier_docs::{
    AssembledContext, Assembler, AssemblyConfig, Candidates, DocumentIndex, FileRules, TokenBudget,
    resolve_policy,
};
use pannier_policy::{PolicyRegistry, Receipt, RunConfig};

use super::docs::{IndexFiles, QueryEmbedding, print_stats};
use super::{AnswerFormat, explanation, find_items};
use crate::arguments::TokenizerArguments;
use crate::config;
use crate::error::CliError;
use crate::output::{self, Output};

/// The folder of an index.
#[derive(Args, Debug)]
pub(crate) struct CacheArguments {
    /// Folder of the index
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    cache: PathBuf,
}

/// Returns a shelf with an index, and without the settings of the project.
fn shelf(cache: &Path) -> Shelf {
    let mut defaults = Defaults::default();
    defaults.index = Some(cache.to_owned());
    Shelf::local().with_defaults(defaults)
}

/// Opens the folder of an index. A message about a folder shows its path, and the address of a database may have a password.
fn open(cache: &Path) -> Result<DocumentIndex, CliError> {
    if config::is_address(cache) {
        let problem = "--cache: this command reads the folder of an index; search a database by `pannier docs search --index`";
        return Err(CliError::Usage(problem.to_owned()));
    }
    Ok(DocumentIndex::open(cache)?)
}

/// Index a folder of documents
///
/// `docs index` is the same with the settings of the project.
#[derive(Args, Debug)]
pub(crate) struct Build {
    /// Folder with documents
    #[arg(long, value_name = "DOCS", value_hint = ValueHint::DirPath)]
    sources: PathBuf,

    #[command(flatten)]
    cache: CacheArguments,

    /// Pattern of document names, or of paths if it has a slash [default: *.md]
    #[arg(long = "glob", value_name = "PATTERN")]
    globs: Vec<String>,

    /// Skip files that .gitignore excludes
    #[arg(long)]
    gitignore: bool,

    /// Embedding model: none, static:FOLDER, minilm:FOLDER or http://HOST/v1#MODEL
    #[arg(long, value_name = "NAME[:FOLDER]")]
    embedder: Option<String>,

    /// Environment variable with the key of the embedding server
    #[arg(long, value_name = "NAME", requires = "embedder")]
    embedder_key_env: Option<String>,

    #[command(flatten)]
    files: IndexFiles,

    /// Rebuild everything, even if the index is up to date
    #[arg(long)]
    force: bool,

    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    format: AnswerFormat,
}

impl Build {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        let request = IndexRequest {
            folder: Some(self.sources.clone()),
            embedder: self.embedder.clone(),
            embedder_key_env: self.embedder_key_env.clone(),
            rebuild: self.force,
            ..IndexRequest::default()
        };
        let mut rules = FileRules::specified();
        if !self.globs.is_empty() {
            rules.globs = self.globs.clone();
        }
        rules.no_ignore = !self.gitignore;
        let shelf = shelf(&self.cache.cache);
        let built = self.files.build(&request, Some(rules), &shelf, self.format.is_json());
        built.map_err(CliError::specified)
    }
}

/// Find whole documents for a query, within a budget
///
/// The score of a document is the share of its words that are query terms. Documents are taken best first and never truncated;
/// those that do not fit are skipped. Documents without a query term fill the remaining budget.
#[derive(Args, Debug)]
pub(crate) struct Resolve {
    #[command(flatten)]
    cache: CacheArguments,

    /// Query terms; may be empty
    #[arg(long, value_name = "QUERY")]
    query: String,

    /// Token budget; a token is four bytes
    #[arg(long, short, value_name = "N")]
    budget: u64,

    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    format: ResolveFormat,

    /// Documents to explain instead of printing the result; repeatable
    #[arg(long, value_name = "ID|INDEX")]
    explain: Vec<String>,

    /// File for a receipt, with which `pannier replay` repeats the selection
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    receipt: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ResolveFormat {
    /// One line of JSON
    #[default]
    Json,
    /// Indented JSON
    Pretty,
}

impl Resolve {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        self.resolve().map_err(CliError::specified)
    }

    fn resolve(&self) -> Result<(), CliError> {
        let cache = open(&self.cache.cache)?;
        let mut output = Output::new();
        if !self.explain.is_empty() || self.receipt.is_some() {
            self.run_engine(&cache, &mut output)?;
        }
        if self.explain.is_empty() {
            let resolved = cache.resolve(&self.query, self.budget)?;
            match self.format {
                ResolveFormat::Json => output.json(&resolved)?,
                ResolveFormat::Pretty => output.pretty_json(&resolved)?,
            }
        }
        output.finish()
    }

    /// Selects with the engine, which explains the selection and writes receipts.
    fn run_engine(&self, cache: &DocumentIndex, output: &mut Output) -> Result<(), CliError> {
        let items = cache.pool(&self.query)?;
        let tokens = i64::try_from(self.budget).unwrap_or(i64::MAX);
        let budget = ContextBudget::new(tokens, tokens)?;
        let policy = resolve_policy();
        let pipeline = PolicyRegistry::default().pipeline(&policy, None)?;
        if let Some(path) = &self.receipt {
            let selection = pipeline.run(&items, &budget)?;
            let mut config = RunConfig::new(policy);
            config.tokenizer = "bytes/4".to_owned();
            config.source = Some(cache.receipt_source(&self.query));
            let receipt = Receipt::new(&selection, config);
            output::write_json(path, &receipt)?;
        }
        let explained = find_items(&items, &self.explain)?;
        let explanations = explanation::explain(&pipeline, &items, &budget, &explained)?;
        output.text(&explanation::texts(&explanations, false))
    }
}

/// Assemble passages for a query, within a budget
///
/// `docs search` is the same with the settings of the project and other defaults.
#[derive(Args, Debug)]
pub(crate) struct Assemble {
    #[command(flatten)]
    cache: CacheArguments,

    /// Query
    #[arg(long, value_name = "QUERY")]
    query: String,

    /// Token budget of the context
    #[arg(long, short, value_name = "N")]
    budget: usize,

    #[command(flatten)]
    tokenizer: TokenizerArguments,

    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    format: ContextFormat,

    /// Include headings, dates and matched terms (JSON)
    #[arg(long)]
    metadata: bool,

    #[command(flatten)]
    search: QueryOptions,

    #[command(flatten)]
    embedding: QueryEmbedding,

    #[command(flatten)]
    packing: PassageOptions,

    /// Passages to explain instead of printing the context; repeatable
    #[arg(long, value_name = "ID|INDEX")]
    explain: Vec<String>,

    /// File for a receipt, with which `pannier inspect replay` repeats the selection
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
    /// The found passages as items
    Items,
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
        self.assemble().map_err(CliError::specified)
    }

    fn assemble(&self) -> Result<(), CliError> {
        let counter: Arc<dyn TokenCounter> = Arc::from(self.tokenizer.counter()?);
        let shelf = shelf(&self.cache.cache);
        let config = self.config(&shelf)?;
        let mut search = self.search.clone();
        self.embedding.add_to(&mut search)?;
        let cache = shelf.index(None)?;
        let reranker = search.open_reranker(&shelf)?;
        let assembler = Assembler::new(&*cache, config)
            .with_counter(counter)
            .with_reranker(reranker.as_deref());
        let candidates = search.with_vector(&*cache, &shelf, |vector| {
            Ok(assembler.candidates(&self.query, vector)?)
        })?;
        let mut budget = TokenBudget::available(self.budget);
        if let Some(overhead) = self.packing.per_doc_overhead {
            budget.per_doc_overhead = overhead.0;
        }
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
                let budget = budget.context_budget()?;
                let explanations = explanation::explain(&pipeline, &pool, &budget, &indices)?;
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

    fn config(&self, shelf: &Shelf) -> Result<AssemblyConfig, CliError> {
        if let Some(share) = self.packing.near_duplicates
            && !(0.0..=1.0).contains(&share)
        {
            let problem = format!("--dedup-threshold is {share}; it must be from 0 to 1");
            return Err(CliError::Usage(problem));
        }
        let specified = AssemblyConfig::specified();
        let mut config =
            self.packing.config_from(specified, &self.search, shelf, &Control::default())?;
        config.include_metadata = self.metadata;
        Ok(config)
    }

    fn write(
        &self,
        candidates: &Candidates,
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

/// The specification's `inspect --cache`.
#[derive(Args, Debug)]
pub(crate) struct InspectCache {
    /// Folder of the index
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, hide = true)]
    cache: Option<PathBuf>,

    /// Output format
    #[arg(long, short, value_enum, default_value_t, hide = true)]
    format: AnswerFormat,
}

impl InspectCache {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        let Some(cache) = &self.cache else {
            let problem = "name what to inspect, as in `pannier inspect sweep items.jsonl`";
            return Err(CliError::Usage(problem.to_owned()));
        };
        let stats = open(cache).and_then(|cache| Ok(cache.inspect()?));
        let stats = stats.map_err(CliError::specified)?;
        print_stats(&stats, self.format.is_json())
    }
}
