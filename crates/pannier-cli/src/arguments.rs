//! The arguments that several commands share. Help, completions and manual pages derive from these declarations and from those
//! of each command.

use clap::builder::StyledStr;
use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, CommandFactory, FromArgMatches, Parser};
use pannier_core::{ContextBudget, ContextKind, Timestamp, TokenCounter};

use crate::command::Command;
use crate::error::{CliError, EXIT_CODES};
use crate::interrupt::INTERRUPTED;
use crate::output::OutputArguments;

/// Pannier fits messages, documents and memory into a model's context window.
#[derive(Debug, Parser)]
#[command(
    name = "pannier",
    version,
    styles = styles(),
    after_long_help = exit_codes(),
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    infer_long_args = false,
    max_term_width = 80
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// The commands of the overview, by purpose. The others have their own help.
const OVERVIEW: [(&str, &[&str]); 4] = [
    ("Pack", &["pack", "chat"]),
    ("Find", &["docs", "memory", "snippets"]),
    ("Serve", &["serve"]),
    ("Inspect", &["inspect", "policy", "tokens"]),
];

/// Returns the declarations of all commands.
pub(crate) fn command() -> clap::Command {
    let command = Arguments::command();
    let overview = overview(&command);
    command.override_help(overview)
}

/// Parses the arguments of the process.
pub(crate) fn parse(words: Vec<std::ffi::OsString>) -> Result<Arguments, clap::Error> {
    Arguments::from_arg_matches(&command().try_get_matches_from(words)?)
}

/// Renders the help of `pannier` itself.
fn overview(command: &clap::Command) -> StyledStr {
    let (heading, literal) = (styles().get_header().to_owned(), styles().get_literal().to_owned());
    let mut text = format!(
        "{}\n\n{heading}Usage:{heading:#} {literal}pannier{literal:#} <COMMAND> [OPTIONS]\n",
        command.get_about().map(ToString::to_string).unwrap_or_default()
    );
    for (purpose, names) in OVERVIEW {
        text.push('\n');
        for (i, name) in names.iter().enumerate() {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let purpose = if i == 0 { purpose } else { "" };
            let line =
                format!("{heading}{purpose:<9}{heading:#}{literal}{name:<10}{literal:#}{about}\n");
            text.push_str(&line);
        }
    }
    text.push_str(&format!(
        "\n{heading}Try:{heading:#}     pannier docs search \"how do we roll back?\" --budget 2k\n         \
         pannier <COMMAND> --help\n"
    ));
    text.into()
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

/// The reference time.
#[derive(Args, Debug)]
pub(crate) struct TimeArguments {
    /// Reference time for policies that measure age, as in 2026-03-01T12:00:00Z
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<Timestamp>,
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
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls a function with every command and its full name.
    fn for_each_command(
        command: &clap::Command,
        name: &str,
        check: &mut dyn FnMut(&str, &clap::Command),
    ) {
        check(name, command);
        for subcommand in command.get_subcommands() {
            for_each_command(subcommand, &format!("{name} {}", subcommand.get_name()), check);
        }
    }

    #[test]
    fn short_help_fits_a_screen() {
        let mut command = command();
        command.build();
        let mut problems = Vec::new();
        for_each_command(&command, "pannier", &mut |name, command| {
            let help = command.clone().render_help().to_string();
            let lines = help.trim_end().lines().count();
            let widest = help.lines().map(|line| line.chars().count()).max().unwrap_or_default();
            let is_shown = |arg: &&clap::Arg| !arg.is_hide_set() && !arg.is_hide_short_help_set();
            let flags = command.get_opts().filter(is_shown).count();
            if lines > 24 || widest > 80 || flags > 12 {
                problems.push(format!("{name}: {lines} lines, {widest} columns, {flags} flags"));
            }
        });
        assert!(problems.is_empty(), "{problems:#?}");
    }

    #[test]
    fn declarations_are_consistent() {
        command().debug_assert();
    }
}
