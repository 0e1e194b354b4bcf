//! `pannier docs`: indexes, searches and reads documents.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use pannier::ops::{
    Answer, Bound, Control, Count, ExplainedPassage, FoundPassages, IndexInputs, IndexRequest,
    QueryOptions, ReadRequest, SearchRequest, StatsRequest, VerifyRequest, chunk_sizes,
    open_embedder,
};
use pannier::{Defaults, Shelf};
use pannier_core::{ContextItem, Explanation};
use pannier_docs::{
    DocumentSource, Embedder, FileRules, Hit, IndexStats, LexicalScore, Progress, RerankerScore,
    SemanticScore, SizeStats,
};
use serde::Serialize;

use super::inspect::FormatArguments;
use super::pack::RecordArguments;
use super::{explanation, table_view};
use crate::config;
use crate::error::CliError;
use crate::input;
use crate::output::{self, Output};
use crate::run::{self, Format, formats, interruptible, with_notes};
use crate::table::{Table, printable};

/// Index, search and read documents
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  pannier docs index .
  pannier docs search 'how do we roll back?' --budget 2k
  pannier docs read --path guides/rollback.md")]
pub(crate) enum Docs {
    Index(Box<Index>),
    Search(Box<Search>),
    Read(Box<Read>),
    Chunks(Box<Chunks>),
    Stats(Stats),
    Verify(Verify),
}

impl Docs {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        match self {
            Self::Index(command) => command.run(),
            Self::Search(command) => command.run(),
            Self::Read(command) => command.run(),
            Self::Chunks(command) => command.run(),
            Self::Stats(command) => command.run(),
            Self::Verify(command) => command.run(),
        }
    }
}

/// Build or update the search index of a folder
///
/// Indexes the text files below a folder, without hidden ones and those that .gitignore or .ignore excludes. The index
/// remembers folder and rules: without them, a later build uses the same. Only new and changed documents are written, and
/// the current index stays in use until the new one is complete. Without --index, the index is .pannier/index in the current
/// folder.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier docs index
  pannier docs index docs --glob '*.md' --glob '!drafts/**'
  pannier docs index --embedder minilm:models/all-MiniLM-L6-v2")]
pub(crate) struct Index {
    #[command(flatten)]
    request: IndexRequest,

    #[command(flatten)]
    files: IndexFiles,

    #[command(flatten)]
    format: FormatArguments,
}

/// Files about the documents of an index.
#[derive(Args, Debug)]
pub(super) struct IndexFiles {
    /// JSON file with title and date per path; overrides front matter
    ///
    /// An object, as in {"guides/deploy.md": {"title": "Deploying", "date": "2026-03-01"}}
    #[arg(long, alias = "about", value_name = "FILE", value_hint = ValueHint::FilePath,
        help_heading = "Advanced", hide_short_help = true)]
    metadata: Option<PathBuf>,

    /// File with your own embeddings, one for each chunk of `docs chunks`
    ///
    /// JSON lines, as in {"id": "…", "vector": [0.1, …]}
    #[arg(long, alias = "vectors", value_name = "FILE", value_hint = ValueHint::FilePath,
        conflicts_with = "embedder", help_heading = "Advanced", hide_short_help = true)]
    embeddings: Option<PathBuf>,
}

