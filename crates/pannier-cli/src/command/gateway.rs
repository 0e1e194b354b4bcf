//! `pannier gateway`: a base URL in front of a provider.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use pannier::ops::Tokens;
use pannier_gateway::{GatewayOptions, InspectOptions, TokenPrices, Upstreams};
use pannier_server::Address;

use super::log::LogArguments;
use super::serve::read_tokens;
use crate::error::CliError;
use crate::output;

/// Trim requests on their way to a provider
///
/// Set the gateway as the base URL of an agent. Requests that fit are forwarded
/// byte for byte. Longer ones are cut as `pannier chat` cuts them, so that they
/// fit and the prompt cache still hits. Responses are never changed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier gateway --upstream https://api.anthropic.com --budget 100k
  ANTHROPIC_BASE_URL=http://127.0.0.1:8643 claude")]
pub(crate) struct Gateway {
    /// Base URL of the provider, or anthropic=URL, openai=URL; repeatable
    #[arg(long = "upstream", value_name = "[NAME=]URL", required = true)]
    upstreams: Vec<String>,

    /// Token budget of a request and its response, e.g. 100k
    ///
    /// The output limit of the request (`max_tokens`) is part of the budget.
    #[arg(long, short, value_name = "N")]
    budget: Tokens,

    /// Session policy: careful, balanced or thrifty
    #[arg(long, short, value_name = "NAME", default_value = "balanced")]
    policy: String,

    /// Refuse requests that cannot be fitted, instead of forwarding them
    ///
    /// The response has the status 413 and the smallest budget that would do.
    #[arg(long)]
    strict: bool,

    /// Folder that keeps sessions over restarts [default: in memory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    state: Option<PathBuf>,

    /// Serve what was cut by the tool `recall` at /mcp
    ///
    /// The agent must call it with the key that it sends to the provider. What was
    /// cut is kept in the folder of --state.
    #[arg(long, requires = "state")]
    recall: bool,

    /// Compare token counts with those of the provider
    ///
    /// If the provider counts more, sessions that begin later get a larger margin.
    #[arg(long)]
    usage_check: bool,

    /// Port, or address and port, to listen at
    #[arg(long, value_name = "[ADDRESS:]PORT", default_value = "8643")]
    http: Address,

    /// Port, or address and port, of the metrics [default: none]
    #[arg(long, value_name = "[ADDRESS:]PORT", help_heading = "Advanced", hide_short_help = true)]
    metrics: Option<Address>,

    /// Port, or address and port, that shows running sessions [default: none]
    #[arg(
        long,
        value_name = "[ADDRESS:]PORT",
        requires = "inspect_token_file",
        help_heading = "Advanced",
        hide_short_help = true
    )]
    inspect: Option<Address>,

    /// File with a token per line for --inspect, each after an optional name
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Advanced", hide_short_help = true)]
    inspect_token_file: Option<PathBuf>,

    /// Price of a cached token, relative to plain input
    #[arg(long, value_name = "PRICE", default_value_t = 0.1, value_parser = price, help_heading = "Advanced", hide_short_help = true)]
    read_price: f64,

    /// Price of any other token, relative to plain input
    #[arg(long, value_name = "PRICE", default_value_t = 1.25, value_parser = price, help_heading = "Advanced", hide_short_help = true)]
    write_price: f64,

    /// Model, encoding or file:PATH [default: the request's model]
    #[arg(long, short, value_name = "NAME", help_heading = "Advanced", hide_short_help = true)]
    tokenizer: Option<String>,

    /// Safety margin for estimated token counts, in percent
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 0.0,
        value_parser = percent,
        help_heading = "Advanced",
        hide_short_help = true
    )]
    margin: f64,

    /// Maximum size of a request, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20, help_heading = "Advanced", hide_short_help = true)]
    max_body: usize,

    /// Time for the provider's next bytes, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Advanced", hide_short_help = true)]
    timeout: u32,

    /// Time for open requests after a signal, in seconds
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 10,
        help_heading = "Advanced",
        hide_short_help = true
    )]
    drain: u16,

    #[command(flatten)]
    log: LogArguments,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..100.0).contains(number));
    number.ok_or_else(|| "write a number from 0 up to 100".to_owned())
}

fn price(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=1e6).contains(number));
    number.ok_or_else(|| "write a number from 0 to 1000000".to_owned())
}

impl Gateway {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        let upstreams = Upstreams::parse(self.upstreams.iter().map(String::as_str))?;
        let Tokens(budget) = self.budget;
        let mut options = GatewayOptions::new(self.http, upstreams, budget);
        options.metrics = self.metrics;
        options.margin_percent = self.margin;
        options.policy.clone_from(&self.policy);
        options.tokenizer.clone_from(&self.tokenizer);
        options.is_strict = self.strict;
        options.state.clone_from(&self.state);
        options.recall = self.recall;
        options.checks_usage = self.usage_check;
        options.prices = TokenPrices::new(self.read_price, self.write_price);
        if let (Some(address), Some(path)) = (self.inspect, &self.inspect_token_file) {
            options.inspect = Some(InspectOptions::new(address, read_tokens(path)?));
        }
        options.max_body_bytes = self.max_body;
        options.timeout = Duration::from_secs(self.timeout.into());
        options.drain = Duration::from_secs(self.drain.into());
        let _log = self.log.start();
        Ok(pannier_gateway::serve(&options, |address| {
            output::note(&format!("listening at {address}"));
        })?)
    }
}
