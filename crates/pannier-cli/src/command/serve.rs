//! `pannier serve` and `pannier mcp`: the server.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use pannier::NamedFolder;
use pannier_mcp::{Address, BearerToken, HttpOptions, Server, ServerConfig};

use super::docs::EmbedderArguments;
use super::{memory, state};
use crate::error::CliError;
use crate::{config, input, output};

/// The maximum size of a token file.
const MAX_TOKEN_FILE_BYTES: u64 = 8 << 10;

/// Run the MCP and HTTP server
///
/// The server only reads files below the folders of its options.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier serve --index .pannier/index --snippets docs --memory .
  pannier serve --stdio --index handbook=.pannier/index")]
pub(crate) struct Serve {
    #[command(flatten)]
    server: ServerArguments,

    /// Talk MCP over standard input and output
    #[arg(long, conflicts_with = "http")]
    stdio: bool,
}

impl Serve {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        let address = match (self.stdio, self.server.http) {
            (true, _) => None,
            (false, Some(address)) => Some(address),
            (false, None) => Some(DEFAULT_ADDRESS.parse()?),
        };
        self.server.run(address)
    }
}

/// The address at which the server listens by default: a port of this machine.
const DEFAULT_ADDRESS: &str = "8642";

/// Serve MCP over standard input and output, or over HTTP
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  pannier mcp --cache .cache/docs --docs docs --context .")]
pub(crate) struct Mcp {
    #[command(flatten)]
    server: ServerArguments,
}

impl Mcp {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        self.server.run(self.server.http)
    }
}

/// The folders of a server, its address and its limits.
#[derive(Args, Debug)]
struct ServerArguments {
    /// Index directory, with an optional name; repeatable
    #[arg(long = "index", alias = "cache", value_name = "[NAME=]DIR", value_hint = ValueHint::DirPath)]
    caches: Vec<NamedFolder>,

    /// Folder with snippets; repeatable
    #[arg(long = "snippets", alias = "docs", value_name = "[NAME=]DIR", value_hint = ValueHint::DirPath)]
    docs: Vec<NamedFolder>,

    /// Root of a project with a .context folder or AGENTS.md; repeatable
    #[arg(long = "memory", alias = "context", value_name = "[NAME=]DIR", value_hint = ValueHint::DirPath)]
    contexts: Vec<NamedFolder>,

    /// Add your own folder, ~/.config/pannier/context, to every memory
    #[arg(long)]
    user: bool,

    #[command(flatten)]
    embedder: EmbedderArguments,

    /// Port, or address and port, to listen at
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    http: Option<Address>,

    /// File with the clients' token [default: the variable PANNIER_MCP_TOKEN]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "HTTP", hide_short_help = true)]
    token_file: Option<PathBuf>,

    /// Host name to accept besides those of this machine; repeatable
    #[arg(long = "allow-host", value_name = "HOST", help_heading = "HTTP", hide_short_help = true)]
    hosts: Vec<String>,

    /// Time limit of a call, in seconds
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 60.0,
        help_heading = "Limits",
        hide_short_help = true
    )]
    timeout: f64,

    /// Number of concurrent calls
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = within(1, 256), help_heading = "Limits", hide_short_help = true)]
    jobs: usize,

    /// Maximum size of a request, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 4 << 20, value_parser = within(1_024, 1 << 30), help_heading = "Limits", hide_short_help = true)]
    max_input: usize,

    /// Maximum size of a response's text, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 8 << 20, value_parser = within(256, 1 << 30), help_heading = "Limits", hide_short_help = true)]
    max_output: usize,
}

fn within(min: usize, max: usize) -> impl Fn(&str) -> Result<usize, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| (min..=max).contains(number));
        number.ok_or_else(|| format!("write an integer from {min} to {max}"))
    }
}

impl ServerArguments {
    fn run(&self, address: Option<Address>) -> Result<(), CliError> {
        let mut config = ServerConfig::default();
        config.caches.clone_from(&self.caches);
        config.docs.clone_from(&self.docs);
        config.contexts.clone_from(&self.contexts);
        // Without it, only calls with a session fail.
        config.state = state::state_dir("snippets").ok();
        config.home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        config.embedder = self.embedder.open()?;
        config.user_memory = config::user_memory().filter(|_| self.user);
        config.packet_budget = memory::variable_budget()?;
        config.limits.time = Duration::try_from_secs_f64(self.timeout)
            .ok()
            .filter(|time| !time.is_zero() && *time <= Duration::from_secs(86_400))
            .ok_or_else(|| {
                let problem =
                    format!("--timeout is {}; it must be above 0, and at most 86400", self.timeout);
                CliError::Usage(problem)
            })?;
        config.limits.calls = self.jobs;
        (config.limits.input, config.limits.output) = (self.max_input, self.max_output);
        let http = address.map(|address| self.http(address)).transpose()?;
        let server = Server::open(config)?;
        match http {
            None => {
                if std::io::stdin().is_terminal() {
                    let note = "waiting for an MCP client on standard input; see docs/mcp.md to register the server";
                    output::note(note);
                }
                server.serve_stdio()?;
            }
            Some(options) => server.serve_http(&options, |address| {
                output::note(&format!("listening at {address}"));
            })?,
        }
        Ok(())
    }

    fn http(&self, address: Address) -> Result<HttpOptions, CliError> {
        let mut options = HttpOptions::new(address);
        options.hosts.clone_from(&self.hosts);
        let token = match &self.token_file {
            Some(path) => Some(input::read_text(path, MAX_TOKEN_FILE_BYTES)?),
            None => std::env::var("PANNIER_MCP_TOKEN").ok().filter(|token| !token.is_empty()),
        };
        options.token = token.map(|token| BearerToken::new(token.trim())).transpose()?;
        Ok(options)
    }
}