impl IndexFiles {
    /// Builds an index, with its progress on a terminal, and prints the result.
    pub(super) fn build(
        &self,
        request: &IndexRequest,
        rules: Option<FileRules>,
        shelf: &Shelf,
        is_json: bool,
    ) -> Result<(), CliError> {
        let embeddings = self.embeddings.as_deref().map(input::read_vectors).transpose()?;
        let mut inputs = IndexInputs::default();
        inputs.metadata = self.metadata.as_deref().map(input::read_about).transpose()?;
        (inputs.embeddings, inputs.rules) = (embeddings.as_ref(), rules);
        let shows_progress = std::io::stderr().is_terminal();
        let mut last = None;
        let mut show = |Progress { done, of, embedded, .. }: Progress| {
            let percent = (done * 100).checked_div(of).unwrap_or(100);
            if shows_progress && last != Some((percent, embedded)) {
                let vectors =
                    if embedded == 0 { String::new() } else { format!(", {embedded} new vectors") };
                // Progress is best effort.
                let _ =
                    write!(std::io::stderr(), "\r{done} of {of} documents ({percent} %){vectors}");
                last = Some((percent, embedded));
            }
        };
        let built = request.build(shelf, inputs, &mut show);
        if last.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
        let built = built?;
        output::print_answer(is_json, || &built, || printable(&Answer::text(&built)))
    }
}

impl Index {
    fn run(&self) -> Result<(), CliError> {
        let settings = config::read()?;
        let mut request = self.request.clone();
        if request.glob.is_empty() {
            request.glob = settings.globs;
        }
        let mut defaults: Defaults = settings.defaults;
        // An index further up belongs to the folder there.
        defaults.index = settings.named_index;
        let shelf = Shelf::local().with_defaults(defaults);
        self.files.build(&request, None, &shelf, self.format.format.is_json())
    }
}

/// The embedding model.
#[derive(Args, Clone, Debug)]
pub(crate) struct EmbedderArguments {
    /// Embedding model: none, minilm:FOLDER or URL#MODEL
    ///
    /// `static:FOLDER` is a table of token vectors, `minilm:FOLDER` is all-MiniLM-L6-v2. The folder has a .safetensors file and a
    /// tokenizer.json. `http://HOST/v1#MODEL` is a model on a server with OpenAI's interface.
    #[arg(long, value_name = "MODEL")]
    pub(crate) embedder: Option<String>,

    /// Environment variable with the key of the embedding server
    #[arg(
        long,
        value_name = "NAME",
        requires = "embedder",
        help_heading = "Advanced",
        hide_short_help = true
    )]
    pub(crate) embedder_key_env: Option<String>,
}

impl EmbedderArguments {
    #[cfg_attr(not(feature = "server"), expect(dead_code, reason = "only a server keeps it open"))]
    pub(crate) fn open(&self) -> Result<Option<Box<dyn Embedder>>, CliError> {
        let Some(name) = &self.embedder else { return Ok(None) };
        Ok(open_embedder(name, self.embedder_key_env.as_deref(), None)?)
    }
}

/// The embedding of a query, as a file.
#[derive(Args, Debug)]
pub(crate) struct QueryEmbedding {
    /// File with the embedding of the query, a JSON array
    #[arg(long, alias = "query-vector", value_name = "FILE", value_hint = ValueHint::FilePath,
        conflicts_with = "embedder", help_heading = "Advanced", hide_short_help = true)]
    query_embedding: Option<PathBuf>,
}

impl QueryEmbedding {
    /// Adds the embedding to the options of a search.
    pub(crate) fn add_to(&self, options: &mut QueryOptions) -> Result<(), CliError> {
        options.query_embedding =
            self.query_embedding.as_deref().map(input::read_vector).transpose()?;
        Ok(())
    }
}

/// Print the passages that best match a query
///
/// Searches passages by BM25, and by embeddings if the index has them. Takes the best passages that fit, drops
/// near-duplicates, and prints the passages of each document together, each under its path and lines. The budget limits
/// the printed text; with --format json, the whole answer. Exits with 1 if nothing is found.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier docs search 'how do we roll back a deployment?' --budget 2k
  pannier docs search '\"rolling back\"' --glob 'guides/**' --format json")]
pub(crate) struct Search {
    #[command(flatten)]
    request: SearchRequest,

    #[command(flatten)]
    embedding: QueryEmbedding,

