//! `pannier build`, `resolve`, `chunks`, `inspect` and `verify`: document indexes.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum, ValueHint};
use pannier_core::ContextBudget;
use pannier_docs::{
    BuildOptions, DocumentIndex, DocumentSource, Embedder, Hit, IndexStats, Progress, SizeStats,
    VectorSource, resolve_policy,
};
use pannier_policy::{PolicyRegistry, Receipt, RunConfig};
use serde::Serialize;

use super::{AnswerFormat, explanation, find_items};
use crate::error::CliError;
use crate::input;
use crate::output::{self, Output};
use crate::table::{Table, printable};

/// The folder of a document cache.
#[derive(Args, Debug)]
pub(crate) struct CacheArguments {
    /// Folder of the cache
    #[arg(long, value_name = "CACHE", value_hint = ValueHint::DirPath)]
    pub(crate) cache: PathBuf,
}

/// The documents of a folder, and their metadata.
#[derive(Args, Debug)]
pub(crate) struct FileArguments {
    /// Pattern of document names, or of paths if it has a slash [default: *.md]
    #[arg(long = "glob", value_name = "PATTERN")]
    globs: Vec<String>,

    /// Skip files that .gitignore excludes
    #[arg(long)]
    gitignore: bool,

    /// JSON file with titles and dates, which override the front matter
    ///
    /// An object, as in {"guides/deploy.md": {"title": "Deploying", "date": "2026-03-01"}}
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    about: Option<PathBuf>,
}

impl FileArguments {
    fn read(&self, folder: &Path) -> Result<DocumentSource, CliError> {
        let sources =
            DocumentSource::new(folder).patterns(&self.globs).respect_gitignore(self.gitignore);
        Ok(match &self.about {
            Some(path) => sources.metadata(input::read_about(path)?),
            None => sources,
        })
    }
}

/// Index a folder of documents
///
/// Builds are incremental: unchanged documents are reused, and nothing is written if nothing has changed. The current cache
/// stays in use until the new one is complete.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier build --sources docs --cache .cache/docs
  pannier build --sources . --cache .cache/all --glob '*.md' --glob 'src/**/*.rs' --gitignore
  pannier build --sources docs --cache .cache/docs --embedder minilm:models/all-MiniLM-L6-v2")]
pub(crate) struct Build {
    /// Folder with documents
    #[arg(long, value_name = "DOCS", value_hint = ValueHint::DirPath)]
    sources: PathBuf,

    #[command(flatten)]
    cache: CacheArguments,

    #[command(flatten)]
    files: FileArguments,

    #[command(flatten)]
    embedder: EmbedderArguments,

    /// File with your own vectors, one for each chunk of `pannier chunks`
    ///
    /// JSON lines, as in {"id": "…", "vector": [0.1, …]}
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "embedder")]
    vectors: Option<PathBuf>,

    /// Rebuild everything, even if the cache is up to date
    #[arg(long)]
    force: bool,

    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    format: AnswerFormat,
}

impl Build {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        let sources = self.files.read(&self.sources)?;
        let shows_progress = std::io::stderr().is_terminal();
        let mut last = None;
        let embedder = self.embedder.open()?;
        let imported = self.vectors.as_deref().map(input::read_vectors).transpose()?;
        let vectors = match (&embedder, &imported) {
            (_, Some(vectors)) => VectorSource::Imported(vectors),
            (Some(embedder), None) => VectorSource::Embedder(&**embedder),
            (None, None) if self.embedder.is_set() => VectorSource::None,
            (None, None) => VectorSource::Unspecified,
        };
        let options = BuildOptions { from_scratch: self.force, vectors };
        let built = pannier_docs::build(&sources, &self.cache.cache, &options, &mut |progress| {
            let Progress { done, of, embedded, .. } = progress;
            let percent = (done * 100).checked_div(of).unwrap_or(100);
            if shows_progress && last != Some((percent, embedded)) {
                let vectors = new_vectors(embedded);
                // Progress is best effort.
                let _ =
                    write!(std::io::stderr(), "\r{done} of {of} documents ({percent} %){vectors}");
                last = Some((percent, embedded));
            }
        });
        if last.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
        let built = built?;
        let text = || {
            let (documents, chunks, terms) = (built.documents, built.chunks, built.terms);
            match built.is_unchanged {
                true => format!("{documents} documents, nothing has changed\n"),
                false => format!(
                    "{documents} documents ({} unchanged), {chunks} chunks, {terms} words{}\n",
                    built.reused,
                    new_vectors(built.embedded)
                ),
            }
        };
        output::print_answer(self.format.is_json(), || &built, text)
    }
}

/// The embedding model.
fn new_vectors(count: u64) -> String {
    if count == 0 { String::new() } else { format!(", {count} new vectors") }
}

#[derive(Args, Debug)]
pub(crate) struct EmbedderArguments {
    /// Embedding model: none, static:FOLDER or minilm:FOLDER
    ///
    /// `static` is a table of token vectors, `minilm` is all-MiniLM-L6-v2. The folder has a .safetensors file and a
    /// tokenizer.json.
    #[arg(long, value_name = "NAME[:FOLDER]")]
    embedder: Option<String>,
}

