//! The arguments that several commands share. Help, completions and manual pages derive from these declarations and from those
//! of each command.

use clap::builder::StyledStr;
use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, CommandFactory, FromArgMatches, Parser};
use pannier_core::TokenCounter;

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
    ("Serve", &["serve", "gateway"]),
    ("Inspect", &["inspect", "policy", "tokens", "eval"]),
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
    #[arg(long, value_name = "NAME")]
    tokenizer: Option<String>,
}

impl TokenizerArguments {
    pub(crate) fn counter(&self) -> Result<Box<dyn TokenCounter>, CliError> {
        Ok(pannier_tokens::counter_by_name(self.tokenizer.as_deref().unwrap_or("bytes/4"))?)
    }
}
