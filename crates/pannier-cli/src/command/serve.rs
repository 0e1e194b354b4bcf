//! `pannier serve` and `pannier mcp`: the server.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueHint};
use pannier::{Failure, NamedFolder};
use pannier_mcp::{Server, ServerConfig};
use pannier_server::{Address, BearerTokens, HttpOptions, WatchOptions, Watcher};

use super::docs::EmbedderArguments;
use super::log::LogArguments;
#[cfg(feature = "otel")]
use super::telemetry::Otlp;
use super::{memory, state};
use crate::error::CliError;
use crate::{config, input, output};

/// The maximum size of a token file.
const MAX_TOKEN_FILE_BYTES: u64 = 1 << 20;

/// What shows that a folder has a memory.
const MEMORY_FILES: [&str; 6] = [
    ".context",
    ".cursor/rules",
    ".github/copilot-instructions.md",
    "AGENTS.md",
    "CLAUDE.md",
    "GEMINI.md",
];

/// Run the MCP and HTTP server
///
/// The server only reads files below the folders of its options. Without --index,
/// --snippets and --memory, these are the index and the memory of this project.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier serve
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
        let server = self.server.or_project()?;
        if !self.stdio {
            let http = &server.http;
            let address = http.http.map_or_else(|| DEFAULT_ADDRESS.parse(), Ok)?;
            return http.run(&server, address);
        }
        server.run_stdio()
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
        if let Some(address) = self.server.http.http {
            return self.server.http.run(&self.server, address);
        }
        self.server.run_stdio()
    }
}

/// The folders of a server, its address and its limits.
#[derive(Args, Clone, Debug)]
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

    /// Model or encoding that counts the tokens of answers [default: o200k]
    #[arg(long, value_name = "NAME")]
    tokenizer: Option<String>,

    /// List the operations context.* of the specification, too
    #[arg(long, hide_short_help = true)]
    spec_names: bool,

    /// Update indexes when their sources change
    #[arg(long)]
    watch: bool,

    #[command(flatten)]
    http: HttpArguments,

    /// Collector of spans and metrics [default: the variable OTEL_EXPORTER_OTLP_ENDPOINT]
    #[cfg(feature = "otel")]
    #[arg(long, value_name = "URL", help_heading = "Telemetry", hide_short_help = true)]
    otlp: Option<String>,

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
    /// Returns these arguments with the index and the memory of the current project, unless they name folders.
    fn or_project(&self) -> Result<Self, CliError> {
        let mut arguments = self.clone();
        if !(self.caches.is_empty() && self.docs.is_empty() && self.contexts.is_empty()) {
            return Ok(arguments);
        }
        let named = |path| NamedFolder::new("project", path).map_err(Failure::from);
        let settings = config::read()?;
        let is_index = |index: &PathBuf| index.is_dir() || config::is_address(index);
        if let Some(index) = settings.defaults.index.filter(is_index) {
            let current = std::env::current_dir().unwrap_or_default();
            match config::is_address(&index) {
                // It may have a password.
                true => output::note("index: the database of pannier.toml or PANNIER_INDEX"),
                false => {
                    let shown = index.strip_prefix(current).unwrap_or(&index);
                    output::note(&format!("index: {}", shown.display()));
                }
            }
            arguments.caches.push(named(index)?);
        }
        let memory = PathBuf::from(".");
        if MEMORY_FILES.iter().any(|name| memory.join(name).exists()) {
            output::note("memory: this folder");
            arguments.contexts.push(named(memory)?);
        }
        if arguments.caches()?.is_empty() && arguments.contexts.is_empty() {
            output::note(
                "there is no index and no memory here, so only pack_items is served; see `pannier docs index --help`",
            );
        }
        Ok(arguments)
    }

    /// Returns the indexes of the arguments, and those that only `[serve.indexes]` names.
    fn caches(&self) -> Result<Vec<NamedFolder>, CliError> {
        let mut caches = self.caches.clone();
        for index in config::read()?.serve.indexes()? {
            if !caches.iter().any(|own| own.name().eq_ignore_ascii_case(index.name())) {
                caches.push(index);
            }
        }
        Ok(caches)
    }

    fn run_stdio(&self) -> Result<(), CliError> {
        let config = self.config()?;
        #[cfg(feature = "otel")]
        let otlp = Otlp::start(self.otlp.as_deref())?;
        #[cfg(feature = "otel")]
        let config = config.with_telemetry(otlp.as_ref().map(Otlp::calls));
        let server = Server::open(config)?;
        let _watcher = self.watcher()?;
        if std::io::stdin().is_terminal() {
            let note = "waiting for an MCP client on standard input; see docs/reference/mcp.md to register the server";
            output::note(note);
        }
        Ok(server.serve_stdio()?)
    }

    /// Watches the sources of the indexes, if that is asked for.
    fn watcher(&self) -> Result<Option<Watcher>, CliError> {
        let caches = self.caches()?;
        let watch = || {
            let mut options = WatchOptions::new(caches);
            options.embedder.clone_from(&self.embedder.embedder);
            options.embedder_key_env.clone_from(&self.embedder.embedder_key_env);
            Watcher::start(options)
        };
        Ok(self.watch.then(watch).transpose()?)
    }

    fn config(&self) -> Result<ServerConfig, CliError> {
        let mut config = ServerConfig::default();
        config.caches = self.caches()?;
        config.docs.clone_from(&self.docs);
        config.contexts.clone_from(&self.contexts);
        // Without it, only calls with a session fail.
        config.state = state::state_dir("snippets").ok();
        config.home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        config.embedder = self.embedder.open()?;
        config.user_memory = config::user_memory().filter(|_| self.user);
        config.defaults.tokenizer.clone_from(&self.tokenizer);
        config.named = config::read()?.serve.open()?;
        config.spec_names = self.spec_names;
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
        Ok(config)
    }
}

