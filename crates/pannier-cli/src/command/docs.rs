//! `pannier build`, `resolve`, `inspect` and `verify`: documents, compiled and found again.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum, ValueHint};
use pannier_core::{ContextBudget, find_item};
use pannier_docs::{
    BuildOptions, DocumentIndex, DocumentSource, Embedder, Hit, Progress, SizeStats, VectorSource,
    resolve_policy,
};
use pannier_policy::{PolicyRegistry, Receipt, RunConfig};
use serde::Serialize;

use super::{AnswerFormat, explanation};
use crate::error::CliError;
use crate::input;
use crate::output::{self, Output};
use crate::table::Table;

/// Where a cache is.
#[derive(Args, Debug)]
pub(crate) struct CacheArguments {
    /// The folder of the cache
    #[arg(long, value_name = "CACHE", value_hint = ValueHint::DirPath)]
    pub(crate) cache: PathBuf,
}

/// Which files of a folder are documents, and what is known about them.
#[derive(Args, Debug)]
pub(crate) struct FileArguments {
    /// Which files are documents: by name, or by path if there is a slash in it [default: *.md]
    #[arg(long = "glob", value_name = "PATTERN")]
    globs: Vec<String>,

    /// Leave out what .gitignore files say
    #[arg(long)]
    gitignore: bool,

    /// What documents are called and when they were written, before what their front matter says: a JSON object, as in
    /// {"guides/deploy.md": {"title": "Deploying", "date": "2026-03-01"}}
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

/// Compile a folder of documents into a cache
///
/// A cache is brought up to date: what has not changed is used again, and if nothing has changed, nothing is written. The
/// present cache stays until the new one is complete.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier build --sources docs --cache .cache/docs
  pannier build --sources . --cache .cache/all --glob '*.md' --glob 'src/**/*.rs' --gitignore
  pannier build --sources docs --cache .cache/docs --embedder minilm:models/all-MiniLM-L6-v2")]
pub(crate) struct Build {
    /// The folder with the documents
    #[arg(long, value_name = "DOCS", value_hint = ValueHint::DirPath)]
    sources: PathBuf,

    #[command(flatten)]
    cache: CacheArguments,

    #[command(flatten)]
    files: FileArguments,

    #[command(flatten)]
    embedder: EmbedderArguments,

    /// Vectors that you have made: lines of {"id": "…", "vector": [0.1, …]}, one for each chunk that `pannier chunks`
    /// prints
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "embedder")]
    vectors: Option<PathBuf>,

    /// Make everything again, even if the cache is up to date
    #[arg(long)]
    force: bool,

    /// How the answer is written
    #[arg(long, short, value_enum, default_value_t)]
    format: AnswerFormat,
}

impl Build {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        let sources = self.files.read(&self.sources)?;
        let is_shown = std::io::stderr().is_terminal();
        let mut last = None;
        let embedder = self.embedder.open()?;
        let given = self.vectors.as_deref().map(input::read_vectors).transpose()?;
        let vectors = match (&embedder, &given) {
            (_, Some(given)) => VectorSource::Imported(given),
            (Some(embedder), None) => VectorSource::Embedder(&**embedder),
            (None, None) if self.embedder.is_said() => VectorSource::None,
            (None, None) => VectorSource::Unspecified,
        };
        let options = BuildOptions { from_scratch: self.force, vectors };
        let built = pannier_docs::build(&sources, &self.cache.cache, &options, &mut |progress| {
            let Progress { done, of, embedded, .. } = progress;
            let percent = (done * 100).checked_div(of).unwrap_or(100);
            if is_shown && last != Some((percent, embedded)) {
                let vectors = match embedded {
                    0 => String::new(),
                    count => format!(", {count} new vectors"),
                };
                // If nobody sees it, nothing is lost.
                let _ =
                    write!(std::io::stderr(), "\r{done} of {of} documents ({percent} %){vectors}");
                last = Some((percent, embedded));
            }
        });
        if last.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
        let built = built?;
        let mut output = Output::new();
        match self.format {
            AnswerFormat::Json => output.json(&built)?,
            AnswerFormat::Text => {
                let (documents, chunks, terms) = (built.documents, built.chunks, built.terms);
                output.text(&match built.is_unchanged {
                    true => format!("{documents} documents, nothing has changed\n"),
                    false => format!(
                        "{documents} documents ({} unchanged), {chunks} chunks, {terms} words{}\n",
                        built.reused,
                        match built.embedded {
                            0 => String::new(),
                            count => format!(", {count} new vectors"),
                        }
                    ),
                })?;
            }
        }
        output.finish()
    }
}

/// Which model makes vectors.
#[derive(Args, Debug)]
pub(crate) struct EmbedderArguments {
    /// What makes vectors: none, static:FOLDER (a table of token vectors) or minilm:FOLDER (all-MiniLM-L6-v2); a folder
    /// has a safetensors file and tokenizer.json
    #[arg(long, value_name = "NAME[:FOLDER]")]
    embedder: Option<String>,
}

impl EmbedderArguments {
    /// Whether anything is said about it.
    fn is_said(&self) -> bool {
        self.embedder.is_some()
    }

