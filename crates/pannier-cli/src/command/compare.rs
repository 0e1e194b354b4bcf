//! `pannier compare`: compares policies.

use clap::Args;
use pannier::ops::CompareRequest;
use pannier_policy::ItemStatus;

use super::inspect::FormatArguments;
use super::sum_tokens;
use crate::config;
use crate::error::CliError;
use crate::input::PathArguments;
use crate::output;
use crate::run;
use crate::table::Table;

/// Compare policies on the same items
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier inspect compare items.jsonl --budget 2k --policy chat --policy rag
  pannier inspect compare items.jsonl --budget 2k -p mine.toml -p theirs.toml --format json")]
pub(crate) struct Compare {
    #[command(flatten)]
    paths: PathArguments,

    #[command(flatten)]
    request: CompareRequest,

    #[command(flatten)]
    format: FormatArguments,
}

impl Compare {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        if self.request.policies.len() < 2 {
            return Err(CliError::Usage(
                "a comparison needs two policies; add another --policy".to_owned(),
            ));
        }
        let shelf = config::shelf()?;
        let mut request = self.request.clone();
        request.budget.read(&request.reserves, &shelf)?;
        request.pool.items = self.paths.read()?;
        let report = run::run(request, &shelf)?;

        let text = || {
            let width = output::terminal_width();
            let mut variants = Table::new(width, 0, &[false, true, true]);
            for (name, report) in &report.variants {
                let tokens = sum_tokens(report.included.iter().map(|entry| &entry.item));
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
        output::print_answer(self.format.format.is_json(), || &report, text)
    }
}
