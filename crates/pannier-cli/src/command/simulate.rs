//! `pannier simulate`: what other budgets would do.

use std::ops::RangeInclusive;

use clap::{ArgGroup, Args};
use pannier_core::{ContextBudget, ContextItem, Error, Pipeline, find_item};
use serde::Serialize;

use super::{AnswerFormat, label, sum_tokens};
use crate::arguments::{BudgetArguments, ItemArguments, PolicyArguments};
use crate::error::CliError;
use crate::output::{self, Output};
use crate::table::Table;

/// Ask what other budgets would do
#[derive(Args, Debug)]
#[command(
    group = ArgGroup::new("question").args(["marginal", "min_budget_for", "sweep"]).required(true),
    after_help = "\
Examples:
  pannier simulate items.jsonl --budget 2000 --marginal 500
  pannier simulate items.jsonl --min-budget-for order-1187 --ceiling 8000
  pannier simulate items.jsonl --policy rag --sweep --to 8000"
)]
pub(crate) struct Simulate {
    #[command(flatten)]
    items: ItemArguments,

    /// Which items would be lost with so many tokens less
    #[arg(long, value_name = "SLACK", allow_negative_numbers = true)]
    marginal: Option<i64>,

    /// The smallest budget with which an item is selected
    #[arg(long, value_name = "ID|INDEX")]
    min_budget_for: Option<String>,

    /// Where the search for the smallest budget ends [default: four times what all items cost]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true, requires = "min_budget_for")]
    ceiling: Option<i64>,

    /// Try every budget, for policies with shares or counts
    #[arg(long, requires = "min_budget_for")]
    exhaustive: bool,

    /// For every item, the budgets with which it is selected
    #[arg(long)]
    sweep: bool,

    /// The smallest budget of the sweep
    #[arg(
        long,
        value_name = "TOKENS",
        allow_negative_numbers = true,
        requires = "sweep",
        default_value_t = 0
    )]
    from: i64,

    /// The largest budget of the sweep [default: what all items cost]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true, requires = "sweep")]
    to: Option<i64>,

    #[command(flatten)]
    budget: BudgetArguments,

    #[command(flatten)]
    policy: PolicyArguments,

    /// How the answer is written
    #[arg(long, short, value_enum, default_value_t)]
    format: AnswerFormat,
}

impl Simulate {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        let policy = self.policy.read()?;
        let pipeline = self.policy.time.pipeline(&policy)?;
        if let Some(slack) = self.marginal {
            let budget = self.budget.read()?;
            let input = self.items.read()?;
            return self.marginal(&input.bind(pipeline), &input.items, &budget, slack);
        }
        let base = self.budget.base()?;
        let input = self.items.read()?;
        let (items, pipeline) = (&input.items, input.bind(pipeline));
        match &self.min_budget_for {
            Some(name) => self.min_budget_for(&pipeline, items, &base, name),
            None => self.sweep(&pipeline, items, &base),
        }
    }

    fn marginal(
        &self,
        pipeline: &Pipeline,
        items: &[ContextItem],
        budget: &ContextBudget,
        slack: i64,
    ) -> Result<(), CliError> {
        #[derive(Serialize)]
        struct Answer<'a> {
            slack_tokens: i64,
            items: Vec<Entry<'a>>,
        }

        if !(0..=budget.target_tokens()).contains(&slack) {
            let target = budget.target_tokens();
            let problem =
                format!("--marginal is {slack}; it must be from 0 to the target of {target}");
            return Err(CliError::Usage(problem));
        }
        let indices = pipeline.get_marginal_items(items, budget, slack).map_err(|error| {
            instead_of_monotonic(
                error,
                "this policy gives kinds shares of the budget: with less, other items come in, and the \
                 question has no answer; compare two runs with `pannier diff`",
            )
        })?;
        let mut output = Output::new();
        if self.format == AnswerFormat::Json {
            let items = indices.iter().map(|index| Entry::new(*index, &items[*index])).collect();
            output.json(&Answer { slack_tokens: slack, items })?;
            return output.finish();
        }
        let tokens = sum_tokens(indices.iter().map(|index| &items[*index]));
        let count = match indices.len() {
            1 => "1 item".to_owned(),
            count => format!("{count} items"),
        };
        output.text(&format!("With {slack} tokens less, {count} of {tokens} tokens would go\n"))?;
        let mut table = Table::new(output::width(), 2, &[false, true, false]);
        for index in indices {
            let item = &items[index];
            table.row([
                label(index, item),
                format!("{} tokens", item.tokens()),
                item.content().to_owned(),
            ]);
        }
        output.text(&table.render(false))?;
        output.finish()
    }

    fn min_budget_for(
        &self,
        pipeline: &Pipeline,
        items: &[ContextItem],
        base: &ContextBudget,
        name: &str,
    ) -> Result<(), CliError> {
        #[derive(Serialize)]
        struct Answer<'a> {
            #[serde(flatten)]
            item: Entry<'a>,
            ceiling: i64,
            #[serde(skip_serializing_if = "Option::is_none")]
            min_budget: Option<i64>,
        }

        let index = find_item(items, name)?;
        // Slicers that round up, or deal in shares, need more than everything costs.
        let enough = || cost_of_everything(items, base).saturating_mul(4).saturating_add(1_024);
        let ceiling = self.ceiling.unwrap_or_else(enough);
        if ceiling < items[index].tokens() {
            let tokens = items[index].tokens();
            let problem =
                format!("the ceiling of {ceiling} is below the item's own {tokens} tokens");
            return Err(CliError::Usage(format!("{problem}; raise --ceiling")));
        }
        let min_budget = if self.exhaustive {
            pipeline.find_min_budget_for_exhaustively(items, base, index, ceiling)?
        } else {
            pipeline.find_min_budget_for(items, base, index, ceiling).map_err(|error| {
                instead_of_monotonic(
                    error,
                    "this policy gives kinds shares of the budget, or guarantees counts; add \
                     --exhaustive, to try one budget after the other",
                )
            })?
        };
        let mut output = Output::new();
        let item = Entry::new(index, &items[index]);
        match (self.format, min_budget) {
            (AnswerFormat::Json, _) => output.json(&Answer { item, ceiling, min_budget })?,
            (AnswerFormat::Text, Some(tokens)) => output.text(&format!("{tokens}\n"))?,
            (AnswerFormat::Text, None) => output.text(&format!("none up to {ceiling}\n"))?,
        }
        output.finish()
    }

    fn sweep(
        &self,
        pipeline: &Pipeline,
        items: &[ContextItem],
        base: &ContextBudget,
    ) -> Result<(), CliError> {
        #[derive(Serialize)]
        struct Answer<'a> {
            from: i64,
            to: i64,
            items: Vec<Swept<'a>>,
        }

        #[derive(Serialize)]
        struct Swept<'a> {
            #[serde(flatten)]
            item: Entry<'a>,
            budgets: Vec<(i64, i64)>,
        }

        let (from, to) = (self.from, self.to.unwrap_or_else(|| cost_of_everything(items, base)));
        if from < 0 || from > to {
            return Err(CliError::Usage(format!(
                "a sweep from {from} to {to} has no budgets; check --from and --to"
            )));
        }
        let swept = pipeline.budget_sweep(items, base, from..=to).map_err(|error| {
            instead_of_monotonic(
                error,
                "this policy guarantees counts, and there is no sweep for it; ask for one item with \
                 --min-budget-for and --exhaustive",
            )
        })?;
        let mut output = Output::new();
        if self.format == AnswerFormat::Json {
            let items = items.iter().zip(&swept).enumerate().map(|(index, (item, ranges))| Swept {
                item: Entry::new(index, item),
                budgets: ranges.iter().map(|range| (*range.start(), *range.end())).collect(),
            });
            output.json(&Answer { from, to, items: items.collect() })?;
            return output.finish();
        }
        output.text(&plot(items, &swept, from..=to))?;
        output.finish()
    }
}

