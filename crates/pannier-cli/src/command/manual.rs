//! `pannier completions` and `pannier man`: generated from the declarations of the commands.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::error::CliError;
use crate::output;

/// Print shell completions
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
        clap_complete::generate(self.shell, &mut Arguments::command(), "pannier", &mut script);
        output::print(&String::from_utf8_lossy(&script))
    }
}

/// Print the manual page of Pannier or of a command
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier man | man -l -
  pannier man select > pannier-select.1")]
pub(crate) struct Man {
    /// Command
    command: Option<String>,
}

impl Man {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        let mut command = Arguments::command();
        command.build();
        if let Some(name) = &self.command {
            let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
            let known: Vec<_> = shown.map(|command| command.get_name().to_owned()).collect();
            let subcommand = command.find_subcommand(name).cloned();
            command = subcommand.ok_or_else(|| {
                CliError::Usage(format!(
                    "there is no command '{name}'; there are {}",
                    known.join(", ")
                ))
            })?;
            let full_name = format!("pannier-{name}");
            command = command.display_name(full_name.clone());
        }
        let mut page = Vec::new();
        let rendered = clap_mangen::Man::new(command).render(&mut page);
        rendered.map_err(|error| CliError::Internal(error.to_string()))?;
        output::print(&String::from_utf8_lossy(&page))
    }
}