    /// Output format: text, json, or jsonl of all matches
    #[arg(long, short, value_name = "F", default_value = "text", hide_default_value = true,
        value_parser = formats(&[Format::Text, Format::Json, Format::Jsonl]), hide_possible_values = true)]
    format: Format,

    #[command(flatten)]
    records: RecordArguments,
}

/// Returns what the budget bounds in a format.
fn bound(format: Format) -> Bound {
    if format.is_json() { Bound::Answer } else { Bound::Text }
}

impl Search {
    fn run(&self) -> Result<(), CliError> {
        self.records.check(&[])?;
        let shelf = config::shelf()?;
        let mut request = self.request.clone();
        self.embedding.add_to(&mut request.search)?;
        let pool = with_notes(Control::default(), |control| request.open(&shelf, control))?;
        let bound = bound(self.format);
        if !request.explain.is_empty() {
            return with_notes(interruptible(), |control| {
                pool.explain(bound, &request.explain, control, |explained| {
                    print_explained(self.format, &explained)
                })
            })?;
        }
        let mut output = Output::new();
        let (answer, summary, is_reported) = pool.select(bound, |selection, answer| {
            let receipt = || pool.receipt(bound, selection);
            let is_reported = self.records.write(selection, receipt, &mut output)?;
            if selection.is_empty() && !matches!(self.format, Format::Text) {
                output::note(answer.text.trim_end());
            }
            Ok::<_, CliError>((answer, table_view::summary(selection), is_reported))
        })??;
        let FoundPassages { passages, text, .. } = &answer;
        match self.format {
            _ if is_reported => {}
            Format::Json => output.answer(&answer)?,
            Format::Jsonl => {
                let items = pool.candidates().pool(pool.budget())?;
                items.iter().try_for_each(|item| output.json(item))?;
            }
            _ => output.text(text)?,
        }
        finish(output, passages.is_empty(), &summary)
    }
}

/// Print whole documents, by keyword or path
///
/// Documents are taken best first and never truncated; those that do not fit are skipped. The score of a document is that of
/// its best passage. The budget limits the printed text; with --format json, the whole answer. Exits with 1 if nothing is
/// found.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier docs read 'deploy rollback' --budget 4k
  pannier docs read --path guides/rollback.md --format json")]
pub(crate) struct Read {
    #[command(flatten)]
    request: ReadRequest,

    /// Output format: text, json, or jsonl of all matches
    #[arg(long, short, value_name = "F", default_value = "text", hide_default_value = true,
        value_parser = formats(&[Format::Text, Format::Json, Format::Jsonl]), hide_possible_values = true)]
    format: Format,

    #[command(flatten)]
    records: RecordArguments,
}

impl Read {
    fn run(&self) -> Result<(), CliError> {
        self.records.check(&[])?;
        let shelf = config::shelf()?;
        let request = &self.request;
        let pool = with_notes(Control::default(), |control| request.open(&shelf, control))?;
        let bound = bound(self.format);
        if !request.explain.is_empty() {
            return with_notes(interruptible(), |control| {
                let explanations = pool.explain(bound, &request.explain, control)?;
                Ok(print_explanations(self.format, &explanations))
            })?;
        }
        let mut output = Output::new();
        let (answer, summary, is_reported) = pool.select(bound, |selection, answer| {
            let receipt = || pool.receipt(bound, selection);
            let is_reported = self.records.write(selection, receipt, &mut output)?;
            if selection.is_empty() && !matches!(self.format, Format::Text) {
                output::note(answer.text.trim_end());
            }
            Ok::<_, CliError>((answer, table_view::summary(selection), is_reported))
        })??;
        match self.format {
            _ if is_reported => {}
            Format::Json => output.answer(&answer)?,
            Format::Jsonl => pool.items().iter().try_for_each(|item| output.json(item))?,
            _ => output.text(&answer.text)?,
        }
        finish(output, answer.documents.is_empty(), &summary)
    }
}