/// Says what a policy cannot answer in the words of policies, where the engine speaks of its parts.
fn instead_of_monotonic(error: Error, problem: &str) -> CliError {
    match error {
        Error::NotMonotonic { .. } => CliError::Usage(problem.to_owned()),
        error => error.into(),
    }
}

/// An item in an answer.
#[derive(Serialize)]
struct Entry<'a> {
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    tokens: i64,
}

impl<'a> Entry<'a> {
    fn new(index: usize, item: &'a ContextItem) -> Self {
        Self { index, id: item.id(), tokens: item.tokens() }
    }
}

/// A budget that leaves as many tokens as all items cost.
fn cost_of_everything(items: &[ContextItem], base: &ContextBudget) -> i64 {
    let items = items.iter().map(|item| i128::from(item.tokens().max(0))).sum::<i128>();
    let slots = base.reserved_slots().values().map(|tokens| i128::from(*tokens)).sum::<i128>();
    let kept = 1.0 - base.estimation_safety_margin_percent() / 100.0;
    let all = if kept > 0.0 { (items as f64 / kept).ceil() as i128 + 1 } else { items };
    let all = if base.estimation_safety_margin_percent() == 0.0 { items } else { all };
    let all = all + slots + i128::from(base.output_reserve());
    i64::try_from(all).unwrap_or(i64::MAX).min(i64::MAX / 4)
}

/// A line for each item, with a mark for every stretch of budgets: full where it is in with all of them,
/// half where with some. The first and the last budget stand above.
fn plot(
    items: &[ContextItem],
    swept: &[Vec<RangeInclusive<i64>>],
    budgets: RangeInclusive<i64>,
) -> String {
    let (from, to) = (*budgets.start(), *budgets.end());
    // The list of budgets is not cut where no terminal is too narrow for it.
    let (width, room) = (output::width(), output::room());
    let all = i128::from(to) - i128::from(from) + 1;
    let cells = (width / 2).clamp(10, 60).min(all.min(60) as usize) as i64;
    // The budgets of one cell; neighbours share no budget, and together they have all of them.
    let cell = |number: i64| {
        let at =
            |number: i64| (i128::from(from) + all * i128::from(number) / i128::from(cells)) as i64;
        at(number)..=at(number + 1) - 1
    };
    let mut table = Table::new(room, 0, &[false, true, false]);
    let line = (cells as usize).saturating_sub(from.to_string().len() + to.to_string().len() + 2);
    let axis = format!("{from} {} {to}", "─".repeat(line));
    table.row(["item", "tokens", &axis, "in with budgets"].map(str::to_owned));
    for (index, (item, ranges)) in items.iter().zip(swept).enumerate() {
        let mark = |number| {
            let cell: RangeInclusive<i64> = cell(number);
            let within = ranges.iter().map(|range| {
                let (first, last) = (range.start().max(cell.start()), range.end().min(cell.end()));
                (last - first + 1).max(0)
            });
            match within.sum::<i64>() {
                0 => '·',
                some if some == cell.end() - cell.start() + 1 => '█',
                _ => '▒',
            }
        };
        let marks: String = (0..cells).map(mark).collect();
        let told = ranges.iter().map(|range| match (*range.start(), *range.end()) {
            (start, end) if start == end => start.to_string(),
            (start, end) => format!("{start}-{end}"),
        });
        let told =
            if ranges.is_empty() { "none".to_owned() } else { told.collect::<Vec<_>>().join(", ") };
        table.row([label(index, item), item.tokens().to_string(), marks, told]);
    }
    table.render(false)
}
