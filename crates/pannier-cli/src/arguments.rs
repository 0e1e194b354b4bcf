//! What can be asked for. Help, completions and the manual derive from what is declared here and beside
//! each command.

use std::path::PathBuf;
use std::sync::Arc;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, ValueHint};
use pannier_core::{
    ContextBudget, ContextItem, ContextKind, Pipeline, Timestamp, TokenCounter, UncountedItem,
};
use pannier_layout::TextLayout;
use pannier_policy::{BudgetScope, Policy, PolicyRegistry};

use crate::command::Command;
use crate::error::{CliError, EXIT_CODES};
use crate::input;

/// Packs the right context into a model's window.
///
/// Pannier takes candidate items (messages, documents, memories, tool outputs) and a token budget, and returns
/// the best selection that fits, in the right order, with the reason for every item that is in and every item
/// that is out. The same input gives the same bytes, every time.
#[derive(Debug, Parser)]
#[command(
    name = "pannier",
    version,
    styles = styles(),
    after_long_help = exit_codes(),
    after_help = "Start with: pannier select items.jsonl --budget 2000 --format table",
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

fn styles() -> Styles {
    let heading = AnsiColor::Green.on_default().bold();
    Styles::styled()
        .header(heading)
        .usage(heading)
        .literal(AnsiColor::Cyan.on_default().bold())
        .placeholder(AnsiColor::Cyan.on_default())
}

/// The exit codes, as help and manual tell them.
fn exit_codes() -> String {
    let mut text = "Exit codes:\n  0  done; an empty selection is a result, too".to_owned();
    for (_, code, description) in EXIT_CODES {
        text.push_str(&format!("\n  {code}  {description}"));
    }
    text
}

/// The items to choose from.
#[derive(Args, Debug)]
pub(crate) struct ItemArguments {
    /// Files with items: one JSON object a line, or one JSON array [default: standard input]
    ///
    /// An item has a "content", and may have "tokens", "kind", "source", "priority", "tags", "metadata",
    /// "timestamp", "futureRelevanceHint", "pinned", "originalTokens", "id", "group" and "shortForm". Where "tokens" is
    /// absent, --tokenizer counts. As soon as anything is counted, the text that is sent is, too, and the budget
    /// bounds it.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    tokenizer: TokenizerArguments,

    /// How the text is made of the items: a .toml or .json file with `before`, `item`, `separator`, `after`
    /// and `kinds` [default: contents, with an empty line between them]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    template: Option<PathBuf>,
}

/// The items of a run, and how they become a text.
pub(crate) struct Input {
    pub(crate) items: Vec<ContextItem>,
    pub(crate) rendering: TextLayout,
    pub(crate) budget_scope: BudgetScope,
}

impl Input {
    /// The pipeline that selects from these items.
    pub(crate) fn bind(&self, pipeline: Pipeline) -> Pipeline {
        match self.budget_scope {
            BudgetScope::Text => pipeline.with_layout(self.rendering.clone()),
            _ => pipeline,
        }
    }
}

impl ItemArguments {
    pub(crate) fn read(&self) -> Result<Input, CliError> {
        let counter: Arc<dyn TokenCounter> = Arc::from(self.tokenizer.counter()?);
        let template = self.template.as_deref().map(input::read_template).transpose()?;
        let items = input::read_items(&self.files)?;
        // If all counts are the caller's, they are all there is. As soon as anything is counted here, what is
        // sent is, too.
        let is_given = !self.tokenizer.is_named()
            && template.is_none()
            && items.iter().all(UncountedItem::is_counted);
        let budget_scope = if is_given { BudgetScope::Items } else { BudgetScope::Text };
        let items = UncountedItem::count(items, &*counter);
        let rendering = TextLayout::new(template.unwrap_or_default(), counter);
        Ok(Input { items, rendering, budget_scope })
    }
}

/// What counts tokens.
#[derive(Args, Debug)]
pub(crate) struct TokenizerArguments {
    /// What counts tokens: a model or an encoding (see `pannier tokens list`), or file:PATH [default: bytes/4, unless a
    /// chat's model or an index says otherwise]
    #[arg(long, value_name = "NAME")]
    tokenizer: Option<String>,
}

impl TokenizerArguments {
    /// Whether it is asked for.
    pub(crate) fn is_named(&self) -> bool {
        self.tokenizer.is_some()
    }

    pub(crate) fn counter(&self) -> Result<Box<dyn TokenCounter>, CliError> {
        Ok(pannier_tokens::counter_by_name(self.tokenizer.as_deref().unwrap_or("bytes/4"))?)
    }
}

