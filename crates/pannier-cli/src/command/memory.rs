//! `pannier memory`: a project's memory within a token budget, in a shell or as the hook of an agent.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use pannier::Shelf;
use pannier::ops::{
    Answer, Control, Count, Date, MemoryAnswer, MemoryCheckRequest, MemoryFormat, MemoryRequest,
    OpenMemory, Request, Tokens,
};
use pannier_core::{Explanation, Timestamp};
use pannier_memory::{
    Config, Cooldowns, Folder, HookHost, HookInput, MemoryError, PacketBuilder, Section, SessionId,
    hook_output,
};

use super::inspect::FormatArguments;
use super::pack::RecordArguments;
use super::state::{self, clock};
use super::{explanation, table_view};
use crate::config;
use crate::error::CliError;
use crate::output::{self, Output};
use crate::run::{interruptible, with_notes, with_output};
use crate::table::printable;

/// The time in which a session gets no second packet.
const DEFAULT_COOLDOWN: Duration = Duration::from_secs(600);

/// The settings of a project, for the long help.
const SETTINGS: &str = "\
Examples:
  pannier memory init
  pannier memory --budget 4k
  pannier memory --query 'roll back a deployment' --file src/deploy.rs
  pannier memory get d3fa91c
  pannier memory add task 'Test the rollback'
  pannier memory hook claude-code --cooldown 10m

A file .ctxrc next to .context can set token_budget, task_budget_pct,
convention_budget_pct, decision_budget_pct, learning_budget_pct and
agent_cooldown_minutes. The variable CTX_TOKEN_BUDGET
overrides it; flags override both.";

/// Print or create a project's memory
///
/// Reads the project's .context folder, and files such as AGENTS.md, Cursor's rules and skills. The packet has all rules of
/// the constitution. Of everything else, it has the most relevant in full and lists others by id and title, as far as the
/// budget allows.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    after_long_help = SETTINGS
)]
pub(crate) struct MemoryCommand {
    #[command(subcommand)]
    command: Option<Subcommands>,

    #[command(flatten)]
    show: Show,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    // The default.
    #[command(hide = true)]
    Show(Show),
    Get(Get),
    Check(Check),
    Add(Add),
    Init(Init),
    Hook(Hook),
}

/// Print a project's memory within a token budget: `memory` with the defaults of its format
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, after_long_help = SETTINGS)]
pub(crate) struct Agent {
    #[command(subcommand)]
    command: Option<AgentSubcommands>,

    #[command(flatten)]
    show: Show,
}

#[derive(Debug, Subcommand)]
enum AgentSubcommands {
    Init(Init),
}

/// Create a .context folder
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  pannier memory init")]
struct Init {
    /// Root of the project [default: current folder]
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    folder: Option<PathBuf>,
}

/// Print a project's memory within a token budget
#[derive(Args, Debug)]
struct Show {
    #[command(flatten)]
    request: MemoryRequest,

    #[command(flatten)]
    records: RecordArguments,

    #[command(flatten)]
    sessions: SessionArguments,

    /// Files you will work on
    #[arg(long = "files", value_name = "PATH", num_args = 1.., hide = true)]
    former_files: Vec<String>,

    /// Run as an agent hook
    #[arg(long = "hook", value_enum, value_name = "HOST", hide = true, conflicts_with = "explain")]
    former_hook: Option<HostArgument>,
}

/// Print whole entries by id
///
/// A packet lists the ids of entries that it does not have whole under "Also noted". Entries that exceed the budget are
/// shortened, the last first.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  pannier memory get d3fa91c l07be44")]
struct Get {
    /// Ids of entries
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,

    /// .context folder, or a folder in or below its project [default: .]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    project: Option<String>,

    /// Token budget, e.g. 8000 or 128k [default: 8k]
    #[arg(long, short, value_name = "N")]
    budget: Option<Tokens>,

    /// Model, encoding or file:PATH [default: o200k]
    #[arg(long, short, short_alias = 'm', alias = "model", value_name = "NAME")]
    tokenizer: Option<String>,
}

