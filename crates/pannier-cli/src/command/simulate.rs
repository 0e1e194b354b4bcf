//! `pannier simulate`: selections at other budgets.

use std::ops::RangeInclusive;

use clap::{ArgGroup, Args};
use pannier_core::{ContextBudget, ContextItem, Error, Pipeline, find_item};
use serde::Serialize;

use super::{AnswerFormat, label, sum_tokens};
use crate::arguments::{BudgetArguments, ItemArguments, PolicyArguments};
use crate::error::CliError;
use crate::output;
use crate::table::Table;

/// Simulate other budgets
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

    /// Tokens to remove from the budget; prints the items that would be dropped
    #[arg(long, value_name = "SLACK", allow_negative_numbers = true)]
    marginal: Option<i64>,

    /// Item whose smallest sufficient budget to find
    #[arg(long, value_name = "ID|INDEX")]
    min_budget_for: Option<String>,

    /// Largest budget to search [default: four times the tokens of all items]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true, requires = "min_budget_for")]
    ceiling: Option<i64>,

    /// Try every budget; for policies with quotas or counts
    #[arg(long, requires = "min_budget_for")]
    exhaustive: bool,

    /// Print for every item the budgets at which it is selected
    #[arg(long)]
    sweep: bool,

    /// Smallest budget of the sweep
    #[arg(
        long,
        value_name = "TOKENS",
        allow_negative_numbers = true,
        requires = "sweep",
        default_value_t = 0
    )]
    from: i64,

    /// Largest budget of the sweep [default: the tokens of all items]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true, requires = "sweep")]
    to: Option<i64>,

    #[command(flatten)]
    budget: BudgetArguments,

    #[command(flatten)]
    policy: PolicyArguments,

    /// Output format
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
            return self.marginal(&input.pipeline_for(pipeline), &input.items, &budget, slack);
        }
        let base = self.budget.base()?;
        let input = self.items.read()?;
        let (items, pipeline) = (&input.items, input.pipeline_for(pipeline));
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
            rephrase_not_monotonic(
                error,
                "this policy has quotas: with a smaller budget other items may come in, so --marginal has no answer; \
                 compare two runs with `pannier diff`",
            )
        })?;
        let answer = || {
            let items = indices.iter().map(|index| Entry::new(*index, &items[*index])).collect();
            Answer { slack_tokens: slack, items }
        };
        let text = || {
            let tokens = sum_tokens(indices.iter().map(|index| &items[*index]));
            let count = match indices.len() {
                1 => "1 item".to_owned(),
                count => format!("{count} items"),
            };
            let mut table = Table::new(output::terminal_width(), 2, &[false, true, false]);
            for index in &indices {
                let item = &items[*index];
                let tokens = format!("{} tokens", item.tokens());
                table.row([label(*index, item), tokens, item.content().to_owned()]);
            }
            let table = table.render(false);
            format!("With {slack} tokens less, {count} of {tokens} tokens would go\n{table}")
        };
        output::print_answer(self.format.is_json(), answer, text)
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
        // Slicers with buckets or quotas need more than the sum of all items.
        let default_ceiling = || total_cost(items, base).saturating_mul(4).saturating_add(1_024);
        let ceiling = self.ceiling.unwrap_or_else(default_ceiling);
        if ceiling < items[index].tokens() {
            let tokens = items[index].tokens();
            let problem = format!("--ceiling is {ceiling}, below the item's {tokens} tokens");
            return Err(CliError::Usage(format!("{problem}; raise it")));
        }
        let min_budget = if self.exhaustive {
            pipeline.find_min_budget_for_exhaustively(items, base, index, ceiling)?
        } else {
            pipeline.find_min_budget_for(items, base, index, ceiling).map_err(|error| {
                rephrase_not_monotonic(
                    error,
                    "this policy has quotas or required counts; add --exhaustive to try every budget",
                )
            })?
        };
        let item = Entry::new(index, &items[index]);
        let text = || match min_budget {
            Some(tokens) => format!("{tokens}\n"),
            None => format!("none up to {ceiling}\n"),
        };
        let answer = || Answer { item, ceiling, min_budget };
        output::print_answer(self.format.is_json(), answer, text)
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

        let (from, to) = (self.from, self.to.unwrap_or_else(|| total_cost(items, base)));
        if from < 0 || from > to {
            return Err(CliError::Usage(format!(
                "--from is {from} and --to is {to}; --from must be 0 or more, and not above --to"
            )));
        }
        let swept = pipeline.budget_sweep(items, base, from..=to).map_err(|error| {
            rephrase_not_monotonic(
                error,
                "this policy has required counts, for which there is no sweep; use --min-budget-for with \
                 --exhaustive for one item",
            )
        })?;
        let answer = || {
            let items = items.iter().zip(&swept).enumerate().map(|(index, (item, ranges))| Swept {
                item: Entry::new(index, item),
                budgets: ranges.iter().map(|range| (*range.start(), *range.end())).collect(),
            });
            Answer { from, to, items: items.collect() }
        };
        let text = || sweep_chart(items, &swept, from..=to);
        output::print_answer(self.format.is_json(), answer, text)
    }
}

