//! `pannier packet`: a packet of a project's memory.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use pannier_core::{Timestamp, TokenCounter, find_item};
use pannier_memory::{
    Config, Cooldowns, Folder, HookHost, HookInput, Memory, MemoryError, PacketBuilder,
    PacketFormat, PacketOptions, Section, SessionId, hook_output,
};
use pannier_policy::Policy;

use super::explanation;
use super::state::{self, clock};
use crate::arguments::TokenizerArguments;
use crate::error::CliError;
use crate::output::{self, Output};
use crate::table::printable;

/// The time in which a session gets no second packet.
const DEFAULT_COOLDOWN: Duration = Duration::from_secs(600);

/// Print a project's memory, packed into a token budget
///
/// Reads the project's .context folder. The packet has all rules of the constitution. Of tasks, conventions, decisions and
/// learnings, it has the newest and most relevant in full and others as titles, as far as the budget allows.
#[derive(Args, Debug)]
#[command(
    visible_alias = "agent",
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  pannier packet init
  pannier packet --budget 4000
  pannier packet --query 'roll back a deployment' --files src/deploy.rs
  pannier packet --hook claude-code --cooldown 10m

A file .ctxrc next to .context can set token_budget, task_budget_pct, convention_budget_pct and
agent_cooldown_minutes. The variable CTX_TOKEN_BUDGET overrides it; flags override both."
)]
pub(crate) struct PacketCommand {
    #[command(subcommand)]
    action: Option<Action>,

    #[command(flatten)]
    packet: PacketArguments,
}

#[derive(Debug, Subcommand)]
enum Action {
    Init(Init),
}

/// Create a small .context folder
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  pannier packet init")]
struct Init {
    /// Root of the project [default: current folder]
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    folder: Option<PathBuf>,
}

#[derive(Args, Debug)]
struct PacketArguments {
    /// .context folder, or a folder in or below its project [default: current folder]
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    folder: Option<PathBuf>,

    /// Token budget of the packet [default: 8000]
    #[arg(long, short, value_name = "TOKENS")]
    budget: Option<usize>,

    #[command(flatten)]
    tokenizer: TokenizerArguments,

    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    format: Format,

    /// Your task; related entries rank higher
    #[arg(long, value_name = "TEXT")]
    query: Option<String>,

    /// Files you will work on; entries that mention them rank higher
    #[arg(long, value_name = "PATH", num_args = 1.., value_hint = ValueHint::AnyPath)]
    files: Vec<String>,

    /// Reference time for the age of entries, as in 2026-03-01 [default: now]
    #[arg(long, value_name = "TIME", value_parser = super::specified::date)]
    now: Option<Timestamp>,

    /// Maximum characters of the packet, for hosts that truncate
    #[arg(long, value_name = "COUNT")]
    max_chars: Option<usize>,

    /// Session of the packet; prints nothing during its cooldown
    #[arg(long, value_name = "ID", help_heading = "Sessions and hooks")]
    session: Option<String>,

    /// Time between two packets of a session, as in 90s, 10m or 1h [default: 10m]
    ///
    /// With --hook, the host names the session, and a session that starts always gets a packet.
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Sessions and hooks")]
    cooldown: Option<Duration>,

    /// Host whose hook format to print; reads the host's hook input
    #[arg(long, value_enum, value_name = "HOST", help_heading = "Sessions and hooks")]
    hook: Option<HostArgument>,

    /// Entries to explain instead of printing the packet; repeatable
    #[arg(long, value_name = "ID|INDEX", conflicts_with_all = ["hook", "session"])]
    explain: Vec<String>,