    pub(crate) fn open(&self) -> Result<Option<Box<dyn Embedder>>, CliError> {
        Ok(self.embedder.as_deref().map(pannier_embed::open_embedder).transpose()?.flatten())
    }
}

/// Print the chunks of a cache, or those that a cache of a folder would have
///
/// One JSON object a line: its id, path, place, headings and text. What `build --vectors` takes has the same ids.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier chunks --cache .cache/docs | head -3
  pannier chunks --sources docs --glob '*.txt'")]
pub(crate) struct Chunks {
    /// The folder of the cache
    #[arg(long, value_name = "CACHE", value_hint = ValueHint::DirPath, required_unless_present = "sources")]
    cache: Option<PathBuf>,

    /// A folder with documents
    #[arg(long, value_name = "DOCS", value_hint = ValueHint::DirPath, conflicts_with = "cache")]
    sources: Option<PathBuf>,

    #[command(flatten)]
    files: FileArguments,
}

/// A chunk as it is printed.
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

/// Find the documents that answer a query, within a budget
///
/// A document's score is the share of its words that are terms of the query. The best come first, each as a whole, and what
/// does not fit is skipped; documents without any term fill what is left.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier resolve --cache .cache/docs --query 'deploy rollback' --budget 4000
  pannier resolve --cache .cache/docs --query deploy --budget 4000 --explain guides/deploy.md")]
pub(crate) struct Resolve {
    #[command(flatten)]
    cache: CacheArguments,

    /// The words to look for; none is allowed
    #[arg(long, value_name = "QUERY")]
    query: String,

    /// How many tokens there are; a token is four bytes
    #[arg(long, short, value_name = "TOKENS")]
    budget: u64,

    /// How the answer is written
    #[arg(long, short, value_enum, default_value_t)]
    format: ResolveFormat,

    /// Say why a document is in or out, and what would change that, instead of writing documents
    #[arg(long, value_name = "ID|INDEX")]
    explain: Vec<String>,

    /// Write what is needed to make this selection again and verify it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    receipt: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ResolveFormat {
    /// One line of JSON
    #[default]
    Json,
    /// JSON for people
    Pretty,
}

impl Resolve {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        let cache = DocumentIndex::open(&self.cache.cache)?;
        let mut output = Output::new();
        if !self.explain.is_empty() || self.receipt.is_some() {
            self.ask_engine(&cache, &mut output)?;
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

    /// Selects once more, by the engine, which explains and can be replayed.
    fn ask_engine(&self, cache: &DocumentIndex, output: &mut Output) -> Result<(), CliError> {
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
        let explained = self.explain.iter().map(|name| find_item(&items, name));
        let explained: Vec<usize> = explained.collect::<Result<_, _>>()?;
        let answers = pipeline.explain_all(&items, &budget, &explained)?;
        output.text(&explanation::texts(&answers, false))
    }
}

/// Say what is in a cache
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier inspect --cache .cache/docs")]
pub(crate) struct Inspect {
    #[command(flatten)]
    cache: CacheArguments,

    /// How the answer is written
    #[arg(long, short, value_enum, default_value_t)]
    format: AnswerFormat,
}

impl Inspect {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        let cache = DocumentIndex::open(&self.cache.cache)?;
        let inspected = cache.inspect()?;
        let manifest = inspected.manifest;
        let mut output = Output::new();
        match self.format {
            AnswerFormat::Json => output.json(&inspected)?,
            AnswerFormat::Text => {
                let mut table = Table::new(output::width(), 0, &[false, false]);
                let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
                row("version", manifest.version.clone());
                row("documents", manifest.documents.to_string());
                row("bytes", manifest.bytes.to_string());
                row("tokens", inspected.tokens.to_string());
                row("words", format!("{}, {} different", inspected.words, manifest.terms));
                row(
                    "chunks",
                    match &inspected.chunk_bytes {
                        Some(SizeStats { min, median, max, .. }) => {
                            format!(
                                "{}, of {min} to {max} bytes, half below {median}",
                                manifest.chunks
                            )
                        }
                        None => manifest.chunks.to_string(),
                    },
                );
                row("chunking", manifest.chunking.clone());
                let model = manifest.model.as_ref();
                row(
                    "vectors",
                    model.map_or("none".to_owned(), |model| {
                        format!("{}, {} numbers each, {}", model.name, model.dimensions, model.hash)
                    }),
                );
                for (name, file) in &manifest.files {
                    row(&format!("  {name}"), format!("{} bytes", file.bytes));
                }
                output.text(&table.render(false))?;
            }
        }
        output.finish()
    }
}

/// Check every byte of a cache
///
/// Contents are held against their hashes; chunks, index and version are made again and compared. Prints `sound`, or every
/// problem; then the exit code is 5.
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
        let mut output = Output::new();
        if problems.is_empty() {
            output.text("sound\n")?;
            return output.finish();
        }
        for problem in &problems {
            output.text(&format!("{}\n", crate::table::printable(problem)))?;
        }
        output.finish()?;
        Err(CliError::CacheDamaged(problems.len()))
    }
}
