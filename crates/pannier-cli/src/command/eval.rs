//! `pannier eval`: measures quality on labeled data and on recorded sessions.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand, ValueHint};
use pannier::ops::{
    Answer, Control, EvalMemoryRequest, EvalSessionsRequest, PassageOptions, QueryOptions, Request,
    SessionText, open_embedder,
};
use pannier_docs::DocsError;
use pannier_docs::eval::{
    ContextReport, Dataset, Difference, EvalOptions, EvalReport, EvalRun, QueryOutcome,
};
use serde::{Deserialize, Serialize};

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
/// to send. The table has the cost relative to sending everything, and the share of names that the agent used next and that
/// were sent. It also counts how often the prompt cache, the budget or a provider's rules were broken.
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
///
/// Builds an index of each data set, runs its queries, and assembles contexts at several budgets. Counts the contexts that have
/// a span which answers the query: an answer or an evidence sentence whole, or half of a function. Several data sets are pooled.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  pannier eval docs --data sets/click --data sets/zod -f json > new.json
  pannier eval docs --data sets/click --data sets/zod --baseline old.json")]
pub(crate) struct EvalDocs {
    /// Folder with docs.jsonl or tree/, queries.jsonl and qrels.tsv; repeatable
    #[arg(long, required = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    data: Vec<PathBuf>,

    /// Folder in which to keep documents and cache [default: temporary]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, hide_short_help = true)]
    keep: Option<PathBuf>,

    /// File with a ranking to measure instead: query, tab, document, best first
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true)]
    run: Option<PathBuf>,

    /// File with contexts to judge instead: JSON Lines of query, budget, tokens and passages
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true, conflicts_with = "run")]
    contexts: Option<PathBuf>,

    /// JSON of an earlier run to compare with, query by query
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    baseline: Option<PathBuf>,

    /// Database to load each data set into, in a collection of its own, instead of a folder
    #[cfg(feature = "postgres")]
    #[arg(long, value_name = "URL", hide = true)]
    index: Option<String>,

    /// Budgets of contexts [default: 200,400,800,1200; for a tree 1000,2000,4000]
    #[arg(long = "budget", short, alias = "budgets", value_name = "N,N", value_delimiter = ',')]
    budgets: Vec<usize>,

    /// Number of queries of each data set [default: all]
    #[arg(long, value_name = "COUNT", hide_short_help = true)]
    queries: Option<usize>,

    #[command(flatten)]
    tokenizer: TokenizerArguments,

    #[command(flatten)]
    search: QueryOptions,

    #[command(flatten)]
    packing: PassageOptions,

    /// Check every query at every seventh budget from 0 to 4,000, not at a sample
    #[arg(long, hide_short_help = true)]
    thorough: bool,

    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    format: AnswerFormat,
}

/// The printed result: means, differences from the baseline, and the outcome of each query.
#[derive(Serialize)]
struct PrintedEval<'r> {
    #[serde(flatten)]
    report: EvalReport,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    differences: Vec<Difference>,
    outcomes: &'r [QueryOutcome],
}

/// The part of an earlier result that is compared.
#[derive(Deserialize)]
struct Baseline {
    outcomes: Vec<QueryOutcome>,
}

impl EvalDocs {
    fn run(&self) -> Result<(), CliError> {
        let baseline = self.baseline.as_deref().map(read_baseline).transpose()?;
        let mut run = EvalRun::default();
        for folder in &self.data {
            let dataset = Dataset::open(folder, self.queries)?;
            run.append(match (&self.run, &self.contexts) {
                (Some(path), _) => dataset.measure_ranking(path)?,
                (None, Some(path)) => {
                    self.in_folder(|folder| dataset.measure_contexts(path, folder))?
                }
                (None, None) => self.measure(&dataset)?,
            });
        }
        let printed = PrintedEval {
            report: run.report(),
            differences: baseline.map_or_else(Vec::new, |before| run.compare(&before.outcomes)),
            outcomes: run.outcomes(),
        };
        output::print_answer(self.format.is_json(), || &printed, || text(&printed))
    }

