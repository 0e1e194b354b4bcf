//! `pannier packet`: what a project remembers, for an agent that begins to work on it.

use std::io::{self, IsTerminal, Write};
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

/// How long a session is not given another packet, unless somebody says otherwise.
const COOLDOWN: Duration = Duration::from_secs(600);

/// Pack what a project remembers into one text for an agent
///
/// Reads the project's .context folder: all rules of the constitution, always; of tasks, conventions, decisions and learnings
/// as much as the budget allows, the newest and most relevant whole, the others by their titles.
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

Beside .context, a file .ctxrc may set token_budget, task_budget_pct, convention_budget_pct and
agent_cooldown_minutes. The variable CTX_TOKEN_BUDGET goes before it, and flags before both."
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

/// Write a small .context folder to begin with
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  pannier packet init")]
struct Init {
    /// The root of the project [default: the current folder]
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    folder: Option<PathBuf>,
}

#[derive(Args, Debug)]
struct PacketArguments {
    /// The .context folder, or where to look for it and upwards [default: the current folder]
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    folder: Option<PathBuf>,

    /// How many tokens the packet may have [default: 8000]
    #[arg(long, short, value_name = "TOKENS")]
    budget: Option<usize>,

    #[command(flatten)]
    tokenizer: TokenizerArguments,

    /// How the packet is written
    #[arg(long, short, value_enum, default_value_t)]
    format: Format,

    /// What you are about to do: entries that have to do with it count for more
    #[arg(long, value_name = "TEXT")]
    query: Option<String>,

    /// Files you are about to work on: entries that speak of them count for more. DIR comes before it
    #[arg(long, value_name = "PATH", num_args = 1.., value_hint = ValueHint::AnyPath)]
    files: Vec<String>,

    /// What time it is, for the age of entries: 2026-03-01, or 2026-03-01T12:00:00Z [default: what the clock says]
    #[arg(long, value_name = "TIME", value_parser = super::assemble::date)]
    now: Option<Timestamp>,

    /// How many characters the packet may have, too, for hosts that cut off the rest
    #[arg(long, value_name = "COUNT")]
    max_chars: Option<usize>,

    /// The session the packet is for: nothing is printed while it has a fresh one
    #[arg(long, value_name = "ID", help_heading = "Sessions and hooks")]
    session: Option<String>,

    /// How long a packet is fresh: 10m, 90s, 1h. With --hook, the host says which session it is, and one that begins is
    /// always given a packet [default with --session: 10m]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Sessions and hooks")]
    cooldown: Option<Duration>,

    /// Print it in the form in which a host's hook hands it to the model; reads what the host writes to the hook
    #[arg(long, value_enum, value_name = "HOST", help_heading = "Sessions and hooks")]
    hook: Option<HostArgument>,

    /// Say why an entry is in or out, and what would change that, instead of printing the packet
    #[arg(long, value_name = "ID|INDEX", conflicts_with_all = ["hook", "session"])]
    explain: Vec<String>,

    /// Write what is needed to make this packet again and verify it
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
    /// The policy that chooses from them, for the same
    Policy,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum HostArgument {
    /// Claude Code
    ClaudeCode,
    /// GitHub Copilot, on the command line and in Visual Studio Code
    Copilot,
    /// A host that takes plain text
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
                // Hosts take some exit codes for an order to stop.
                self.packet.run().map_err(|failure| CliError::Hook(Box::new(failure)))
            }
            None => self.packet.run(),
        }
    }
}

impl Init {
    fn run(&self) -> Result<(), CliError> {
        let root = self.folder.as_deref().unwrap_or(Path::new("."));
        let written = pannier_memory::init(root)?;
        let mut output = Output::new();
        for path in written {
            output.text(&format!("{}\n", printable(&path.display().to_string())))?;
        }
        output.finish()
    }
}

