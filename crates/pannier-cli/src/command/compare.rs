//! `pannier compare`: compares policies.

use clap::{Args, ValueHint};
use pannier_core::Pipeline;
use pannier_policy::PolicyRegistry;
use pannier_policy::{ItemStatus, pipeline_sensitivity};

use super::{AnswerFormat, sum_tokens};
use crate::arguments::{BudgetArguments, ItemArguments, TimeArguments};
use crate::error::CliError;
use crate::input;
use crate::output;
use crate::table::Table;

/// Compare the selections of several policies
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier compare items.jsonl --budget 2000 --policy chat --policy rag
  pannier compare items.jsonl --budget 2000 -p mine.toml -p theirs.toml --format json")]
pub(crate) struct Compare {
    #[command(flatten)]
    items: ItemArguments,

    #[command(flatten)]
    budget: BudgetArguments,

    /// Preset, .toml or .json file; at least two
    #[arg(long = "policy", short, value_name = "NAME|FILE", required = true, value_hint = ValueHint::FilePath)]
    policies: Vec<String>,

    #[command(flatten)]
    time: TimeArguments,

    /// Output format; JSON has the full report of every policy
    #[arg(long, short, value_enum, default_value_t)]
    format: AnswerFormat,
}

impl Compare {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        if self.policies.len() < 2 {
            return Err(CliError::Usage(
                "a comparison needs two policies; add another --policy".to_owned(),
            ));
        }
        let budget = self.budget.read()?;
        let registry = PolicyRegistry::default();
        let mut pipelines: Vec<(&str, Pipeline)> = Vec::new();
        for name in &self.policies {
            let policy = input::read_policy(&registry, name)?;
            pipelines.push((name, self.time.pipeline(&policy)?));
        }
        let input = self.items.read()?;
        let pipelines: Vec<(&str, Pipeline)> = pipelines
            .into_iter()
            .map(|(name, pipeline)| (name, input.pipeline_for(pipeline)))
            .collect();
        let variants: Vec<_> = pipelines.iter().map(|(name, pipeline)| (*name, pipeline)).collect();
        let report = pipeline_sensitivity(&input.items, &budget, &variants)?;

        let text = || {
            let width = output::terminal_width();
            let mut variants = Table::new(width, 0, &[false, true, true]);
            for (name, report) in &report.variants {
                let tokens = sum_tokens(report.included.iter().map(|entry| entry.item));
                let items = format!("{} items", report.included.len());
                variants.row([name.clone(), items, format!("{tokens} tokens")]);
            }
            let variants = variants.render(false);
            if report.diffs.is_empty() {
                return format!("{variants}\nAll of them select the same contents.\n");
            }
            let mut table = Table::new(width, 2, &[]);
            let names = report.variants.iter().map(|(name, _)| name.clone());
            table.row(names.chain(["item".to_owned()]));
            for diff in &report.diffs {
                let statuses = diff.statuses.iter().map(|(_, status)| match status {
                    ItemStatus::Included => "in".to_owned(),
                    ItemStatus::Excluded => "out".to_owned(),
                });
                table.row(statuses.chain([diff.content.clone()]));
            }
            format!("{variants}\nSwinging\n{}", table.render(false))
        };
        output::print_answer(self.format.is_json(), || &report, text)
    }
}
