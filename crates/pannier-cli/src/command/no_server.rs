//! `pannier serve` and `pannier mcp` in a command that was compiled without them.

use std::ffi::OsString;

use clap::Args;

use crate::error::CliError;

/// Run the MCP and HTTP server (this command was compiled without it)
#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// Options of the server
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _options: Vec<OsString>,
}

/// The former name of `serve --stdio`.
pub(crate) type Mcp = Serve;

impl Serve {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        let problem = "this command was compiled without the server; compile it with `--features server`, or without \
                       `--no-default-features`";
        Err(CliError::Usage(problem.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn server_commands_say_how_to_get_them() {
        for words in ["serve", "serve --http 8642 --index a=b --watch", "mcp --stdio -x"] {
            let words = ["pannier"].into_iter().chain(words.split(' ')).map(Into::into).collect();
            let problem = crate::arguments::parse(words).unwrap().command.run().unwrap_err();
            assert!(problem.to_string().contains("--features server"), "{problem}");
        }
    }
}
