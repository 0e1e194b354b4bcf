//! `pannier select`: selects items.

use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum, ValueHint};
use pannier_core::{
    ContextBudget, ContextItem, DiagnosticTraceCollector, Pipeline, Selection, TraceDetailLevel,
    TraceEvent,
};
use pannier_policy::{Policy, Receipt, RunConfig};

use super::{explanation, find_items, label, table_view};
use crate::arguments::{BudgetArguments, Input, ItemArguments, PolicyArguments};
use crate::error::CliError;
use crate::output::{self, Output};

/// Select the items that fit a budget, in the order to send them
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier select items.jsonl --budget 2000
  pannier select items.jsonl --budget 8000 --reserve 1000 --policy rag --format table
  pannier select items.jsonl --budget 2000 --explain order-1187
  history | pannier select --budget 4000 --format json --receipt run.json")]
pub(crate) struct Select {
    #[command(flatten)]
    items: ItemArguments,

    #[command(flatten)]
    budget: BudgetArguments,

    #[command(flatten)]
    policy: PolicyArguments,

    /// Search terms: the BM25 score of an item counts as much as the whole policy
    #[arg(long, value_name = "TEXT")]
    query: Option<String>,

    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    format: Format,

    /// Items to explain instead of printing the selection; repeatable
    #[arg(long, value_name = "ID|INDEX")]
    explain: Vec<String>,

    /// File for a receipt, with which `pannier replay` repeats the selection
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    receipt: Option<PathBuf>,

    /// Print the duration of each stage on stderr and in the report
    #[arg(long)]
    timings: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The rendered text
    #[default]
    Text,
    /// One line of JSON: the items and totals
    Json,
    /// One line of JSON: every item, in or out, with score and reason
    Report,
    /// A table for people: every item with score and reason, and the budget
    Table,
}

impl Select {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        self.check_receipt()?;
        let budget = self.budget.read()?;
        let policy = self.policy.read()?;
        let policy = match &self.query {
            Some(query) => policy.for_query(query),
            None => policy,
        };
        let pipeline = self.policy.time.pipeline(&policy)?;
        let input = self.items.read()?;
        let (items, pipeline) = (&input.items, input.pipeline_for(pipeline));
        let explained = find_items(items, &self.explain)?;

        let (selection, events) = self.run_pipeline(&pipeline, items, &budget)?;
        warn_about_negative_tokens(items);
        selection.notes().iter().for_each(|note| output::warn(&note.to_string()));
        if let Some(path) = &self.receipt {
            let receipt = Receipt::new(&selection, self.run_config(policy, &input));
            output::write_json(path, &receipt)?;
        }
        let mut output = Output::new();
        if !explained.is_empty() {
            let explanations = explanation::explain(&pipeline, items, &budget, &explained)?;
            match self.format {
                Format::Json | Format::Report => output.json(&explanations)?,
                Format::Text | Format::Table => {
                    output.text(&explanation::texts(&explanations, self.budget.has_target()))?;
                }
            }
            return output.finish();
        }
        match self.format {
            Format::Text => {
                output.text(&input.rendering.template().render(&selection))?;
            }
            Format::Json => output.json(&pannier::SelectionSummary::new(&selection))?,
            Format::Report => output.json(&selection.report_with(events))?,
            Format::Table => {
                let styled = output::is_styled(&std::io::stdout());
                output.text(&table_view::text(&selection, styled))?;
            }
        }
        output.finish()
    }

    /// Rejects a receipt that would overwrite the input.
    fn check_receipt(&self) -> Result<(), CliError> {
        let Some(path) = &self.receipt else {
            return Ok(());
        };
        if path.as_os_str() == "-" {
            let problem = "--receipt needs a file, as in --receipt run.json";
            return Err(CliError::Usage(problem.to_owned()));
        }
        let is_same = |file: &PathBuf| match (file.canonicalize(), path.canonicalize()) {
            (Ok(file), Ok(path)) => file == path,
            _ => file == path,
        };
        if self.items.files.iter().any(is_same) {
            let problem = format!("--receipt would overwrite the items in {}", path.display());
            return Err(CliError::Usage(format!("{problem}; choose another file")));
        }
        Ok(())
    }

    fn run_pipeline<'a>(
        &self,
        pipeline: &Pipeline,
        items: &'a [ContextItem],
        budget: &ContextBudget,
    ) -> Result<(Selection<'a>, Vec<TraceEvent>), CliError> {
        if !self.timings {
            return Ok((pipeline.run(items, budget)?, Vec::new()));
        }
        let start = Instant::now();
        let mut collector =
            DiagnosticTraceCollector::new(TraceDetailLevel::Stage).with_clock(|| start.elapsed());
        let selection = pipeline.run_traced(items, budget, &mut collector)?;
        let events = collector.into_events();
        for event in &events {
            let stage = event.stage.to_string();
            let (duration, count) = (event.duration_ms, event.item_count);
            output::note(&format!("{stage:<12} {duration:>10.3} ms  {count:>8} items"));
        }
        Ok((selection, events))
    }

    fn run_config(&self, policy: Policy, input: &Input) -> RunConfig {
        let mut run_config = RunConfig::new(policy);
        run_config.reference_time = self.policy.time.now;
        run_config.tokenizer = input.rendering.counter().name().to_owned();
        run_config.template = input.rendering.template().clone();
        run_config.budget_scope = input.budget_scope;
        run_config
    }
}

/// Warns about items with negative tokens, which are excluded from every selection.
fn warn_about_negative_tokens(items: &[ContextItem]) {
    let mut invalid = items.iter().enumerate().filter(|(_, item)| item.tokens() < 0);
    if let Some((index, item)) = invalid.next() {
        let (tokens, more) = (item.tokens(), invalid.count());
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        let name = label(index, item);
        output::warn(&format!(
            "{name} has {tokens} tokens and is excluded{more}; count them again"
        ));
    }
}