/// Replaces the engine's error about a slicer by one about the policy.
fn rephrase_not_monotonic(error: Error, problem: &str) -> CliError {
    match error {
        Error::NotMonotonic { .. } => CliError::Usage(problem.to_owned()),
        error => error.into(),
    }
}

/// An item in the output.
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

/// Returns the smallest window whose target holds all items.
fn total_cost(items: &[ContextItem], base: &ContextBudget) -> i64 {
    let items = items.iter().map(|item| i128::from(item.tokens().max(0))).sum::<i128>();
    let slots = base.reserved_slots().values().map(|tokens| i128::from(*tokens)).sum::<i128>();
    let kept = 1.0 - base.estimation_safety_margin_percent() / 100.0;
    let all = if kept > 0.0 { (items as f64 / kept).ceil() as i128 + 1 } else { items };
    let all = if base.estimation_safety_margin_percent() == 0.0 { items } else { all };
    let all = all + slots + i128::from(base.output_reserve());
    i64::try_from(all).unwrap_or(i64::MAX).min(i64::MAX / 4)
}

/// Renders a line for each item, with a cell for each range of budgets: full if the item is selected at all of them, shaded if
/// at some.
fn sweep_chart(
    items: &[ContextItem],
    swept: &[Vec<RangeInclusive<i64>>],
    budgets: RangeInclusive<i64>,
) -> String {
    let (from, to) = (*budgets.start(), *budgets.end());
    // Without a terminal, the list of budgets is not truncated.
    let (width, line_width) = (output::terminal_width(), output::max_line_width());
    let all = i128::from(to) - i128::from(from) + 1;
    let cells = (width / 2).clamp(10, 60).min(all.min(60) as usize) as i64;
    // The budgets of a cell: a partition of the whole range.
    let cell = |number: i64| {
        let start =
            |number: i64| (i128::from(from) + all * i128::from(number) / i128::from(cells)) as i64;
        start(number)..=start(number + 1) - 1
    };
    let mut table = Table::new(line_width, 0, &[false, true, false]);
    let line = (cells as usize).saturating_sub(from.to_string().len() + to.to_string().len() + 2);
    let axis = format!("{from} {} {to}", "─".repeat(line));
    table.row(["item", "tokens", &axis, "in with budgets"].map(str::to_owned));
    for (index, (item, ranges)) in items.iter().zip(swept).enumerate() {
        let mark = |number| {
            let cell: RangeInclusive<i64> = cell(number);
            let selected = ranges.iter().map(|range| {
                let (first, last) = (range.start().max(cell.start()), range.end().min(cell.end()));
                (last - first + 1).max(0)
            });
            match selected.sum::<i64>() {
                0 => '·',
                some if some == cell.end() - cell.start() + 1 => '█',
                _ => '▒',
            }
        };
        let marks: String = (0..cells).map(mark).collect();
        let budgets = ranges.iter().map(|range| match (*range.start(), *range.end()) {
            (start, end) if start == end => start.to_string(),
            (start, end) => format!("{start}-{end}"),
        });
        let budgets = if ranges.is_empty() {
            "none".to_owned()
        } else {
            budgets.collect::<Vec<_>>().join(", ")
        };
        table.row([label(index, item), item.tokens().to_string(), marks, budgets]);
    }
    table.render(false)
}