/// A session that waits for its next packet, and where that is remembered.
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
            let problem = "items and policies are no packets; leave --hook and --session out, or print md or json";
            return Err(CliError::Usage(problem.to_owned()));
        }
        let input = match self.hook {
            None => HookInput::default(),
            Some(_) if io::stdin().is_terminal() => HookInput::default(),
            // A host of its own kind may write anything.
            Some(HostArgument::Plain) => HookInput::read(io::stdin().lock()).unwrap_or_default(),
            Some(_) => HookInput::read(io::stdin().lock())?,
        };
        let here = input.cwd.as_deref().unwrap_or(".");
        let folder = Folder::find(self.folder.as_deref().unwrap_or(Path::new(here)));
        if let (Some(_), Err(problem @ MemoryError::NoFolder { .. })) = (self.hook, &folder) {
            // A hook may be set for all projects, and most have nothing to remember.
            tell("nothing to do", &problem.to_string());
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
            tell("warning", &warning.to_string());
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
            let marked = session.cooldowns.record(&session.id, folder.path(), session.now);
            // The packet is there. That it will come again is no reason to fail.
            if let Err(problem) = marked {
                tell("warning", &problem.to_string());
            }
        }
        Ok(())
    }

    /// Whether a session has a packet that is fresh. One that begins anew has none, whatever it had.
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
        let cooldown = self.cooldown.or(minutes).unwrap_or(COOLDOWN);
        let Session { id, cooldowns, now } = session;
        let is_fresh = cooldowns.is_within_cooldown(id, folder.path(), *now, cooldown)?;
        if is_fresh && self.hook.is_none() {
            let seconds = cooldown.as_secs();
            tell(
                "nothing to do",
                &format!("session {} has a packet of the last {seconds} seconds", id.as_str()),
            );
        }
        Ok(is_fresh)
    }

    fn options(&self, config: &Config, input: &HookInput) -> Result<PacketOptions, CliError> {
        // What the host's user is about to do is as good as what was asked.
        let told = input.prompt.iter().chain(&input.file);
        let asked = self.query.iter().chain(&self.files).chain(told).map(String::as_str);
        let mut options = PacketOptions::new(self.now.unwrap_or_else(clock))
            .with_config(config)
            .with_query(asked);
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

    /// The session that this is about, if it is about one.
    fn session(&self, input: &HookInput) -> Result<Option<Session>, CliError> {
        let told = input.session_id.as_deref().filter(|_| self.cooldown.is_some());
        let id = match (self.session.as_deref(), told) {
            (Some(id), _) => Some(SessionId::new(id).map_err(MemoryError::from)?),
            (None, told) => told.map(SessionId::from_host),
        };
        let Some(id) = id else {
            return match self.cooldown {
                Some(_) if self.hook.is_none() => {
                    let problem = "--cooldown is about a session; add --session ID, or --hook HOST";
                    Err(CliError::Usage(problem.to_owned()))
                }
                _ => Ok(None),
            };
        };
        let folder = match state::folder("packets") {
            Ok(folder) => folder,
            Err(problem) => {
                tell("warning", &problem.to_string());
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
            Format::Policy => output.text(&policy(&packer.policy()?)?),
            Format::Md | Format::Json => {
                let packet = packer.packet()?;
                // What a packet does not say, or says where a model does not look for it.
                packet.warnings().for_each(|warning| tell("warning", &warning));
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
                    tell(id, &format!("{path}:{line} is a rule, and rules are in every packet"));
                }
                None => indices.push(find_item(packer.pool(), name)?),
            }
        }
        let answers = packer.explain(&indices)?;
        if self.format == Format::Json {
            return output.json(&answers);
        }
        for answer in &answers {
            let entry = packer.entries()[answer.index];
            let text = explanation::texts(std::slice::from_ref(answer), false);
            let superseded =
                if entry.is_superseded() { ", and says that it is superseded" } else { "" };
            let path = printable(entry.path());
            output
                .text(&format!("{text}\n  It stands at {path}:{}{superseded}\n", entry.line()))?;
        }
        Ok(())
    }
}

fn tell(what: &str, message: &str) {
    // Nobody is left to tell if this fails.
    let _ = writeln!(io::stderr(), "{what}: {}", printable(message));
}

fn policy(policy: &Policy) -> Result<String, CliError> {
    toml::to_string(policy).map_err(|error| CliError::Internal(error.to_string()))
}

/// What the environment says about the budget.
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
