//! `pannier eval`: measures quality on labeled data and on recorded sessions.

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand, ValueHint};
use pannier::ops::{
    Answer, EvalMemoryRequest, EvalSessionsRequest, QueryOptions, Request, SessionText,
};
use pannier_docs::eval::{ContextReport, Dataset, EvalOptions, EvalReport};

use super::AnswerFormat;
use super::inspect::FormatArguments;
use crate::arguments::TokenizerArguments;
use crate::error::CliError;
use crate::{config, input, output, run};

/// The maximum size of a recorded session.
const MAX_SESSION_BYTES: u64 = 1 << 30;

/// Replay recorded sessions, measure search on labeled data
#[derive(Debug, Subcommand)]
pub(crate) enum Eval {
    Docs(Box<EvalDocs>),
    Sessions(Box<EvalSessions>),
    Memory(Box<EvalMemory>),
}

impl Eval {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        match self {
            Self::Docs(command) => command.run(),
            Self::Sessions(command) => command.run(),
            Self::Memory(command) => command.run(),
        }
    }
}

/// Replay recorded agent sessions and measure what policies send
///
/// Cuts each session before every message of the assistant. Each policy gets the history up to there and returns the messages
/// to send. The table has the cost relative to sending everything, the share of names that the agent used next and that were
/// sent, and how often the prompt cache, the budget or a provider's rules were broken.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier eval sessions session.json --budget 16k,24k
  pannier eval sessions *.json --policy balanced --command 'mine=./fit {budget}'")]
pub(crate) struct EvalSessions {
    /// Recorded sessions; `-` is standard input
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,

    #[command(flatten)]
    request: EvalSessionsRequest,

    #[command(flatten)]
    format: FormatArguments,
}

impl EvalSessions {
    fn run(&self) -> Result<(), CliError> {
        let mut request = self.request.clone();
        for path in &self.files {
            let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
            let text = input::read_text_or_stdin(path, MAX_SESSION_BYTES)?;
            request.sessions.push(SessionText { name, text });
        }
        let progress = Progress::default();
        let count = |done, total| progress.show(done, total);
        let control = run::interruptible().on_count(&count);
        let shelf = config::shelf()?;
        let answer = run::with_notes(control, |control| {
            let answer = request.run(&shelf, control);
            progress.clear();
            answer
        })?;
        output::print_answer(
            self.format.format.is_json(),
            || &answer,
            || answer.text().into_owned(),
        )
    }
}

/// Measure how well packets of a project's memory answer
///
/// Asks for every second entry by its title and first words. Counts the packets that have the entry whole or by its decision
/// or lesson, the budgets that keep all whole entries of the next smaller one, and the lines that are not read.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  pannier eval memory . --policy packet-seed")]
pub(crate) struct EvalMemory {
    #[command(flatten)]
    request: EvalMemoryRequest,

    #[command(flatten)]
    format: FormatArguments,
}

impl EvalMemory {
    fn run(&self) -> Result<(), CliError> {
        let shelf = config::shelf()?;
        let answer = run::with_notes(run::interruptible(), |control| {
            self.request.clone().run(&shelf, control)
        })?;
        let text = || answer.text().into_owned();
        output::print_answer(self.format.format.is_json(), || &answer, text)
    }
}

/// A line on a terminal that shows how far a run is.
#[derive(Default)]
struct Progress {
    shown_percent: Cell<Option<usize>>,
}

impl Progress {
    fn show(&self, done: usize, total: usize) {
        let percent = done.saturating_mul(100) / total.max(1);
        if self.shown_percent.replace(Some(percent)) != Some(percent) {
            output::status(&format!("replaying sessions: {done} of {total}"));
        }
    }

    fn clear(&self) {
        if self.shown_percent.take().is_some() {
            output::status("");
        }
    }
}

/// Measure retrieval quality on labeled queries
#[derive(Args, Debug)]
pub(crate) struct EvalDocs {
    /// Folder with docs.jsonl, queries.jsonl and qrels.tsv
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    data: PathBuf,

    /// Folder in which to keep documents and cache [default: temporary]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    keep: Option<PathBuf>,

    /// File with a ranking to measure instead: query, tab, document, best first
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    run: Option<PathBuf>,

    /// Number of queries [default: all]
    #[arg(long, value_name = "COUNT")]
    queries: Option<usize>,

    #[command(flatten)]
    tokenizer: TokenizerArguments,

    #[command(flatten)]
    search: QueryOptions,

    /// Check every query at every seventh budget from 0 to 4,000, not at a sample
    #[arg(long)]
    thorough: bool,

    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    format: AnswerFormat,
}

impl EvalDocs {
    fn run(&self) -> Result<(), CliError> {
        let dataset = Dataset::open(&self.data, self.queries)?;
        let report = match &self.run {
            Some(path) => dataset.measure_ranking(path)?,
            None => self.measure(&dataset)?,
        };
        output::print_answer(self.format.is_json(), || &report, || text(&report))
    }

    fn measure(&self, dataset: &Dataset) -> Result<EvalReport, CliError> {
        let name = self.search.embedder.as_deref();
        let embedder = name.map(pannier_embed::open_embedder).transpose()?.flatten();
        let mut options = EvalOptions::new(Arc::from(self.tokenizer.counter()?));
        options.search = self.search.search();
        options.embedder = embedder.as_deref();
        options.every_budget = self.thorough;
        if let Some(folder) = &self.keep {
            return Ok(dataset.measure(folder, &options)?);
        }
        let folder = std::env::temp_dir().join(format!("pannier-eval-{}", std::process::id()));
        let report = dataset.measure(&folder, &options);
        // A leftover folder does no harm.
        let _ = fs::remove_dir_all(&folder);
        Ok(report?)
    }
}

fn text(report: &EvalReport) -> String {
    let mut text = format!(
        "queries          {}\nnDCG@10          {:.4}\nrecall@100       {:.4}\n",
        report.queries, report.ndcg_at_10, report.recall_at_100
    );
    if let Some(contexts) = &report.contexts {
        for (budget, share) in &contexts.gold_in_context {
            let fill = contexts.fill_by_budget.get(budget).copied().unwrap_or_default();
            text.push_str(&format!(
                "at {budget:>5} tokens  gold in context {share:.4}, fill {fill:.4}\n"
            ));
        }
        let ContextReport { contexts, overruns, top3_in_first5, adjacency, coverage, .. } =
            contexts;
        text.push_str(&format!(
            "overruns         {overruns} of {contexts} contexts\ntop 3 in first 5 {top3_in_first5:.4}\nadjacency        {adjacency:.4}\ncoverage         {coverage:.4}\n"
        ));
    }
    text
}
