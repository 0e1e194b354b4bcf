//! The arguments that several commands share. Help, completions and manual pages derive from these declarations and from those
//! of each command.

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
use crate::interrupt::INTERRUPTED;

/// Packs the right context into a model's window.
///
/// Pannier selects from candidate items (messages, documents, memories, tool outputs) those that best fit a token budget. It
/// orders them, and gives a reason for every item, in or out. The same input always gives the same bytes.
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

/// Returns the exit codes for help and manual.
fn exit_codes() -> String {
    let mut text = "Exit codes:\n  0  success, also for an empty selection".to_owned();
    for (_, code, description) in EXIT_CODES {
        text.push_str(&format!("\n  {code}  {description}"));
    }
    text.push_str(&format!("\n  {INTERRUPTED}  interrupted while searching"));
    text
}

/// The items to select from.
#[derive(Args, Debug)]
pub(crate) struct ItemArguments {
    /// Files with items: JSON lines, or a JSON array [default: standard input]
    ///
    /// An item has a "content", and may have "tokens", "kind", "source", "priority", "tags", "metadata",
    /// "timestamp", "futureRelevanceHint", "pinned", "originalTokens", "id", "group" and "shortForm". If an item has no
    /// "tokens", --tokenizer counts it, and the budget then bounds the rendered text.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    tokenizer: TokenizerArguments,

    /// Template of the text: a .toml or .json file [default: contents and empty lines]
    ///
    /// The file sets `before`, `item`, `separator`, `after` and `kinds`.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    template: Option<PathBuf>,
}

/// The items of a run, and their layout.
pub(crate) struct Input {
    pub(crate) items: Vec<ContextItem>,
    pub(crate) rendering: TextLayout,
    pub(crate) budget_scope: BudgetScope,
}

impl Input {
    /// Returns the pipeline with the layout, if the rendered text is counted.
    pub(crate) fn pipeline_for(&self, pipeline: Pipeline) -> Pipeline {
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
        // If the caller counted every item, its counts are the cost. If any item is counted here, so is the rendered
        // text.
        let is_counted = !self.tokenizer.is_named()
            && template.is_none()
            && items.iter().all(UncountedItem::is_counted);
        let budget_scope = if is_counted { BudgetScope::Items } else { BudgetScope::Text };
        let items = UncountedItem::count(items, &*counter);
        let rendering = TextLayout::new(template.unwrap_or_default(), counter);
        Ok(Input { items, rendering, budget_scope })
    }
}

/// The tokenizer.
#[derive(Args, Debug)]
pub(crate) struct TokenizerArguments {
    /// Tokenizer: a name (see `pannier tokens list`) or file:PATH [default: bytes/4]
    ///
    /// The default of `chat` is the tokenizer of the request's model, that of `snippets` the one that counted the index.
    #[arg(long, value_name = "NAME")]
    tokenizer: Option<String>,
}

impl TokenizerArguments {
    /// Returns whether the option is set.
    pub(crate) fn is_named(&self) -> bool {
        self.tokenizer.is_some()
    }

    pub(crate) fn counter(&self) -> Result<Box<dyn TokenCounter>, CliError> {
        Ok(pannier_tokens::counter_by_name(self.tokenizer.as_deref().unwrap_or("bytes/4"))?)
    }
}

/// The policy and the reference time.
#[derive(Args, Debug)]
pub(crate) struct PolicyArguments {
    /// A preset (see `pannier policy list`), or a .toml or .json file
    #[arg(long, short, value_name = "NAME|FILE", default_value = "chat", value_hint = ValueHint::FilePath)]
    pub(crate) policy: String,

    #[command(flatten)]
    pub(crate) time: TimeArguments,
}

/// The reference time.
#[derive(Args, Debug)]
pub(crate) struct TimeArguments {
    /// Reference time for policies that measure age, as in 2026-03-01T12:00:00Z
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

/// The budget.
#[derive(Args, Debug)]
pub(crate) struct BudgetArguments {
    /// Token budget: the model's context window
    #[arg(
        long,
        short,
        value_name = "TOKENS",
        conflicts_with = "max_tokens",
        allow_negative_numbers = true
    )]
    budget: Option<i64>,

    /// Alias of --budget
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    max_tokens: Option<i64>,

    /// Token count of the selection [default: budget minus reserve]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    target: Option<i64>,

    #[command(flatten)]
    reserves: ReserveArguments,
}

/// The deductions from a budget.
#[derive(Args, Debug)]
pub(crate) struct ReserveArguments {
    /// Tokens kept free for the model's output
    #[arg(long, value_name = "TOKENS", default_value_t = 0, allow_negative_numbers = true)]
    reserve: i64,

    /// Safety margin for estimated token counts, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, allow_negative_numbers = true)]
    margin: f64,

    /// Tokens kept free for items of a kind that you add yourself
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
    /// Returns the budget of a window; the default target is the window minus the reserve.
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
                return Err(CliError::Usage(format!("--slot {kind} is set twice; set it once")));
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

    /// Returns whether --target is set.
    pub(crate) fn has_target(&self) -> bool {
        self.target.is_some()
    }

    fn window(&self) -> Option<i64> {
        self.budget.or(self.max_tokens).or(self.target)
    }

    /// Returns the deductions alone, for simulations that vary the window.
    pub(crate) fn base(&self) -> Result<ContextBudget, CliError> {
        if self.window().is_some() {
            let problem =
                "this simulation varies the budget; omit --budget, --max-tokens and --target";
            return Err(CliError::Usage(problem.to_owned()));
        }
        self.reserves.budget(self.reserves.reserve, None)
    }
}