/// Check what is read of a project's memory
///
/// Lists for each file how many lines are in entries, and the lines that are not read. Exits with 1 if there is such a line
/// or a warning.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  pannier memory check")]
struct Check {
    #[command(flatten)]
    request: MemoryCheckRequest,

    #[command(flatten)]
    format: FormatArguments,
}

/// Add an entry to a .context folder
///
/// The first line of a decision or a learning is its title, or else its first sentence. Prints the id, file and line of the
/// entry.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier memory add task 'Retry a failed payment webhook'
  pannier memory add decision 'Store times in UTC. Reports of two offices disagreed.'")]
struct Add {
    /// Kind: decision, learning, task or convention
    #[arg(value_enum, value_name = "KIND", hide_possible_values = true)]
    kind: KindArgument,

    /// Text of the entry
    #[arg(value_name = "TEXT")]
    text: String,

    /// .context folder, or a folder in or below its project [default: .]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    project: Option<PathBuf>,

    /// Time of the entry, e.g. 2026-03-01 [default: now]
    #[arg(long, value_name = "TIME")]
    now: Option<Date>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum KindArgument {
    Decision,
    Learning,
    Task,
    Convention,
}

/// Run as an agent hook
///
/// Reads the host's hook input, and prints the memory in the host's hook format. The user's prompt is the query. The host
/// names the session: during a cooldown, the same event or prompt gets no second packet, except for a session that starts.
/// Without a memory, the hook prints nothing.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier memory hook claude-code
  pannier memory hook copilot --cooldown 10m")]
struct Hook {
    /// Host: claude-code, copilot or plain
    #[arg(value_enum, value_name = "HOST", hide_possible_values = true)]
    host: HostArgument,

    #[command(flatten)]
    request: MemoryRequest,

    #[command(flatten)]
    sessions: SessionArguments,
}

#[derive(Args, Clone, Debug)]
struct SessionArguments {
    /// Session of the packet; prints nothing during its cooldown
    #[arg(
        long,
        value_name = "ID",
        help_heading = "Advanced",
        hide_short_help = true,
        conflicts_with = "explain"
    )]
    session: Option<String>,

    /// Time between two packets of a session, e.g. 90s, 10m or 1h [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Advanced", hide_short_help = true)]
    cooldown: Option<Duration>,
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

impl MemoryCommand {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        match &self.command {
            Some(Subcommands::Init(init)) => init.run(),
            Some(Subcommands::Get(get)) => get.run(),
            Some(Subcommands::Check(check)) => check.run(),
            Some(Subcommands::Add(add)) => add.run(),
            Some(Subcommands::Hook(hook)) => {
                let Hook { host, request, sessions } = hook;
                let (request, hook) = (request.clone(), Some((*host).into()));
                Run { request, sessions, records: None, hook, is_specified: false }
                    .run_in(config::shelf)
            }
            Some(Subcommands::Show(show)) => show.prepare().run_in(config::shelf),
            None => self.show.prepare().run_in(config::shelf),
        }
    }
}

impl Agent {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        if let Some(AgentSubcommands::Init(init)) = &self.command {
            return init.run();
        }
        let mut run = self.show.prepare();
        // As specified, regardless of other settings.
        run.request.tokenizer.get_or_insert_with(|| "bytes/4".to_owned());
        run.is_specified = true;
        run.run_in(|| Ok(Shelf::local()))
    }
}

impl Get {
    fn run(&self) -> Result<(), CliError> {
        let mut request = MemoryRequest { ids: self.ids.clone(), ..MemoryRequest::default() };
        request.project.clone_from(&self.project);
        (request.budget, request.tokenizer) = (self.budget, self.tokenizer.clone());
        let mut shelf = config::shelf()?;
        if request.budget.is_none() {
            shelf = shelf.with_packet_budget(variable_budget()?);
        }
        let answer = with_notes(interruptible(), |control| request.run(&shelf, control))?;
        output::print(&answer.text())
    }
}