/// The address of a server, who may call it, and its log.
#[derive(Args, Clone, Debug)]
struct HttpArguments {
    /// Port, or address and port, to listen at
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    http: Option<Address>,

    /// File with a token per line, each after an optional name
    ///
    /// The default is the token of the variable PANNIER_MCP_TOKEN.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "HTTP", hide_short_help = true)]
    token_file: Option<PathBuf>,

    /// Host name to accept besides those of this machine; repeatable
    #[arg(long = "allow-host", value_name = "HOST", help_heading = "HTTP", hide_short_help = true)]
    hosts: Vec<String>,

    /// Origin whose pages may call the server; repeatable
    #[arg(
        long = "allow-origin",
        value_name = "ORIGIN",
        help_heading = "HTTP",
        hide_short_help = true
    )]
    origins: Vec<String>,

    /// Time for open calls after a signal, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u16), help_heading = "HTTP", hide_short_help = true)]
    drain: u16,

    #[command(flatten)]
    log: LogArguments,
}

impl HttpArguments {
    fn run(&self, arguments: &ServerArguments, address: Address) -> Result<(), CliError> {
        let mut options = HttpOptions::new(address);
        for host in &self.hosts {
            options.allow_host(host)?;
        }
        options.drain = Duration::from_secs(self.drain.into());
        for origin in &self.origins {
            options.allow_origin(origin)?;
        }
        options.tokens = self.tokens()?;
        let server = Server::open(arguments.config()?)?;
        #[cfg(feature = "otel")]
        let otlp = Otlp::start(arguments.otlp.as_deref())?;
        #[cfg(feature = "otel")]
        {
            options.telemetry = otlp.as_ref().map(Otlp::requests);
        }
        let _log = self.log.start();
        let _watcher = arguments.watcher()?;
        Ok(pannier_server::serve(server, &options, |address| {
            output::note(&format!("listening at {address}/mcp"));
        })?)
    }

    fn tokens(&self) -> Result<BearerTokens, CliError> {
        let Some(path) = &self.token_file else {
            let token = std::env::var("PANNIER_MCP_TOKEN").ok().filter(|token| !token.is_empty());
            let tokens = token.map(|token| BearerTokens::parse(&token)).transpose()?;
            return Ok(tokens.unwrap_or_default());
        };
        read_tokens(path)
    }
}

/// Reads a file with tokens, and warns if other users can read it, too.
pub(super) fn read_tokens(path: &Path) -> Result<BearerTokens, CliError> {
    let text = input::read_text(path, MAX_TOKEN_FILE_BYTES)?;
    #[cfg(unix)]
    if let Ok(metadata) = std::fs::metadata(path) {
        use std::os::unix::fs::PermissionsExt;
        if metadata.permissions().mode() & 0o077 != 0 {
            let path = path.display();
            output::warn(&format!(
                "other users can read the tokens in {path}; run `chmod 600 {path}`"
            ));
        }
    }
    Ok(BearerTokens::parse(&text)?)
}
