//! `pannier inspect`: questions about selections.

use clap::{Args, Subcommand};
use pannier::ops::{Answer, BudgetRequest, LossRequest, SweepAnswer, SweepRequest, SweptItem};

use super::compare::Compare;
use super::receipts::{Diff, ReplayCommand};
use super::session_trace::TraceSession;
#[cfg(feature = "inspector")]
use super::view::View;
use crate::config;
use crate::error::CliError;
use crate::input::PathArguments;
use crate::output;
use crate::run::{self, Format, formats};
use crate::table::Table;

/// Sweep budgets, compare policies, replay receipts
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    arg_required_else_help = true,
    after_help = "\
Examples:
  pannier inspect sweep items.jsonl --max 8k
  pannier inspect min-budget order-1187 items.jsonl
  pannier inspect replay run.json items.jsonl"
)]
pub(crate) struct Inspect {
    #[command(subcommand)]
    command: Option<InspectCommand>,

    #[command(flatten)]
    cache: super::specified::InspectCache,
}

#[derive(Debug, Subcommand)]
enum InspectCommand {
    Sweep(Sweep),
    MinBudget(MinBudget),
    Loss(Loss),
    Compare(Box<Compare>),
    Replay(Box<ReplayCommand>),
    Diff(Diff),
    Session(Box<TraceSession>),
    #[cfg(feature = "inspector")]
    View(View),
}

impl Inspect {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        match &self.command {
            None => self.cache.run(),
            Some(InspectCommand::Sweep(command)) => command.run(),
            Some(InspectCommand::MinBudget(command)) => command.run(),
            Some(InspectCommand::Loss(command)) => command.run(),
            Some(InspectCommand::Compare(command)) => command.run(),
            Some(InspectCommand::Replay(command)) => command.run(),
            Some(InspectCommand::Diff(command)) => command.run(),
            Some(InspectCommand::Session(command)) => command.run(),
            #[cfg(feature = "inspector")]
            Some(InspectCommand::View(command)) => command.run(),
        }
    }
}

/// The output format of an answer.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct FormatArguments {
    /// Output format: text or json
    #[arg(long, short, value_name = "F", default_value = "text", hide_default_value = true,
        value_parser = formats(&[Format::Text, Format::Json]), hide_possible_values = true)]
    pub(crate) format: Format,
}

/// Show the budgets that select each item
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  pannier inspect sweep items.jsonl --policy rag --max 8k")]
struct Sweep {
    #[command(flatten)]
    paths: PathArguments,

    #[command(flatten)]
    request: SweepRequest,

    #[command(flatten)]
    format: FormatArguments,
}

impl Sweep {
    fn run(&self) -> Result<(), CliError> {
        let mut request = self.request.clone();
        request.pool.items = self.paths.read()?;
        let answer = run::search(request, &config::shelf()?)?;
        output::print_answer(self.format.format.is_json(), || &answer, || sweep_chart(&answer))
    }
}

/// Find the smallest budget that selects an item
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  pannier inspect min-budget order-1187 items.jsonl --max 8k")]
struct MinBudget {
    #[command(flatten)]
    request: BudgetRequest,

    #[command(flatten)]
    paths: PathArguments,

    #[command(flatten)]
    format: FormatArguments,
}

impl MinBudget {
    fn run(&self) -> Result<(), CliError> {
        let mut request = self.request.clone();
        request.pool.items = self.paths.read()?;
        let answer = run::search(request, &config::shelf()?)?;
        output::print_answer(
            self.format.format.is_json(),
            || &answer,
            || answer.text().into_owned(),
        )
    }
}

/// List the items that fewer tokens would drop
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  pannier inspect loss 500 items.jsonl --budget 2k")]
struct Loss {
    #[command(flatten)]
    request: LossRequest,

    #[command(flatten)]
    paths: PathArguments,

    #[command(flatten)]
    format: FormatArguments,
}

impl Loss {
    fn run(&self) -> Result<(), CliError> {
        let shelf = config::shelf()?;
        let mut request = self.request.clone();
        request.budget.read(&request.reserves, &shelf)?;
        request.pool.items = self.paths.read()?;
        let answer = run::run(request, &shelf)?;
        let text = || {
            let total: i128 = answer.items.iter().map(|item| i128::from(item.tokens)).sum();
            let count = match answer.items.len() {
                1 => "1 item".to_owned(),
                count => format!("{count} items"),
            };
            let mut table = Table::new(output::terminal_width(), 2, &[false, true, false]);
            for item in &answer.items {
                table.row([item.label(), format!("{} tokens", item.tokens), item.content.clone()]);
            }
            let (tokens, table) = (answer.tokens, table.render(false));
            format!("With {tokens} tokens less, {count} of {total} tokens would go\n{table}")
        };
        output::print_answer(self.format.format.is_json(), || &answer, text)
    }
}

/// Renders a line for each item, with a cell for each range of budgets: full if the item is selected at all of them, shaded if
/// at some.
fn sweep_chart(answer: &SweepAnswer) -> String {
    let (from, to) = (answer.min, answer.max);
    if from > to {
        return String::new();
    }
    // Without a terminal, the list of budgets is not truncated.
    let (width, line_width) = (output::terminal_width(), output::max_line_width());
    let all = i128::from(to) - i128::from(from) + 1;
    let cells = (width / 2).clamp(10, 60).min(all.min(60) as usize) as i64;
    // The budgets of a cell: a partition of the whole range.
    let start =
        |number: i64| (i128::from(from) + all * i128::from(number) / i128::from(cells)) as i64;
    let mut table = Table::new(line_width, 0, &[false, true, false]);
    let line = (cells as usize).saturating_sub(from.to_string().len() + to.to_string().len() + 2);
    let axis = format!("{from} {} {to}", "─".repeat(line));
    table.row(["item", "tokens", &axis, "in with budgets"].map(str::to_owned));
    for SweptItem { item, budgets, .. } in &answer.items {
        let mark = |number| {
            let (first, last) = (start(number), start(number + 1) - 1);
            let selected =
                budgets.iter().map(|(from, to)| (*to.min(&last) - *from.max(&first) + 1).max(0));
            match selected.sum::<i64>() {
                0 => '·',
                some if some == last - first + 1 => '█',
                _ => '▒',
            }
        };
        let marks: String = (0..cells).map(mark).collect();
        let ranges = budgets.iter().map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        });
        let ranges = ranges.collect::<Vec<_>>().join(", ");
        let ranges = if ranges.is_empty() { "none".to_owned() } else { ranges };
        table.row([item.label(), item.tokens.to_string(), marks, ranges]);
    }
    table.render(false)
}
