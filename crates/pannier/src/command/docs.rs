//! `pannier build`, `resolve`, `inspect` and `verify`: documents, compiled and found again.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use pannier_core::{Circumstances, ContextBudget, PolicyRegistry, Receipt};
use pannier_docs::{BuildOptions, Cache, Manifest, Progress, Sources, Vectors, resolve_policy};
use serde::Serialize;

use super::{AnswerFormat, explanation};
use crate::arguments::find_item;
use crate::failure::Failure;
use crate::output::{self, Output};
use crate::table::Table;

/// Where a cache is.
#[derive(Args, Debug)]
pub(crate) struct CacheArguments {
    /// The folder of the cache
    #[arg(long, value_name = "CACHE", value_hint = ValueHint::DirPath)]
    pub(crate) cache: PathBuf,
}

/// Compile a folder of documents into a cache
///
/// A cache is brought up to date: what has not changed is used again, and if nothing has changed, nothing is written. The
/// present cache stays until the new one is complete.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier build --sources docs --cache .cache/docs
  pannier build --sources . --cache .cache/all --glob '*.md' --glob 'src/**/*.rs' --gitignore")]
pub(crate) struct Build {
    /// The folder with the documents
    #[arg(long, value_name = "DOCS", value_hint = ValueHint::DirPath)]
    sources: PathBuf,

    #[command(flatten)]
    cache: CacheArguments,

    /// Which files are documents: by name, or by path if there is a slash in it [default: *.md]
    #[arg(long = "glob", value_name = "PATTERN")]
    globs: Vec<String>,

    /// Leave out what .gitignore files say
    #[arg(long)]
    gitignore: bool,

    /// Make everything again, even if the cache is up to date
    #[arg(long)]
    force: bool,

    /// How the answer is written
    #[arg(long, short, value_enum, default_value_t)]
    format: AnswerFormat,
}

impl Build {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let sources =
            Sources::new(&self.sources).patterns(&self.globs).respect_gitignore(self.gitignore);
        let is_shown = std::io::stderr().is_terminal();
        let mut last = None;
        let options = BuildOptions { from_scratch: self.force, vectors: Vectors::Unsaid };
        let built = pannier_docs::build(&sources, &self.cache.cache, &options, &mut |progress| {
            let Progress { done, of, .. } = progress;
            let percent = (done * 100).checked_div(of).unwrap_or(100);
            if is_shown && last != Some(percent) {
                // If nobody sees it, nothing is lost.
                let _ = write!(std::io::stderr(), "\r{done} of {of} documents ({percent} %)");
                last = Some(percent);
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
                        "{documents} documents ({} unchanged), {chunks} chunks, {terms} words\n",
                        built.reused
                    ),
                })?;
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
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let cache = Cache::open(&self.cache.cache)?;
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
    fn ask_engine(&self, cache: &Cache, output: &mut Output) -> Result<(), Failure> {
        let items = cache.pool(&self.query)?;
        let tokens = i64::try_from(self.budget).unwrap_or(i64::MAX);
        let budget = ContextBudget::new(tokens, tokens)?;
        let policy = resolve_policy();
        let pipeline = PolicyRegistry::default().pipeline(&policy, None)?;
        if let Some(path) = &self.receipt {
            let selection = pipeline.run(&items, &budget)?;
            let mut circumstances = Circumstances::new(policy);
            circumstances.tokenizer = "bytes/4".to_owned();
            circumstances.source = Some(cache.receipt_source(&self.query));
            let receipt = Receipt::new(&selection, circumstances);
            output::write_file(path, |file| {
                serde_json::to_writer(&mut *file, &receipt)?;
                file.write_all(b"\n")
            })?;
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

/// What is in a cache.
#[derive(Serialize)]
struct Inspected<'c> {
    #[serde(flatten)]
    manifest: &'c Manifest,
    tokens: u64,
    words: u64,
    chunk_bytes: Option<Spread>,
}

/// The least, the middle and the most.
#[derive(Serialize)]
struct Spread {
    least: u64,
    median: u64,
    most: u64,
}

impl Inspect {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let cache = Cache::open(&self.cache.cache)?;
        let mut sizes = Vec::new();
        for document in 0..cache.len() {
            sizes.extend(cache.chunks(document)?.iter().map(|chunk| chunk.range.len() as u64));
        }
        sizes.sort_unstable();
        let chunk_bytes = match (sizes.first(), sizes.get(sizes.len() / 2), sizes.last()) {
            (Some(&least), Some(&median), Some(&most)) => Some(Spread { least, median, most }),
            _ => None,
        };
        let manifest = cache.manifest();
        let inspected = Inspected {
            manifest,
            tokens: cache.total_tokens(),
            words: cache.total_words(),
            chunk_bytes,
        };
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
                        Some(Spread { least, median, most }) => {
                            format!(
                                "{}, of {least} to {most} bytes, half below {median}",
                                manifest.chunks
                            )
                        }
                        None => manifest.chunks.to_string(),
                    },
                );
                row("chunking", manifest.chunking.clone());
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
    pub(crate) fn run(&self) -> Result<(), Failure> {
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
        Err(Failure::CacheDamaged(problems.len()))
    }
}
