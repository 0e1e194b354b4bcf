//! `pannier pack`: packs files, folders or items.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueHint};
use pannier::ops::{PackAnswer, PackPool, PackRequest};
use pannier_core::report::{DiagnosticTraceCollector, TraceDetailLevel, TraceEvent};
use pannier_core::{ContextBudget, ContextItem, Explanation, Selection};
use pannier_policy::Receipt;

use serde::Serialize;

use super::{explanation, table_view};
use crate::config;
use crate::error::CliError;
use crate::input::PathArguments;
use crate::output::{self, Output};
use crate::run::{Format, formats, interruptible, with_notes};

/// Pack files, folders or JSON items into a token budget
///
/// Selects the items that fit, and prints them in the order to send them. Files are items of the kind Document. A .json or
/// .jsonl file and standard input hold items, as a JSON array or one per line. An item is an object with a "content".
/// Optional are "tokens", "kind", "source", "priority", "tags", "metadata", "timestamp", "futureRelevanceHint", "pinned",
/// "originalTokens", "id", "group" and "forms". If every item has its tokens, the budget limits their sum. Otherwise it
/// limits the printed text.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier pack docs src/main.rs --budget 8k --query 'how do we roll back?'
  pannier pack items.jsonl --budget 8k --reserve 1k --policy rag --format table
  pannier pack items.jsonl --budget 2k --explain order-1187")]
pub(crate) struct Pack {
    #[command(flatten)]
    paths: PathArguments,

    #[command(flatten)]
    request: PackRequest,

    /// Output format: text, json, jsonl or table
    #[arg(long, short, value_name = "F", default_value = "text", hide_default_value = true,
        value_parser = formats(&[Format::Text, Format::Json, Format::Jsonl, Format::Table]), hide_possible_values = true)]
    format: Format,

    #[command(flatten)]
    records: RecordArguments,
}

/// The files that record a selection.
#[derive(Args, Debug)]
pub(crate) struct RecordArguments {
    /// Print a report to stderr, or write JSON to FILE
    ///
    /// `--report=-` prints the JSON in place of the selection.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "",
        value_parser = OsStringValueParser::new().map(PathBuf::from), value_hint = ValueHint::FilePath)]
    report: Option<PathBuf>,

    /// Write a receipt for later replay
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    receipt: Option<PathBuf>,

    /// List all excluded items in a table or report, not only 20
    #[arg(long, help_heading = "Advanced", hide_short_help = true)]
    all: bool,
}

impl RecordArguments {
    /// Rejects a record that would overwrite the input.
    pub(crate) fn check(&self, inputs: &[PathBuf]) -> Result<(), CliError> {
        if self.receipt.as_ref().is_some_and(|path| path.as_os_str() == "-") {
            let problem = "--receipt needs a file, as in --receipt run.json";
            return Err(CliError::Usage(problem.to_owned()));
        }
        for (flag, path) in [("--report", &self.report), ("--receipt", &self.receipt)] {
            let Some(path) = path else { continue };
            let is_same = |file: &PathBuf| match (file.canonicalize(), path.canonicalize()) {
                (Ok(file), Ok(path)) => file == path,
                _ => file == path,
            };
            if path.as_os_str() != "-" && inputs.iter().any(is_same) {
                let problem = format!("{flag} would overwrite the input {}", path.display());
                return Err(CliError::Usage(format!("{problem}; choose another file")));
            }
        }
        Ok(())
    }

    /// Returns the file for a report; an empty path is standard error, and `-` standard output.
    pub(crate) fn report(&self) -> Option<&PathBuf> {
        self.report.as_ref()
    }

    /// Returns whether a table lists all excluded items.
    pub(crate) fn shows_all(&self) -> bool {
        self.all
    }

    /// Returns the file for a receipt.
    pub(crate) fn receipt(&self) -> Option<&PathBuf> {
        self.receipt.as_ref()
    }

    /// Writes the receipt and the report of a selection, if the user asks for them. Returns whether the report replaces the
    /// selection.
    pub(crate) fn write(
        &self,
        selection: &Selection<'_>,
        receipt: impl FnOnce() -> Receipt,
        output: &mut Output,
    ) -> Result<bool, CliError> {
        if let Some(path) = &self.receipt {
            output::write_json(path, &receipt())?;
        }
        self.write_report(selection, || selection.report(), output)
    }