    fn measure(&self, dataset: &Dataset) -> Result<EvalRun, CliError> {
        let key_env = self.search.embedder_key_env.as_deref();
        let name = self.search.embedder.as_deref();
        let embedder = name.map(|name| open_embedder(name, key_env, None)).transpose()?.flatten();
        let mut options = EvalOptions::new(Arc::from(self.tokenizer.counter()?));
        if let Some(embedder) = embedder.as_deref() {
            options = options.with_embedder(embedder);
        }
        let shelf = config::shelf()?;
        let reranker = self.search.open_reranker(&shelf)?;
        options.reranker = reranker.as_deref();
        options.config = self.packing.config(&self.search, &shelf, &Control::default())?;
        options.budgets.clone_from(&self.budgets);
        options.every_budget = self.thorough;
        Ok(self.in_folder(|folder| self.measure_in(dataset, folder, &options))?)
    }

    /// Works in the folder to keep, or in a temporary one.
    fn in_folder<T>(&self, work: impl FnOnce(&Path) -> T) -> T {
        if let Some(folder) = &self.keep {
            return work(folder);
        }
        let folder = std::env::temp_dir().join(format!("pannier-eval-{}", std::process::id()));
        let result = work(&folder);
        // A leftover folder does no harm.
        let _ = fs::remove_dir_all(&folder);
        result
    }
}

impl EvalDocs {
    #[cfg(feature = "postgres")]
    fn measure_in(
        &self,
        dataset: &Dataset,
        folder: &Path,
        options: &EvalOptions<'_>,
    ) -> Result<EvalRun, DocsError> {
        let Some(address) = &self.index else { return dataset.measure(folder, options) };
        // In a collection of its own: a build removes the documents of others.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("eval-{}-{}", std::process::id(), now.as_nanos());
        let database = pannier_postgres::Database::new(address)?.with_collection(&name)?;
        let measured = dataset.measure_with(folder, options, |source| {
            database.build(source, &options.build, &mut |_| {})?;
            Ok(Arc::new(database.primary_snapshot()?))
        });
        let dropped = database.drop_collection();
        measured.and_then(|measured| dropped.map(|()| measured))
    }

    #[cfg(not(feature = "postgres"))]
    fn measure_in(
        &self,
        dataset: &Dataset,
        folder: &Path,
        options: &EvalOptions<'_>,
    ) -> Result<EvalRun, DocsError> {
        dataset.measure(folder, options)
    }
}

fn read_baseline(path: &Path) -> Result<Baseline, CliError> {
    let text = input::read_text_or_stdin(path, MAX_SESSION_BYTES)?;
    serde_json::from_str(&text).map_err(|error| {
        let path = path.display();
        CliError::Usage(format!(
            "{path} has no outcomes to compare with: {error}; write it by `pannier eval docs -f json`"
        ))
    })
}

fn text(printed: &PrintedEval<'_>) -> String {
    let report = &printed.report;
    let share = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.4}"));
    let mut text = format!(
        "queries          {}\nnDCG@10          {}\nrecall@100       {}\n",
        report.queries,
        share(report.ndcg_at_10),
        share(report.recall_at_100)
    );
    if let Some(contexts) = &report.contexts {
        for (budget, gold) in &contexts.gold_in_context {
            let at = |values: &BTreeMap<usize, Option<f64>>| {
                share(values.get(budget).copied().flatten())
            };
            let document = at(&contexts.document_in_context);
            let (gold, fill) = (share(*gold), at(&contexts.fill_by_budget));
            text.push_str(&format!(
                "at {budget:>5} tokens  gold in context {gold}, document {document}, fill {fill}\n"
            ));
        }
        let ContextReport { contexts: count, overruns, misquoted, odd_fences, .. } = contexts;
        text.push_str(&format!(
            "overruns         {overruns} of {count} contexts\nmisquoted        {misquoted}\nodd fences       {odd_fences}\n"
        ));
        for (name, value) in [
            ("top 3 in first 5", contexts.top3_in_first5),
            ("adjacency", contexts.adjacency),
            ("coverage", contexts.coverage),
        ] {
            text.push_str(&format!("{name:<17}{}\n", share(value)));
        }
    }
    if !printed.differences.is_empty() {
        text.push_str("\ndifference from the baseline, with 95 % of resamples\n");
    }
    for Difference { measure, before, after, interval: [low, high], .. } in &printed.differences {
        let difference = after - before;
        text.push_str(&format!(
            "{measure:<30}{before:.4} to {after:.4}: {difference:+.4} ({low:+.4} to {high:+.4})\n"
        ));
    }
    text
}