impl Check {
    fn run(&self) -> Result<(), CliError> {
        let shelf = config::shelf()?;
        let answer =
            with_notes(interruptible(), |control| self.request.clone().run(&shelf, control))?;
        output::print_answer(
            self.format.format.is_json(),
            || &answer,
            || answer.text().into_owned(),
        )?;
        if answer.is_ok() { Ok(()) } else { Err(CliError::Check) }
    }
}

impl Add {
    fn run(&self) -> Result<(), CliError> {
        let section = match self.kind {
            KindArgument::Decision => Section::Decisions,
            KindArgument::Learning => Section::Learnings,
            KindArgument::Task => Section::Tasks,
            KindArgument::Convention => Section::Conventions,
        };
        let folder = Folder::find(self.project.as_deref().unwrap_or(Path::new(".")))?;
        let now = self.now.map_or_else(clock, |Date(time)| time);
        let entry = folder.add(section, &self.text, now, &state::state_dir("locks")?)?;
        let (id, path) = (entry.short_id(), printable(entry.path()));
        output::print(&format!("{id} {path}:{}\n", entry.line()))
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

impl Show {
    fn prepare(&self) -> Run<'_> {
        let mut request = self.request.clone();
        request.files.extend_from_slice(&self.former_files);
        let hook = self.former_hook.map(HookHost::from);
        Run {
            request,
            sessions: &self.sessions,
            records: Some(&self.records),
            hook,
            is_specified: false,
        }
    }
}

/// What a run prints, and how.
struct Run<'r> {
    request: MemoryRequest,
    sessions: &'r SessionArguments,
    records: Option<&'r RecordArguments>,
    hook: Option<HookHost>,
    /// Whether the output is that of the specified command.
    is_specified: bool,
}

/// A session and its cooldown.
struct Session {
    id: SessionId,
    cooldowns: Cooldowns,
    now: Timestamp,
}

