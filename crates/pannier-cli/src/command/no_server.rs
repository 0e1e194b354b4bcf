//! `pannier serve`, `pannier mcp` and `pannier gateway` in a command that was compiled without them.

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

/// Trim requests on their way to a provider (this command was compiled without it)
#[derive(Args, Debug)]
pub(crate) struct Gateway {
    #[command(flatten)]
    server: Serve,
}

impl Gateway {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        self.server.run()
    }
}

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
        for words in
            ["serve", "serve --http 8642 --index a=b --watch", "mcp --stdio -x", "gateway -b 9"]
        {
            let words = ["pannier"].into_iter().chain(words.split(' ')).map(Into::into).collect();
            let problem = crate::arguments::parse(words).unwrap().command.run().unwrap_err();
            assert!(problem.to_string().contains("--features server"), "{problem}");
        }
    }
}
