//! `pannier completions` and `pannier man`: generated from the declarations of the commands.

use clap::builder::PossibleValuesParser;
use clap::{Args, Command, Id};
use clap_complete::Shell;
use pannier_policy::PolicyRegistry;

use crate::arguments::command;
use crate::error::CliError;
use crate::output;

/// Generate shell completions
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier completions bash > ~/.local/share/bash-completion/completions/pannier
  pannier completions zsh > ~/.zfunc/_pannier
  pannier completions fish > ~/.config/fish/completions/pannier.fish")]
pub(crate) struct Completions {
    /// Shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        let mut script = Vec::new();
        let mut command = with_values(command());
        clap_complete::generate(self.shell, &mut command, "pannier", &mut script);
        output::print(&String::from_utf8_lossy(&script))
    }
}

/// Sets the names of policies and tokenizers as possible values of all flags that take them. The parser takes files, too.
fn with_values(command: Command) -> Command {
    let policies: Vec<String> =
        PolicyRegistry::default().policies().map(|(name, _)| name.to_owned()).collect();
    let tokenizers: Vec<&str> = pannier_tokens::counter_names().collect();
    let names: Vec<Id> = command.get_arguments().map(|arg| arg.get_id().clone()).collect();
    let command = names.iter().fold(command, |command, id| match id.as_str() {
        "policy" | "policies" => {
            let parser = PossibleValuesParser::new(policies.clone());
            command.mut_arg(id, |arg| arg.value_parser(parser))
        }
        "tokenizer" => {
            let parser = PossibleValuesParser::new(tokenizers.clone());
            command.mut_arg(id, |arg| arg.value_parser(parser))
        }
        _ => command,
    });
    command.mut_subcommands(with_values)
}

/// Print manual pages
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier man | man -l -
  pannier man docs search > pannier-docs-search.1")]
pub(crate) struct Man {
    /// Command, e.g. docs search [default: pannier itself]
    command: Vec<String>,
}

impl Man {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        let mut command = command();
        command.build();
        let mut full_name = "pannier".to_owned();
        for name in &self.command {
            let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
            let known: Vec<_> = shown.map(|command| command.get_name().to_owned()).collect();
            let Some(subcommand) = command.find_subcommand(name).cloned() else {
                let command = full_name.replace('-', " ");
                let problem = match known.is_empty() {
                    true => format!("`{command}` has no command '{name}'"),
                    false => format!(
                        "`{command}` has no command '{name}'; there are {}",
                        known.join(", ")
                    ),
                };
                return Err(CliError::Usage(problem));
            };
            full_name = format!("{full_name}-{}", subcommand.get_name());
            command = subcommand;
        }
        let command = command.display_name(full_name);
        let mut page = Vec::new();
        let rendered = clap_mangen::Man::new(command).render(&mut page);
        rendered.map_err(|error| CliError::Internal(error.to_string()))?;
        output::print(&String::from_utf8_lossy(&page))
    }
}