    /// File for a receipt, with which `pannier replay` repeats the packet
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    receipt: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Markdown
    #[default]
    Md,
    /// One line of JSON
    Json,
    /// The entries, as items for `select`, `simulate` and `compare`
    Items,
    /// The policy of the packet, for the same commands
    Policy,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum HostArgument {
    /// Claude Code
    ClaudeCode,
    /// GitHub Copilot, on the command line and in Visual Studio Code
    Copilot,
    /// Any host that takes plain text
    Plain,
}

impl From<HostArgument> for HookHost {
    fn from(host: HostArgument) -> Self {
        match host {
            HostArgument::ClaudeCode => Self::ClaudeCode,
            HostArgument::Copilot => Self::Copilot,
            HostArgument::Plain => Self::Plain,
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let form = "write a number and a unit, as in 90s, 10m or 1h";
    let (number, seconds) = match text.trim().split_at_checked(text.trim().len().saturating_sub(1))
    {
        Some((number, "s")) => (number, 1),
        Some((number, "m")) => (number, 60),
        Some((number, "h")) => (number, 3_600),
        _ if text.trim() == "0" => ("0", 1),
        _ => return Err(form.to_owned()),
    };
    let number: u64 = number.parse().map_err(|_| form)?;
    number
        .checked_mul(seconds)
        .map(Duration::from_secs)
        .ok_or_else(|| "that is too long".to_owned())
}

impl PacketCommand {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        match &self.action {
            Some(Action::Init(init)) => init.run(),
            None if self.packet.hook.is_some() => {
                // Hosts read some exit codes as an order to block.
                self.packet.run().map_err(|error| CliError::Hook(Box::new(error)))
            }
            None => self.packet.run(),
        }
    }
}

impl Init {
    fn run(&self) -> Result<(), CliError> {
        let root = self.folder.as_deref().unwrap_or(Path::new("."));
        let written = pannier_memory::init(root)?;
        let lines: String = written.iter().map(|path| format!("{}\n", path.display())).collect();
        output::print(&printable(&lines))
    }
}

/// A session and its cooldown.
struct Session {
    id: SessionId,
    cooldowns: Cooldowns,
    now: Timestamp,
}

impl PacketArguments {
    fn run(&self) -> Result<(), CliError> {
        if matches!(self.format, Format::Items | Format::Policy)
            && (self.hook.is_some() || self.session.is_some())
        {
            let problem = "--hook and --session need a packet; use --format md or json";
            return Err(CliError::Usage(problem.to_owned()));
        }
        let input = match self.hook {
            None => HookInput::default(),
            Some(_) if io::stdin().is_terminal() => HookInput::default(),
            // An unknown host may write anything.
            Some(HostArgument::Plain) => HookInput::read(io::stdin().lock()).unwrap_or_default(),
            Some(_) => HookInput::read(io::stdin().lock())?,
        };
        let current = input.cwd.as_deref().unwrap_or(".");
        let folder = Folder::find(self.folder.as_deref().unwrap_or(Path::new(current)));
        if let (Some(_), Err(problem @ MemoryError::NoFolder { .. })) = (self.hook, &folder) {
            // A hook may be installed for all projects, also for those without memory.
            output::note(&format!("nothing to do: {problem}"));
            return Ok(());
        }
        let folder = folder?;
        let config = Config::read(&folder)?;
        let session = self.session(&input)?;
        if let Some(session) = &session
            && self.is_fresh(session, &folder, &config, &input)?
        {
            return Ok(());
        }
        let memory = folder.read()?;
        for warning in memory.warnings() {
            output::warn(&warning.to_string());
        }
        let counter: Arc<dyn TokenCounter> = Arc::from(self.tokenizer.counter()?);
        let packer = PacketBuilder::new(&memory, self.options(&config, &input)?, counter)?;
        if let Some(path) = &self.receipt {
            let receipt = packer.receipt()?;
            output::write_json(path, &receipt)?;
        }
        let mut output = Output::new();
        match self.explain.is_empty() {
            true => self.write(&packer, &input, &mut output)?,
            false => self.explain(&packer, &memory, &mut output)?,
        }
        output.finish()?;
        if let Some(session) = session {
            let recorded = session.cooldowns.record(&session.id, folder.path(), session.now);
            // The packet is printed; an early repetition is harmless.
            if let Err(error) = recorded {
                output::warn(&error.to_string());
            }
        }
        Ok(())
    }

    /// Returns whether a session is within its cooldown. A session that starts has none.
    fn is_fresh(
        &self,
        session: &Session,
        folder: &Folder,
        config: &Config,
        input: &HookInput,
    ) -> Result<bool, CliError> {
        let event = input.event.as_deref().unwrap_or_default();
        if self.hook.is_some() && event.eq_ignore_ascii_case("SessionStart") {
            return Ok(false);
        }
        let minutes = config.agent_cooldown_minutes;
        let minutes = minutes.map(|minutes| Duration::from_secs(minutes.saturating_mul(60)));
        let cooldown = self.cooldown.or(minutes).unwrap_or(DEFAULT_COOLDOWN);
        let Session { id, cooldowns, now } = session;
        let is_fresh = cooldowns.is_within_cooldown(id, folder.path(), *now, cooldown)?;
        if is_fresh && self.hook.is_none() {
            let seconds = cooldown.as_secs();
            let id = id.as_str();
            output::note(&format!(
                "nothing to do: session {id} has a packet of the last {seconds} seconds"
            ));
        }
        Ok(is_fresh)
    }