/// Which policy, and what time it is.
#[derive(Args, Debug)]
pub(crate) struct PolicyArguments {
    /// A preset (see `pannier policy list`), or a .toml or .json file
    #[arg(long, short, value_name = "NAME|FILE", default_value = "chat", value_hint = ValueHint::FilePath)]
    pub(crate) policy: String,

    #[command(flatten)]
    pub(crate) time: TimeArguments,
}

/// What time it is.
#[derive(Args, Debug)]
pub(crate) struct TimeArguments {
    /// What time it is, for policies that measure age and do not say: 2026-03-01T12:00:00Z
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<Timestamp>,
}

impl TimeArguments {
    pub(crate) fn pipeline(&self, policy: &Policy) -> Result<Pipeline, CliError> {
        Ok(PolicyRegistry::default().pipeline(policy, self.now)?)
    }
}

impl PolicyArguments {
    pub(crate) fn read(&self) -> Result<Policy, CliError> {
        input::read_policy(&PolicyRegistry::default(), &self.policy)
    }
}

/// How many tokens there are.
#[derive(Args, Debug)]
pub(crate) struct BudgetArguments {
    /// Tokens in all: the window, of which everything else is taken
    #[arg(
        long,
        short,
        value_name = "TOKENS",
        conflicts_with = "max_tokens",
        allow_negative_numbers = true
    )]
    budget: Option<i64>,

    /// The model's window; the same as --budget
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    max_tokens: Option<i64>,

    /// What the selection aims for [default: the window less the reserve]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    target: Option<i64>,

    #[command(flatten)]
    reserves: ReserveArguments,
}

/// What is taken off a budget.
#[derive(Args, Debug)]
pub(crate) struct ReserveArguments {
    /// Tokens of the window that are kept for the model's answer
    #[arg(long, value_name = "TOKENS", default_value_t = 0, allow_negative_numbers = true)]
    reserve: i64,

    /// A safety margin for estimated token counts, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, allow_negative_numbers = true)]
    margin: f64,

    /// Tokens kept free for items of a kind that you will add yourself
    #[arg(long = "slot", value_name = "KIND=TOKENS", value_parser = slot)]
    slots: Vec<(ContextKind, i64)>,
}

fn slot(text: &str) -> Result<(ContextKind, i64), String> {
    let form = "write a kind and its tokens, as in Document=500";
    let (kind, tokens) = text.split_once('=').ok_or(form)?;
    let kind = ContextKind::new(kind).map_err(|error| error.to_string())?;
    let tokens = tokens.parse().map_err(|_| form)?;
    Ok((kind, tokens))
}

impl ReserveArguments {
    /// A budget of this window, and of this target if it is not the rest.
    pub(crate) fn budget(
        &self,
        window: i64,
        target: Option<i64>,
    ) -> Result<ContextBudget, CliError> {
        let target = target.unwrap_or_else(|| window.saturating_sub(self.reserve).max(0));
        let mut budget = ContextBudget::builder(window, target)
            .output_reserve(self.reserve)
            .estimation_safety_margin_percent(self.margin);
        for (i, (kind, tokens)) in self.slots.iter().enumerate() {
            if self.slots[..i].iter().any(|(other, _)| other == kind) {
                return Err(CliError::Usage(format!("--slot {kind} is given twice; give it once")));
            }
            budget = budget.reserved_slot(kind.clone(), *tokens);
        }
        Ok(budget.build()?)
    }
}

impl BudgetArguments {
    pub(crate) fn read(&self) -> Result<ContextBudget, CliError> {
        let window = self.window().ok_or_else(|| {
            let problem = "there is no budget; add --budget TOKENS, as in --budget 2000";
            CliError::Usage(problem.to_owned())
        })?;
        self.reserves.budget(window, self.target)
    }

    /// Whether the target was given, and so does not follow from the window.
    pub(crate) fn has_target(&self) -> bool {
        self.target.is_some()
    }

    fn window(&self) -> Option<i64> {
        self.budget.or(self.max_tokens).or(self.target)
    }

    /// What is taken off, for questions that bring their own sizes.
    pub(crate) fn base(&self) -> Result<ContextBudget, CliError> {
        if self.window().is_some() {
            let problem =
                "this question tries many budgets; leave --budget, --max-tokens and --target out";
            return Err(CliError::Usage(problem.to_owned()));
        }
        self.reserves.budget(self.reserves.reserve, None)
    }
}