fn print_explained(
    format: Format,
    explained: &[ExplainedPassage<Explanation<&ContextItem>>],
) -> Result<(), CliError> {
    let mut output = Output::new();
    match format {
        Format::Json => output.answer(&explained)?,
        _ => {
            let texts = explained.iter().map(|passage| {
                let text = explanation::texts(std::slice::from_ref(&passage.explanation), false);
                text + &found_text(passage)
            });
            output.text(&texts.collect::<Vec<_>>().join("\n"))?;
        }
    }
    output.finish()
}

/// Returns how a passage was found: the contribution of each term, by field.
fn found_text(passage: &ExplainedPassage<Explanation<&ContextItem>>) -> String {
    let mut text = String::new();
    if let Some(LexicalScore { rank, score, terms, .. }) = &passage.lexical {
        text.push_str(&format!("\n  Lexical: rank {rank}, BM25 {score:.4}\n"));
        let is_right = &[false, true, true, true, true, true, true];
        let mut table = Table::new(output::terminal_width(), 4, is_right);
        let names = ["term", "text", "path", "symbols", "chunks", "score", "by document"];
        table.row(names.map(str::to_owned));
        for term in terms {
            let times =
                if term.in_query > 1 { format!(" ×{}", term.in_query) } else { String::new() };
            table.row([
                format!("{}{times}", term.term),
                term.count.to_string(),
                term.path.to_string(),
                term.symbols.to_string(),
                term.chunks.to_string(),
                format!("{:.4}", term.score),
                format!("{:.4}", term.document_score),
            ]);
        }
        text.push_str(&table.render(false));
    }
    if let Some(SemanticScore { rank, score, .. }) = &passage.semantic {
        text.push_str(&format!("\n  Semantic: rank {rank}, cosine {score:.4}\n"));
    }
    if let Some(RerankerScore { model, rank, previous_rank, score, .. }) = &passage.reranker {
        let model = printable(model);
        text.push_str(&format!(
            "\n  Reranker: rank {rank} instead of {previous_rank}, score {score:.4} by {model}\n"
        ));
    }
    text
}

fn print_explanations(
    format: Format,
    explanations: &[Explanation<&ContextItem>],
) -> Result<(), CliError> {
    let mut output = Output::new();
    match format {
        Format::Json => output.answer(&explanations)?,
        _ => output.text(&explanation::texts(explanations, false))?,
    }
    output.finish()
}

/// Ends a search: with exit code 1 if nothing was found.
fn finish(output: Output, is_empty: bool, summary: &str) -> Result<(), CliError> {
    let written = output.finish();
    if !is_empty {
        output::hint(summary);
    }
    CliError::check_failed(written, !is_empty)
}

/// Print chunks as JSON Lines
///
/// Prints the chunks of the index, or of a folder, with id, path, location, headings and text. `docs index --embeddings` takes
/// embeddings by these ids.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier docs chunks | head -3
  pannier docs chunks docs --glob '*.txt'")]
pub(crate) struct Chunks {
    /// Folder with documents [default: those of the index]
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    folder: Option<PathBuf>,

    #[arg(long, hide = true, conflicts_with = "folder")]
    sources: Option<PathBuf>,

    #[command(flatten)]
    index: pannier::ops::IndexOptions,

    /// Files of the folder; `!` excludes; repeatable [default: all text]
    #[arg(long = "glob", short, value_name = "GLOB")]
    globs: Vec<String>,

    /// Include hidden files and folders
    #[arg(long)]
    hidden: bool,

    /// Include files that .gitignore or .ignore excludes
    #[arg(long)]
    no_ignore: bool,

    /// Has no effect: ignore files are honored
    #[arg(long, hide = true)]
    gitignore: bool,

    /// JSON file with title and date per path; overrides front matter
    #[arg(long, alias = "about", value_name = "FILE", value_hint = ValueHint::FilePath)]
    metadata: Option<PathBuf>,