    fn options(&self, config: &Config, input: &HookInput) -> Result<PacketOptions, CliError> {
        // The user's prompt to the host is part of the query.
        let from_host = input.prompt.iter().chain(&input.file);
        let query = self.query.iter().chain(&self.files).chain(from_host).map(String::as_str);
        let mut options = PacketOptions::new(self.now.unwrap_or_else(clock))
            .with_config(config)
            .with_query(query);
        options.include_timestamp = self.now.is_some();
        options.format = match self.format {
            Format::Json => PacketFormat::Json,
            _ => PacketFormat::Markdown,
        };
        let budget = match self.budget {
            Some(budget) => Some(budget),
            None => variable_budget()?,
        };
        options.budget = budget.unwrap_or(options.budget);
        let host = self.hook.map(HookHost::from);
        options.max_characters = self.max_chars.or_else(|| host.and_then(HookHost::max_characters));
        Ok(options)
    }

    /// Returns the session of --session or of the host.
    fn session(&self, input: &HookInput) -> Result<Option<Session>, CliError> {
        let from_host = input.session_id.as_deref().filter(|_| self.cooldown.is_some());
        let id = match (self.session.as_deref(), from_host) {
            (Some(id), _) => Some(SessionId::new(id).map_err(MemoryError::from)?),
            (None, from_host) => from_host.map(SessionId::from_host),
        };
        let Some(id) = id else {
            return match self.cooldown {
                Some(_) if self.hook.is_none() => {
                    let problem = "--cooldown needs a session; add --session ID or --hook HOST";
                    Err(CliError::Usage(problem.to_owned()))
                }
                _ => Ok(None),
            };
        };
        let folder = match state::state_dir("packets") {
            Ok(folder) => folder,
            Err(error) => {
                output::warn(&error.to_string());
                return Ok(None);
            }
        };
        let cooldowns = Cooldowns::in_folder(folder);
        Ok(Some(Session { id, cooldowns, now: self.now.unwrap_or_else(clock) }))
    }

    fn write(
        &self,
        packer: &PacketBuilder<'_>,
        input: &HookInput,
        output: &mut Output,
    ) -> Result<(), CliError> {
        match self.format {
            Format::Items => packer.pool().iter().try_for_each(|item| output.json(item)),
            Format::Policy => output.text(&serialize(&packer.policy()?)?),
            Format::Md | Format::Json => {
                let packet = packer.packet()?;
                packet.warnings().for_each(|warning| output::warn(&warning));
                match self.hook.map(HookHost::from) {
                    None => output.text(&packet.text),
                    Some(host) => {
                        output.text(&hook_output(host, input.event.as_deref(), &packet.text)?)
                    }
                }
            }
        }
    }

    fn explain(
        &self,
        packer: &PacketBuilder<'_>,
        memory: &Memory,
        output: &mut Output,
    ) -> Result<(), CliError> {
        let mut indices = Vec::new();
        for name in &self.explain {
            let mut rules = memory.section(Section::Constitution).iter();
            match rules.find(|rule| rule.id() == name) {
                Some(rule) => {
                    let (id, path, line) = (rule.id(), rule.path(), rule.line());
                    let message =
                        format!("{id}: {path}:{line} is a rule, and rules are in every packet");
                    output::note(&message);
                }
                None => indices.push(find_item(packer.pool(), name)?),
            }
        }
        let explanations = packer.explain(&indices, &mut explanation::search(indices.len()))?;
        if self.format == Format::Json {
            return output.json(&explanations);
        }
        for explained in &explanations {
            let entry = packer.entries()[explained.index];
            let text = explanation::texts(std::slice::from_ref(explained), false);
            let superseded =
                if entry.is_superseded() { ", and says that it is superseded" } else { "" };
            let path = printable(entry.path());
            output
                .text(&format!("{text}\n  It stands at {path}:{}{superseded}\n", entry.line()))?;
        }
        Ok(())
    }
}

fn serialize(policy: &Policy) -> Result<String, CliError> {
    toml::to_string(policy).map_err(|error| CliError::Internal(error.to_string()))
}

/// Returns the budget of the environment.
pub(super) fn variable_budget() -> Result<Option<usize>, CliError> {
    const NAME: &str = "CTX_TOKEN_BUDGET";
    let Some(value) = std::env::var_os(NAME).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let number = value.to_str().and_then(|value| value.trim().parse().ok());
    number.map(Some).ok_or_else(|| {
        let value = printable(&value.to_string_lossy());
        CliError::Usage(format!("{NAME} is '{value}'; it must be a number of tokens, as in 8000"))
    })
}
