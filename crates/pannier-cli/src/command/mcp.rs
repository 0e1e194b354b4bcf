//! `pannier mcp`: the front ends for agents.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use pannier::NamedFolder;
use pannier_mcp::{Address, BearerToken, HttpOptions, Server, ServerConfig};

use super::docs::EmbedderArguments;
use super::{packet, state};
use crate::error::CliError;
use crate::input;

/// The longest file with a token that is read.
const LONGEST_TOKEN: u64 = 8 << 10;

/// Serve documents, snippets and memories to agents, over the Model Context Protocol
///
/// Without --http, an agent starts the server and talks to it through standard input and output. It reads nothing but what
/// lies below the folders named here, whatever it is asked for.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier mcp --cache .cache/docs --docs docs --context .
  pannier mcp --cache handbook=.cache/handbook --cache api=.cache/api
  pannier mcp --cache .cache/docs --http 8642")]
pub(crate) struct Mcp {
    /// A cache of documents, and perhaps what it is called; several, if the option is repeated
    #[arg(long = "cache", value_name = "[NAME=]CACHE", value_hint = ValueHint::DirPath)]
    caches: Vec<NamedFolder>,

    /// A folder with snippets; several, if the option is repeated
    #[arg(long = "docs", value_name = "[NAME=]DIR", value_hint = ValueHint::DirPath)]
    docs: Vec<NamedFolder>,

    /// The root of a project with a .context folder; several, if the option is repeated
    #[arg(long = "context", value_name = "[NAME=]DIR", value_hint = ValueHint::DirPath)]
    contexts: Vec<NamedFolder>,

    #[command(flatten)]
    embedder: EmbedderArguments,

    /// Listen to a port of this machine, or to an address and a port, instead of standard input
    #[arg(long, value_name = "[ADDRESS:]PORT", help_heading = "HTTP")]
    http: Option<Address>,

    /// A file with the token that clients must send [default: what PANNIER_MCP_TOKEN says, or none]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "http", help_heading = "HTTP")]
    token_file: Option<PathBuf>,

    /// A name by which the server may be called, besides those of this machine
    #[arg(long = "allow-host", value_name = "HOST", requires = "http", help_heading = "HTTP")]
    hosts: Vec<String>,

    /// How many seconds a call may take
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, help_heading = "Limits")]
    timeout: f64,

    /// How many calls are worked on at once
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = within(1, 256), help_heading = "Limits")]
    jobs: usize,

    /// How many bytes a request may have
    #[arg(long, value_name = "BYTES", default_value_t = 4 << 20, value_parser = within(1_024, 1 << 30), help_heading = "Limits")]
    max_input: usize,

    /// How many bytes the text of an answer may have
    #[arg(long, value_name = "BYTES", default_value_t = 8 << 20, value_parser = within(256, 1 << 30), help_heading = "Limits")]
    max_output: usize,
}

fn within(least: usize, most: usize) -> impl Fn(&str) -> Result<usize, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| format!("write a whole number from {least} to {most}"))
    }
}

impl Mcp {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        let mut config = ServerConfig::default();
        config.caches.clone_from(&self.caches);
        config.docs.clone_from(&self.docs);
        config.contexts.clone_from(&self.contexts);
        // Without such a folder, only calls that name a session fail.
        config.state = state::folder("snippets").ok();
        config.home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        config.embedder = self.embedder.open()?;
        config.packet_budget = packet::variable_budget()?;
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
        let http = self.http.map(|address| self.http(address)).transpose()?;
        let server = Server::open(config)?;
        match http {
            None => {
                if std::io::stdin().is_terminal() {
                    let told = "waiting for an MCP client on standard input; see `pannier mcp --help` for how agents are given the server";
                    let _ = writeln!(std::io::stderr(), "{told}");
                }
                server.serve_stdio()?;
            }
            Some(options) => server.serve_http(&options, |address| {
                // Nobody is left to tell if this fails.
                let _ = writeln!(std::io::stderr(), "listening at {address}");
            })?,
        }
        Ok(())
    }

    fn http(&self, address: Address) -> Result<HttpOptions, CliError> {
        let mut options = HttpOptions::new(address);
        options.hosts.clone_from(&self.hosts);
        let token = match &self.token_file {
            Some(path) => Some(input::read_text(path, LONGEST_TOKEN)?),
            None => std::env::var("PANNIER_MCP_TOKEN").ok().filter(|token| !token.is_empty()),
        };
        options.token = token.map(|token| BearerToken::new(token.trim())).transpose()?;
        Ok(options)
    }
}