    /// Intended size of the folder's chunks, in tokens of four bytes [default: 256]
    #[arg(long, value_name = "N", help_heading = "Advanced", hide_short_help = true)]
    chunk_tokens: Option<Count>,

    /// Maximum size of the folder's chunks [default: twice the intended]
    #[arg(long, value_name = "N", help_heading = "Advanced", hide_short_help = true)]
    max_chunk_tokens: Option<Count>,
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
    fn run(&self) -> Result<(), CliError> {
        let mut output = Output::new();
        let mut print = |chunk: Hit| {
            let Hit { id, path, sequence, range, heading_path, text, .. } = chunk;
            let (start, end) = (range.start, range.end);
            output.json(&PrintedChunk { id, path, sequence, start, end, heading_path, text })
        };
        match self.folder.as_ref().or(self.sources.as_ref()) {
            Some(folder) => {
                let metadata = self.metadata.as_deref().map(input::read_about).transpose()?;
                let mut rules = FileRules::default();
                rules.globs = self.globs.clone();
                (rules.hidden, rules.no_ignore) = (self.hidden, self.no_ignore);
                let source = DocumentSource::new(folder).rules(rules);
                let source = source.metadata(metadata.unwrap_or_default());
                let sizes = chunk_sizes(self.chunk_tokens, self.max_chunk_tokens);
                pannier_docs::for_each_chunk(&source, sizes.unwrap_or_default(), &mut print)?;
            }
            None => {
                for chunk in self.index.open(&config::shelf()?)?.all_chunks()? {
                    print(chunk?)?;
                }
            }
        }
        output.finish()
    }
}

/// Show index statistics
#[derive(Args, Debug)]
pub(crate) struct Stats {
    #[command(flatten)]
    request: StatsRequest,

    #[command(flatten)]
    format: FormatArguments,
}

impl Stats {
    fn run(&self) -> Result<(), CliError> {
        let stats = run::run(self.request.clone(), &config::shelf()?)?;
        print_stats(&stats, self.format.format.is_json())
    }
}

/// Prints statistics.
pub(super) fn print_stats(stats: &IndexStats, is_json: bool) -> Result<(), CliError> {
    output::print_answer(is_json, || stats, || text(stats))
}

fn text(stats: &IndexStats) -> String {
    let manifest = &stats.manifest;
    let mut table = Table::new(output::terminal_width(), 0, &[false, false]);
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    row("version", manifest.version.clone());
    row("documents", manifest.documents.to_string());
    row("bytes", manifest.bytes.to_string());
    row("tokens", stats.tokens.to_string());
    row("words", stats.words.to_string());
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
    let root = &manifest.source.root;
    row("folder", if root.is_empty() { ".".to_owned() } else { root.clone() });
    row("segments", manifest.segments.len().to_string());
    let segments = manifest.segments.iter().flat_map(|segment| &segment.files);
    let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, file) in manifest.files.iter().chain(segments) {
        *sizes.entry(name).or_default() += file.bytes;
    }
    for (name, bytes) in sizes {
        row(&format!("  {name}"), format!("{bytes} bytes"));
    }
    table.render(false)
}

/// Check index integrity
///
/// Checks contents against their hashes, and rebuilds chunks, index and version to compare them. Prints `sound`, or all
/// problems and exits with 5.
#[derive(Args, Debug)]
pub(crate) struct Verify {
    #[command(flatten)]
    request: VerifyRequest,

    #[command(flatten)]
    format: FormatArguments,
}

impl Verify {
    fn run(&self) -> Result<(), CliError> {
        let answer = run::run(self.request.clone(), &config::shelf()?)?;
        let text = || match answer.is_sound {
            true => "sound\n".to_owned(),
            false => printable(&(answer.problems.join("\n") + "\n")),
        };
        output::print_answer(self.format.format.is_json(), || &answer, text)?;
        match answer.problems.len() {
            0 => Ok(()),
            count => Err(CliError::CacheDamaged(count)),
        }
    }
}