    /// Prints or writes the report of a selection. Returns whether it replaces the selection.
    pub(crate) fn write_report<T: Serialize>(
        &self,
        selection: &Selection<'_>,
        report: impl FnOnce() -> T,
        output: &mut Output,
    ) -> Result<bool, CliError> {
        match &self.report {
            None => {}
            Some(path) if path.as_os_str().is_empty() => {
                let text =
                    table_view::text(selection, output::is_styled(&std::io::stderr()), self.all);
                // If this fails, there is nowhere left to report it.
                let _ = write!(std::io::stderr(), "{text}");
            }
            Some(path) if path.as_os_str() == "-" => {
                output.json(&report())?;
                return Ok(true);
            }
            Some(path) => output::write_json(path, &report())?,
        }
        Ok(false)
    }
}

impl Pack {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        self.records.check(self.paths.paths())?;
        let shelf = config::shelf()?;
        let mut request = self.request.clone();
        // A missing budget is reported before the items are read.
        request.budget.read(&request.reserves, &shelf)?;
        request.pool.items = self.paths.read()?;
        let mut output = Output::new();
        if !request.explain.is_empty() {
            let names = std::mem::take(&mut request.explain);
            let has_target = request.budget.target.is_some();
            with_notes(interruptible(), |control| {
                let (pool, budget) = request.open(&shelf, control)?;
                let explanations = pool.explain(&names, &budget, control)?;
                Ok(match self.format {
                    Format::Text | Format::Table => {
                        output.text(&explanation::texts(&explanations, has_target))
                    }
                    _ => {
                        let explanations =
                            explanations.into_iter().map(Explanation::into_owned).collect();
                        output.json(&PackAnswer::Explanations { explanations })
                    }
                })
            })??;
            return output.finish();
        }
        let (pool, budget) =
            with_notes(Default::default(), |control| request.open(&shelf, control))?;
        let (selection, events) = select(&pool, &budget)?;
        selection.notes().iter().for_each(|note| output::warn(&note.to_string()));
        if let (None, Some(tokens)) =
            (selection.items().next(), pool.items().iter().map(ContextItem::tokens).min())
        {
            let (items, budget) = (pool.items().len(), budget.target_tokens());
            output::warn(&format!(
                "no item of {items} is selected: the smallest has {tokens} tokens, and {budget} are available; \
                 --report lists the reasons"
            ));
        }
        let is_replaced =
            self.records.write_report(&selection, || selection.report_with(events), &mut output)?;
        if let Some(path) = self.records.receipt() {
            output::write_json(path, &pool.receipt(&selection))?;
        }
        match self.format {
            _ if is_replaced => {}
            Format::Json => output.json(&PackAnswer::new(&pool, &selection))?,
            Format::Jsonl => selection.items().try_for_each(|item| output.json(item))?,
            Format::Table => {
                let styled = output::is_styled(&std::io::stdout());
                output.text(&table_view::text(&selection, styled, self.records.shows_all()))?;
            }
            _ => output.text(&pool.render(&selection))?,
        }
        output.finish()?;
        if self.format != Format::Table {
            output::hint(&table_view::summary(&selection));
        }
        Ok(())
    }
}

/// Runs the pipeline, and prints the duration of each stage if the user asks for details.
fn select<'p>(
    pool: &'p PackPool,
    budget: &ContextBudget,
) -> Result<(Selection<'p>, Vec<TraceEvent>), CliError> {
    if !output::is_verbose() {
        return Ok((pool.pipeline().run(pool.items(), budget)?, Vec::new()));
    }
    let start = Instant::now();
    let mut collector =
        DiagnosticTraceCollector::new(TraceDetailLevel::Stage).with_clock(|| start.elapsed());
    let selection = pool.pipeline().run_traced(pool.items(), budget, &mut collector)?;
    let events = collector.into_events();
    for event in &events {
        let stage = event.stage.to_string();
        let (duration, count) = (event.duration_ms, event.item_count);
        output::note(&format!("{stage:<12} {duration:>10.3} ms  {count:>8} items"));
    }
    Ok((selection, events))
}