impl Run<'_> {
    fn run_in(self, shelf: impl FnOnce() -> Result<Shelf, CliError>) -> Result<(), CliError> {
        let is_hook = self.hook.is_some();
        let result = shelf().and_then(|shelf| self.run(shelf));
        // Hosts read some exit codes as an order to block.
        if is_hook { result.map_err(|error| CliError::Hook(Box::new(error))) } else { result }
    }

    fn run(mut self, mut shelf: Shelf) -> Result<(), CliError> {
        let is_packet =
            matches!(self.request.format, None | Some(MemoryFormat::Text | MemoryFormat::Json));
        let explain = std::mem::take(&mut self.request.explain);
        if (self.hook.is_some() || self.sessions.session.is_some())
            && (!is_packet || !explain.is_empty())
        {
            let problem = "hooks and --session need a packet; use --format text or json";
            return Err(CliError::Usage(problem.to_owned()));
        }
        if let Some(records) = self.records {
            records.check(&[])?;
        }
        let input = self.read_hook_input()?;
        let start = self.request.project.as_deref().unwrap_or(".");
        let folder = match self.is_specified {
            true => Folder::find(start),
            false => Folder::find_project(start),
        };
        if let (Some(_), Err(problem @ MemoryError::NoFolder { .. })) = (self.hook, &folder) {
            // A hook may be installed for all projects, also for those without memory.
            output::note(&format!("nothing to do: {problem}"));
            return Ok(());
        }
        let folder = folder?;
        let cooldown = self.cooldown(&folder)?;
        let session = self.session(&input)?;
        if let Some(session) = &session
            && self.is_fresh(session, &folder, &input, cooldown)?
        {
            return Ok(());
        }
        if self.request.budget.is_none() {
            shelf = shelf.with_packet_budget(variable_budget()?);
        }
        with_output(interruptible(), |control| {
            let request = self.request.clone();
            let memory = match self.is_specified {
                true => request.open_specified(&shelf, control)?,
                false => request.open(&shelf, control)?,
            };
            let memory = match self.hook {
                Some(host) => memory.for_host(host),
                None => memory,
            };
            let builder = memory.builder()?;
            let mut output = Output::new();
            if self.write_records(&builder, &mut output)? {
                return output.finish();
            }
            match explain.is_empty() {
                true => {
                    let is_wanted = || match &session {
                        Some(session) => self.take(session, &folder, &input, cooldown),
                        None => true,
                    };
                    self.print_packet(&memory, &builder, &input, is_wanted, control)
                }
                false => self.print_explanations(&memory, &builder, &explain, control),
            }
        })
    }

    /// Takes the cooldown of a session. Returns whether the packet is to be printed: of several calls at the same time, one
    /// prints.
    fn take(
        &self,
        session: &Session,
        folder: &Folder,
        input: &HookInput,
        cooldown: Duration,
    ) -> bool {
        let Session { id, cooldowns, now } = session;
        let cooldown = if self.starts_session(input) { Duration::ZERO } else { cooldown };
        cooldowns.take(id, session_path(folder), *now, cooldown).unwrap_or_else(|error| {
            // Without a record, an early repetition is harmless.
            output::warn(&error.to_string());
            true
        })
    }

    /// Returns whether a hook runs because its session starts.
    fn starts_session(&self, input: &HookInput) -> bool {
        let event = input.event.as_deref().unwrap_or_default();
        self.hook.is_some() && event.eq_ignore_ascii_case("SessionStart")
    }

    /// Returns the time between two packets of a session.
    fn cooldown(&self, folder: &Folder) -> Result<Duration, CliError> {
        let minutes = Config::read(folder)?.agent_cooldown_minutes;
        let minutes = minutes.map(|minutes| Duration::from_secs(minutes.saturating_mul(60)));
        Ok(self.sessions.cooldown.or(minutes).unwrap_or(DEFAULT_COOLDOWN))
    }

    /// Reads the input of a hook, and completes the request by it.
    fn read_hook_input(&mut self) -> Result<HookInput, CliError> {
        let Some(host) = self.hook else { return Ok(HookInput::default()) };
        let input = match host {
            _ if io::stdin().is_terminal() => HookInput::default(),
            // An unknown host may write anything.
            HookHost::Plain => HookInput::read(io::stdin().lock()).unwrap_or_default(),
            _ => HookInput::read(io::stdin().lock())?,
        };
        let request = &mut self.request;
        request.project = request.project.take().or_else(|| input.cwd.clone());
        // The user's prompt and the tool's file are part of the query, too.
        request.files.extend(input.file.clone());
        if let Some(prompt) = &input.prompt {
            let query = request.query.take().map(|query| query + " ");
            request.query = Some(query.unwrap_or_default() + prompt);
        }
        let max_chars = request.max_chars.map(|count| count.0);
        request.max_chars = max_chars.or(host.max_characters()).map(Count);
        Ok(input)
    }

    /// Returns whether a session is within its cooldown. A session that starts has none.
    fn is_fresh(
        &self,
        session: &Session,
        folder: &Folder,
        input: &HookInput,
        cooldown: Duration,
    ) -> Result<bool, CliError> {
        if self.starts_session(input) {
            return Ok(false);
        }
        let Session { id, cooldowns, now } = session;
        let is_fresh = cooldowns.is_within_cooldown(id, session_path(folder), *now, cooldown)?;
        if is_fresh && self.hook.is_none() {
            let seconds = cooldown.as_secs();
            let id = id.as_str();
            output::note(&format!(
                "nothing to do: session {id} has a packet of the last {seconds} seconds"
            ));
        }
        Ok(is_fresh)
    }

    /// Returns the session of --session or of the host.
    fn session(&self, input: &HookInput) -> Result<Option<Session>, CliError> {
        let SessionArguments { session, cooldown } = self.sessions;
        let id = match (session.as_deref(), input.session_id.as_deref()) {
            (Some(id), _) => Some(SessionId::new(id).map_err(MemoryError::from)?),
            (None, from_host) => from_host.map(SessionId::from_host),
        };
        // Another event, or another prompt, has a cooldown of its own: its packet is another one.
        let id = id.map(|id| match (&input.event, &input.prompt) {
            (None, None) => id,
            (event, prompt) => {
                let event = event.as_deref().unwrap_or_default().to_lowercase();
                let prompt = prompt.as_deref().unwrap_or_default();
                SessionId::from_host(&format!("{id}\n{event}\n{prompt}"))
            }
        });
        let Some(id) = id else {
            return match cooldown {
                Some(_) if self.hook.is_none() => {
                    let problem =
                        "--cooldown needs a session; add --session ID, or use `memory hook`";
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
        let now = self.request.now.map_or_else(clock, |Date(time)| time);
        Ok(Some(Session { id, cooldowns: Cooldowns::in_folder(folder), now }))
    }

    /// Writes the report and the receipt. Returns whether the report replaces the packet.
    fn write_records(
        &self,
        builder: &PacketBuilder<'_>,
        output: &mut Output,
    ) -> Result<bool, CliError> {
        let Some(records) = self.records else { return Ok(false) };
        if let Some(path) = records.receipt() {
            output::write_json(path, &builder.receipt()?)?;
        }
        if records.report().is_none() {
            return Ok(false);
        }
        let selection = builder.selection()?;
        records.write_report(&selection, || selection.report(), output)
    }

    fn print_packet(
        &self,
        memory: &OpenMemory,
        builder: &PacketBuilder<'_>,
        input: &HookInput,
        is_wanted: impl FnOnce() -> bool,
        control: &Control<'_>,
    ) -> Result<(), CliError> {
        let answer = memory.answer(builder, control)?;
        output::print_notes(&control.take_notes());
        if let MemoryAnswer::Text(packet) | MemoryAnswer::Json(packet) = &answer
            && self.hook.is_some()
            && !self.is_specified
            && packet.is_empty
        {
            output::note("nothing to do: the packet would be empty");
            return Ok(());
        }
        if !is_wanted() {
            return Ok(());
        }
        match (self.hook, &answer) {
            (Some(host), MemoryAnswer::Text(packet) | MemoryAnswer::Json(packet)) => {
                output::print(&hook_output(host, input.event.as_deref(), &packet.text)?)
            }
            _ => output::print(&answer.text()),
        }?;
        let is_packet = matches!(answer, MemoryAnswer::Text(_) | MemoryAnswer::Json(_));
        // The hint takes a second run.
        if !self.is_specified && is_packet && output::has_hints() {
            output::hint(&table_view::summary(&builder.selection()?));
        }
        Ok(())
    }

    fn print_explanations(
        &self,
        memory: &OpenMemory,
        builder: &PacketBuilder<'_>,
        names: &[String],
        control: &Control<'_>,
    ) -> Result<(), CliError> {
        let (explanations, rules) = memory.explain(builder, names, control)?;
        rules.iter().for_each(|rule| output::note(rule));
        let mut output = Output::new();
        if self.request.format == Some(MemoryFormat::Json) {
            match self.is_specified {
                true => output.json(&explanations)?,
                false => {
                    let owned = explanations.into_iter().map(Explanation::into_owned).collect();
                    output.json(&MemoryAnswer::Explanations(owned))?;
                }
            }
            return output.finish();
        }
        for explained in &explanations {
            let entry = builder.entries()[explained.index];
            let text = explanation::texts(std::slice::from_ref(explained), false);
            let superseded =
                if entry.is_superseded() { ", and says that it is superseded" } else { "" };
            let path = printable(entry.path());
            output.text(&format!("{text}\n  It is at {path}:{}{superseded}\n", entry.line()))?;
        }
        output.finish()
    }
}

/// Returns the folder that a session's packets are recorded for.
fn session_path(folder: &Folder) -> &Path {
    if folder.path().is_dir() { folder.path() } else { folder.root() }
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