impl EmbedderArguments {
    /// Returns whether the option is set.
    fn is_set(&self) -> bool {
        self.embedder.is_some()
    }

    pub(crate) fn open(&self) -> Result<Option<Box<dyn Embedder>>, CliError> {
        Ok(self.embedder.as_deref().map(pannier_embed::open_embedder).transpose()?.flatten())
    }
}

/// Print the chunks of a cache or of a folder
///
/// Prints one JSON object per line with id, path, location, headings and text. `build --vectors` takes vectors by these ids.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier chunks --cache .cache/docs | head -3
  pannier chunks --sources docs --glob '*.txt'")]
pub(crate) struct Chunks {
    /// Folder of the cache
    #[arg(long, value_name = "CACHE", value_hint = ValueHint::DirPath, required_unless_present = "sources")]
    cache: Option<PathBuf>,

    /// Folder with documents
    #[arg(long, value_name = "DOCS", value_hint = ValueHint::DirPath, conflicts_with = "cache")]
    sources: Option<PathBuf>,

    #[command(flatten)]
    files: FileArguments,
}

/// A printed chunk.
#[derive(Serialize)]
struct PrintedChunk {
    id: String,
    path: String,
    sequence: u32,
    start: usize,
    end: usize,
    #[serde(rename = "context")]
    heading_path: String,
    text: String,
}

impl Chunks {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        let mut output = Output::new();
        let mut print = |chunk: Hit| {
            let Hit { id, path, sequence, range, heading_path, text, .. } = chunk;
            let (start, end) = (range.start, range.end);
            output.json(&PrintedChunk { id, path, sequence, start, end, heading_path, text })
        };
        if let Some(folder) = &self.sources {
            pannier_docs::for_each_chunk(&self.files.read(folder)?, &mut print)?;
        }
        if let Some(cache) = &self.cache {
            for chunk in DocumentIndex::open(cache)?.all_chunks()? {
                print(chunk?)?;
            }
        }
        output.finish()
    }
}

/// Find whole documents for a query, within a budget
///
/// The score of a document is the share of its words that are query terms. Documents are taken best first and never truncated;
/// those that do not fit are skipped. Documents without a query term fill the remaining budget.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier resolve --cache .cache/docs --query 'deploy rollback' --budget 4000
  pannier resolve --cache .cache/docs --query deploy --budget 4000 --explain guides/deploy.md")]
pub(crate) struct Resolve {
    #[command(flatten)]
    cache: CacheArguments,

    /// Query terms; may be empty
    #[arg(long, value_name = "QUERY")]
    query: String,

    /// Token budget; a token is four bytes
    #[arg(long, short, value_name = "TOKENS")]
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
        let cache = DocumentIndex::open(&self.cache.cache)?;
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

/// The specification's `inspect --cache`.
#[derive(Args, Debug)]
pub(crate) struct InspectCache {
    /// Folder of the index
    #[arg(long, value_name = "CACHE", value_hint = ValueHint::DirPath, hide = true)]
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
        let cache = DocumentIndex::open(cache)?;
        let stats = cache.inspect()?;
        output::print_answer(self.format.is_json(), || &stats, || text(&stats))
    }
}

fn text(stats: &IndexStats<'_>) -> String {
    let manifest = stats.manifest;
    let mut table = Table::new(output::terminal_width(), 0, &[false, false]);
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    row("version", manifest.version.clone());
    row("documents", manifest.documents.to_string());
    row("bytes", manifest.bytes.to_string());
    row("tokens", stats.tokens.to_string());
    row("words", format!("{}, {} different", stats.words, manifest.terms));
    let sizes =
        stats.chunk_bytes.map_or_else(String::new, |SizeStats { min, median, max, .. }| {
            format!(", of {min} to {max} bytes, half below {median}")
        });
    row("chunks", format!("{}{sizes}", manifest.chunks));
    row("chunking", manifest.chunking.clone());
    let model = manifest
        .model
        .as_ref()
        .map(|model| format!("{}, {} numbers each, {}", model.name, model.dimensions, model.hash));
    row("vectors", model.unwrap_or_else(|| "none".to_owned()));
    for (name, file) in &manifest.files {
        row(&format!("  {name}"), format!("{} bytes", file.bytes));
    }
    table.render(false)
}

/// Verify every byte of a cache
///
/// Checks contents against their hashes, and rebuilds chunks, index and version to compare them. Prints `sound`, or all
/// problems and exits with 5.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier verify --cache .cache/docs")]
pub(crate) struct Verify {
    #[command(flatten)]
    cache: CacheArguments,
}

impl Verify {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        let problems = pannier_docs::verify(&self.cache.cache)?;
        if problems.is_empty() {
            return output::print("sound\n");
        }
        output::print(&printable(&(problems.join("\n") + "\n")))?;
        Err(CliError::CacheDamaged(problems.len()))
    }
}
