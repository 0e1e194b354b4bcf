//! `pannier eval`: measures quality on labeled data; for developers, and hidden from the help.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand, ValueHint};
use pannier::ops::QueryOptions;
use pannier_docs::eval::{ContextReport, Dataset, EvalOptions, EvalReport};

use super::AnswerFormat;
use crate::arguments::TokenizerArguments;
use crate::error::CliError;
use crate::output;

/// Measure quality on labeled data
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct Eval {
    #[command(subcommand)]
    command: Option<EvalCommand>,

    #[command(flatten)]
    docs: Option<EvalDocs>,
}

#[derive(Debug, Subcommand)]
enum EvalCommand {
    Docs(Box<EvalDocs>),
}

impl Eval {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        match (&self.command, &self.docs) {
            (Some(EvalCommand::Docs(command)), _) => command.run(),
            (None, Some(command)) => command.run(),
            (None, None) => Err(CliError::Usage("name a data set, as in --data DIR".to_owned())),
        }
    }
}

/// Measure retrieval quality on labeled queries
#[derive(Args, Debug)]
struct EvalDocs {
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
