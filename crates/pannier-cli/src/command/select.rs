//! `pannier select`: items in, selection out.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum, ValueHint};
use pannier_core::{
    ContextBudget, ContextItem, DiagnosticTraceCollector, Pipeline, Selection, SelectionSummary,
    TraceDetailLevel, TraceEvent, find_item,
};
use pannier_policy::{Policy, Receipt, RunConfig};

use super::{explanation, label, overview};
use crate::arguments::{BudgetArguments, Input, ItemArguments, PolicyArguments};
use crate::error::CliError;
use crate::output::{self, Output};
use crate::table::printable;

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

    /// What you look for: how well the words of an item answer it counts as much as all the policy says
    #[arg(long, value_name = "TEXT")]
    query: Option<String>,

    /// How the selection is written
    #[arg(long, short, value_enum, default_value_t)]
    format: Format,

    /// Say why an item is in or out, and what would change that, instead of writing the selection
    #[arg(long, value_name = "ID|INDEX")]
    explain: Vec<String>,

    /// Write what is needed to make this selection again and verify it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    receipt: Option<PathBuf>,

    /// Say how long each stage took: on stderr, and in the events of a report
    #[arg(long)]
    timings: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The text that is sent: contents with an empty line between them, or as the template says
    #[default]
    Text,
    /// One line of JSON: the items, and totals
    Json,
    /// One line of JSON: every item, in or out, with its score and its reason
    Report,
    /// For people: every item with its score and its reason, and a bar of the budget
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
        let (items, pipeline) = (&input.items, input.bind(pipeline));
        let explained = self.explain.iter().map(|name| find_item(items, name));
        let explained: Vec<usize> = explained.collect::<Result<_, _>>()?;

        let (selection, events) = self.select(&pipeline, items, &budget)?;
        warn_of_invalid(items);
        if let Some(path) = &self.receipt {
            let receipt = Receipt::new(&selection, self.run_config(policy, &input));
            output::write_json(path, &receipt)?;
        }
        let mut output = Output::new();
        if !explained.is_empty() {
            let answers = pipeline.explain_all(items, &budget, &explained)?;
            match self.format {
                Format::Json | Format::Report => output.json(&answers)?,
                Format::Text | Format::Table => {
                    output.text(&explanation::texts(&answers, self.budget.has_target()))?;
                }
            }
            return output.finish();
        }
        match self.format {
            Format::Text => {
                output.text(&input.rendering.template().render(&selection))?;
            }
            Format::Json => output.json(&SelectionSummary::new(&selection))?,
            Format::Report => output.json(&selection.report_with(events))?,
            Format::Table => {
                let styled = output::is_styled(&std::io::stdout());
                output.text(&overview::text(&selection, styled))?;
            }
        }
        output.finish()
    }

    /// Refuses a receipt that would replace what is read.
    fn check_receipt(&self) -> Result<(), CliError> {
        let Some(path) = &self.receipt else {
            return Ok(());
        };
        if path.as_os_str() == "-" {
            let problem = "a receipt goes to a file; name one, as in --receipt run.json";
            return Err(CliError::Usage(problem.to_owned()));
        }
        let same = |file: &PathBuf| match (file.canonicalize(), path.canonicalize()) {
            (Ok(file), Ok(path)) => file == path,
            _ => file == path,
        };
        if self.items.files.iter().any(same) {
            let problem = format!("the receipt would replace the items in {}", path.display());
            return Err(CliError::Usage(format!("{problem}; choose another file")));
        }
        Ok(())
    }

    fn select<'a>(
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
            tell(&format!("{stage:<12} {duration:>10.3} ms  {count:>8} items"));
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

/// Items with negative counts are left out of every selection, and no text says so.
fn warn_of_invalid(items: &[ContextItem]) {
    let mut invalid = items.iter().enumerate().filter(|(_, item)| item.tokens() < 0);
    if let Some((index, item)) = invalid.next() {
        let (tokens, more) = (item.tokens(), invalid.count());
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        let name = label(index, item);
        tell(&format!(
            "warning: {name} has {tokens} tokens and is left out{more}; count them again"
        ));
    }
}

/// Says something beside the data. If nobody hears it, nothing is lost.
pub(super) fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", printable(line));
}
