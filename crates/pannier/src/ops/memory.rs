//! Prints a project's memory within a token budget.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use pannier_core::item::find_item;
use pannier_core::{ContextItem, Explanation, TokenCounter};
use pannier_memory::eval::{self, MemoryReport};
use pannier_memory::{
    Config, Coverage, Entry, HookHost, Memory, MemoryError, Packet, PacketBuilder, PacketFormat,
    PacketOptions, PacketPolicy, Section, Sources, Warning, render_entries,
};
use pannier_policy::Policy;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use super::pool::{DEFAULT_TOKENIZER, check_explained, selection_details};
use super::values::{list, non_negative};
use super::{Answer, Control, Count, Date, Request, Sends, Tokens};
use crate::{Failure, Shelf};

/// The tokenizer of specified packets.
const PACKET_TOKENIZER: &str = "bytes/4";

request! {
    /// Print a project's memory within a token budget.
    pub struct MemoryRequest {
        /// .context folder, or a folder in or below its project [default: .]
        #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
        #[serde(alias = "context")]
        pub project: Option<String>,

        /// Token budget, e.g. 8000 or 128k [default: 8k]
        #[arg(long, short, alias = "max-tokens", value_name = "N")]
        pub budget: Option<Tokens>,

        /// Tokens kept free for the model's output [default: 0]
        #[arg(long, short, value_name = "N", allow_negative_numbers = true, help_heading = "Advanced", hide_short_help = true)]
        pub reserve: Option<Tokens>,

        /// Your task; ranks every section
        #[arg(long, value_name = "TEXT")]
        pub query: Option<String>,

        /// File you will work on; repeatable
        #[arg(long = "file", value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
        #[serde(default, deserialize_with = "list")]
        pub files: Vec<String>,

        /// Ids of entries to return whole instead, as "Also noted" lists them
        #[arg(long = "id", value_name = "ID", hide = true)]
        #[serde(default, deserialize_with = "list")]
        pub ids: Vec<String>,

        /// Model, encoding or file:PATH [default: o200k]
        #[arg(long, short, short_alias = 'm', alias = "model", value_name = "NAME")]
        pub tokenizer: Option<String>,

        /// Output format: text, json or jsonl
        #[arg(long, short, value_name = "F", value_enum, hide_possible_values = true)]
        pub format: Option<MemoryFormat>,

        /// Explain why an entry is in or out; repeatable
        #[arg(long, value_name = "ID", hide_short_help = true)]
        #[serde(default, deserialize_with = "list")]
        pub explain: Vec<String>,

        /// Reference time for the age of entries, e.g. 2026-03-01 [default: now]
        #[arg(long, value_name = "TIME", help_heading = "Advanced", hide_short_help = true)]
        pub now: Option<Date>,

        /// Maximum characters, for hosts that truncate
        #[arg(long, value_name = "N", help_heading = "Advanced", hide_short_help = true)]
        pub max_chars: Option<Count>,

        /// Omit your own folder, ~/.config/pannier/context
        #[arg(long, help_heading = "Advanced", hide_short_help = true)]
        #[serde(default)]
        pub no_user: bool,
    }
}

/// The format of a packet. The budget limits the text in this format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum MemoryFormat {
    /// Markdown
    #[default]
    #[cfg_attr(feature = "clap", value(alias = "md"))]
    #[serde(alias = "md")]
    Text,
    /// One line of JSON
    Json,
    /// The entries, one item per line
    #[cfg_attr(feature = "clap", value(alias = "items"))]
    #[serde(alias = "items")]
    Jsonl,
    /// The policy that selects the entries
    #[cfg_attr(feature = "clap", value(hide = true))]
    #[cfg_attr(feature = "schema", schemars(skip))]
    Policy,
}

/// A packet, what it is made from, or the explanations that were asked for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum MemoryAnswer {
    /// The packet as Markdown.
    Text(Packet),
    /// The packet as Markdown, and how its entries were selected.
    Detailed(Packet, serde_json::Value),
    /// The packet as JSON.
    Json(Packet),
    /// The entries.
    Items(Vec<ContextItem>),
    /// The policy that selects the entries.
    Policy(Box<Policy>),
    /// Why entries are in or out.
    Explanations(Vec<Explanation>),
    /// Whole entries by their ids.
    Entries(MemoryEntries),
}

/// Whole entries, as far as they fit the budget.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MemoryEntries {
    /// The entries, in the order of the ids.
    pub entries: Vec<Entry>,
    /// Their Markdown. The last entries may be shortened.
    pub text: String,
}

impl Serialize for MemoryAnswer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Self::Json(packet) = self {
            // The text of a JSON packet is one line of JSON.
            let raw: &RawValue =
                serde_json::from_str(&packet.text).map_err(serde::ser::Error::custom)?;
            return raw.serialize(serializer);
        }
        let mut map = serializer.serialize_map(Some(1))?;
        match self {
            Self::Text(packet) | Self::Detailed(packet, _) | Self::Json(packet) => {
                map.serialize_entry("markdown", &packet.text)?;
            }
            Self::Items(items) => map.serialize_entry("items", items)?,
            Self::Policy(policy) => map.serialize_entry("policy", policy)?,
            Self::Explanations(explanations) => {
                map.serialize_entry("explanations", explanations)?;
            }
            Self::Entries(entries) => map.serialize_entry("markdown", &entries.text)?,
        }
        map.end()
    }
}

impl Answer for MemoryAnswer {
    fn text(&self) -> Cow<'_, str> {
        // Items, policies and explanations always serialize.
        let line = |item: &ContextItem| serde_json::to_string(item).unwrap_or_default() + "\n";
        match self {
            Self::Text(packet) | Self::Detailed(packet, _) | Self::Json(packet) => {
                packet.text.as_str().into()
            }
            Self::Items(items) => items.iter().map(line).collect::<String>().into(),
            Self::Policy(policy) => toml::to_string(policy).unwrap_or_default().into(),
            Self::Explanations(explanations) => {
                serde_json::to_string(explanations).unwrap_or_default().into()
            }
            Self::Entries(entries) => entries.text.as_str().into(),
        }
    }

    fn details(&self) -> serde_json::Value {
        match self {
            Self::Detailed(_, details) => details.clone(),
            _ => serde_json::Value::Null,
        }
    }
}

/// Returns a path below the root of a project, if it is below it.
fn below(root: &Path, file: &str) -> String {
    let path = Path::new(file).strip_prefix(root).unwrap_or(Path::new(file));
    path.to_string_lossy().replace(std::path::MAIN_SEPARATOR, "/")
}

/// Returns the files that a packet is made from.
fn sources(shelf: &Shelf, no_user: bool) -> Sources {
    match shelf.user_memory() {
        Some(_) if !no_user => Sources::User,
        _ => Sources::Project,
    }
}

/// A project's memory that was read, and the settings of its packet.
#[derive(Debug)]
pub struct OpenMemory {
    memory: Memory,
    options: PacketOptions,
    counter: Arc<dyn TokenCounter>,
    format: MemoryFormat,
    ids: Vec<String>,
}

impl MemoryRequest {
    /// Reads the project's memory and its settings.
    ///
    /// The budget is the request's, that of [`Shelf::packet_budget`], the project's, the shelf's, or else 8,000 tokens.
    ///
    /// # Errors
    ///
    /// Any error of `pannier-memory`, the shelf or the tokenizer.
    pub fn open(self, shelf: &Shelf, control: &Control<'_>) -> Result<OpenMemory, Failure> {
        let sources = sources(shelf, self.no_user);
        self.open_with(sources, shelf, control)
    }

    /// Reads what the format's specification names, and selects and prints as it says.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and [`MemoryError::Unread`] if a file could not be read.
    pub fn open_specified(
        self,
        shelf: &Shelf,
        control: &Control<'_>,
    ) -> Result<OpenMemory, Failure> {
        let mut open = self.open_with(Sources::Folder, shelf, control)?;
        if let Some(path) = open.memory.unread().first() {
            let warning = open.memory.warnings().iter().find(|warning| warning.path == *path);
            return Err(
                MemoryError::Unread(warning.map(Warning::to_string).unwrap_or_default()).into()
            );
        }
        open.options.policy = PacketPolicy::PacketSeed;
        Ok(open)
    }

    fn open_with(
        self,
        sources: Sources,
        shelf: &Shelf,
        control: &Control<'_>,
    ) -> Result<OpenMemory, Failure> {
        let folder = shelf.memory(self.project.as_deref())?;
        if sources == Sources::Folder && !folder.path().is_dir() {
            return Err(MemoryError::NoFolder { start: folder.root().to_owned() }.into());
        }
        control.step("reading the project's memory")?;
        let config = Config::read(&folder)?;
        let memory = folder.read_with(sources, shelf.user_memory())?;
        memory.warnings().iter().for_each(|warning| control.warn(warning.to_string()));
        let default = match sources {
            Sources::Folder => PACKET_TOKENIZER,
            _ => DEFAULT_TOKENIZER,
        };
        let counter = shelf.counter(self.tokenizer.as_deref(), default, control)?;
        let query = self.query.iter().chain(&self.files).map(String::as_str);
        let now = self.now.map_or_else(|| SystemTime::now().into(), |Date(time)| time);
        let mut options = PacketOptions::new(now).with_config(&config).with_query(query);
        options.sources = sources;
        if sources != Sources::Folder {
            options.files = self.files.iter().map(|file| below(folder.root(), file)).collect();
        }
        options.include_timestamp = self.now.is_some();
        options.max_characters = self.max_chars.map(|Count(count)| count);
        let format = self.format.unwrap_or_default();
        options.format = match format {
            MemoryFormat::Json => PacketFormat::Json,
            _ => PacketFormat::Markdown,
        };
        let requested = self.budget.map(non_negative).transpose()?.or(shelf.packet_budget());
        options.budget = match (requested, config.token_budget, shelf.defaults().budget) {
            (Some(budget), ..) | (None, Some(budget), _) => budget,
            (None, None, Some(budget)) => non_negative(budget)?,
            (None, None, None) => PacketOptions::BUDGET,
        };
        let reserve = self.reserve.map(non_negative).transpose()?.unwrap_or_default();
        options.budget = options.budget.saturating_sub(reserve);
        control.bound(i64::try_from(options.budget).unwrap_or(i64::MAX), &counter);
        Ok(OpenMemory { memory, options, counter, format, ids: self.ids })
    }
}

impl OpenMemory {
    /// Removes the files that a host shows its model itself.
    #[must_use]
    pub fn for_host(mut self, host: HookHost) -> Self {
        self.memory = self.memory.without_sources(|path| host.reads(path));
        self
    }

    /// Returns the entries with the requested ids, as far as they fit the budget.
    fn entries(&self, control: &Control<'_>) -> Result<MemoryAnswer, Failure> {
        let (mut entries, mut unknown) = (Vec::new(), Vec::new());
        for id in &self.ids {
            match self.memory.entry(id.trim()) {
                Some(entry) if entries.contains(&entry) => {}
                Some(entry) => entries.push(entry),
                None => unknown.push(id.clone()),
            }
        }
        let problem = MemoryError::UnknownEntry { ids: unknown };
        match &problem {
            MemoryError::UnknownEntry { ids } if ids.is_empty() => {}
            _ if entries.is_empty() => return Err(problem.into()),
            _ => control.warn(problem.to_string()),
        }
        let text = render_entries(&entries, self.options.budget, &*self.counter);
        let entries = entries.into_iter().cloned().collect();
        Ok(MemoryAnswer::Entries(MemoryEntries { entries, text }))
    }

    /// Renders and counts the entries.
    ///
    /// # Errors
    ///
    /// An error of the engine if an option is out of its range.
    pub fn builder(&self) -> Result<PacketBuilder<'_>, Failure> {
        let counter = Arc::clone(&self.counter);
        Ok(PacketBuilder::new(&self.memory, self.options.clone(), counter)?)
    }

    /// Returns the packet, or what it is made from.
    ///
    /// # Errors
    ///
    /// An error of the engine if the budget is too large to count.
    pub fn answer(
        &self,
        builder: &PacketBuilder<'_>,
        control: &Control<'_>,
    ) -> Result<MemoryAnswer, Failure> {
        control.step("packing entries")?;
        if !self.ids.is_empty() {
            return self.entries(control);
        }
        Ok(match self.format {
            MemoryFormat::Jsonl => MemoryAnswer::Items(builder.pool().to_vec()),
            MemoryFormat::Policy => MemoryAnswer::Policy(Box::new(builder.policy()?)),
            format => {
                let packet = builder.packet()?;
                // A tool never exceeds its budget; the command prints the rules nevertheless.
                if packet.is_over_budget && control.sends() != Sends::Data {
                    let tokens = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
                    return Err(Failure::AnswerOverBudget {
                        smallest_budget: tokens(packet.min_tokens),
                        budget: tokens(self.options.budget),
                    });
                }
                packet.warnings().for_each(|warning| control.warn(warning));
                match format {
                    MemoryFormat::Json => MemoryAnswer::Json(packet),
                    _ if control.sends() == Sends::Details => {
                        MemoryAnswer::Detailed(packet, selection_details(&builder.selection()?))
                    }
                    _ => MemoryAnswer::Text(packet),
                }
            }
        })
    }

    /// Explains entries by id or index, as far as is known when the run is stopped. Returns a sentence for each rule among
    /// them: rules are in every packet.
    ///
    /// # Errors
    ///
    /// An error of the engine if there is no such entry, or [`Failure::TooManyExplained`].
    pub fn explain<'b>(
        &self,
        builder: &'b PacketBuilder<'_>,
        names: &[String],
        control: &Control<'_>,
    ) -> Result<(Vec<Explanation<&'b ContextItem>>, Vec<String>), Failure> {
        check_explained(names)?;
        let (mut indices, mut rules) = (Vec::new(), Vec::new());
        for name in names {
            let mut all = self.memory.section(Section::Constitution).iter();
            match all.find(|rule| rule.id() == name) {
                Some(rule) => {
                    let (id, path, line) = (rule.id(), rule.path(), rule.line());
                    rules.push(format!(
                        "{id}: {path}:{line} is a rule, and rules are in every packet"
                    ));
                }
                None => indices.push(find_item(builder.pool(), name)?),
            }
        }
        let steps = Explanation::<()>::STEPS.saturating_mul(indices.len() as u64);
        Ok((builder.explain(&indices, &mut control.search(steps))?, rules))
    }
}

impl Request for MemoryRequest {
    const ADVERTISED: &'static [&'static str] = &["query", "files", "budget", "ids"];
    type Answer = MemoryAnswer;

    fn run(mut self, shelf: &Shelf, control: &Control<'_>) -> Result<MemoryAnswer, Failure> {
        let explain = std::mem::take(&mut self.explain);
        let memory = self.open(shelf, control)?;
        let builder = memory.builder()?;
        if explain.is_empty() {
            return memory.answer(&builder, control);
        }
        let (explanations, rules) = memory.explain(&builder, &explain, control)?;
        rules.into_iter().for_each(|rule| control.warn(rule));
        let explanations = explanations.into_iter().map(Explanation::into_owned).collect();
        Ok(MemoryAnswer::Explanations(explanations))
    }
}

request! {
    /// Check what is read of a project's memory.
    pub struct MemoryCheckRequest {
        /// .context folder, or a folder in or below its project [default: .]
        #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
        pub project: Option<String>,
    }
}

/// What is read of each file, and the problems in them.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct MemoryCheckAnswer {
    /// The files.
    pub files: Vec<Coverage>,
    /// The Markdown files and folders of the context folder whose names have no meaning, so that they are not read.
    pub ignored: Vec<String>,
    /// The problems.
    pub warnings: Vec<Warning>,
}

impl MemoryCheckAnswer {
    /// Returns whether every line is read or skipped on purpose, and there is no problem.
    pub fn is_ok(&self) -> bool {
        self.warnings.is_empty() && self.files.iter().all(|file| file.uncovered.is_empty())
    }
}

impl Answer for MemoryCheckAnswer {
    fn text(&self) -> Cow<'_, str> {
        let mut text = String::new();
        for file in &self.files {
            text.push_str(&format!("{}: ", file.path));
            let lines = file.lines;
            text.push_str(&match (file.is_listed, &file.same_as) {
                (true, _) => format!("lines {lines}, listed as a file to read\n"),
                (_, Some(other)) => format!("lines {lines}, the same as {other}\n"),
                (false, None) => {
                    let Coverage { entries, in_entries, headings, done, skipped, .. } = file;
                    format!(
                        "entries {entries}, lines {lines} (in entries {in_entries}, headings {headings}, completed tasks \
                         {done}, comments and separators {skipped}, not read {})\n",
                        file.uncovered.len()
                    )
                }
            });
            for line in &file.uncovered {
                text.push_str(&format!("  {}:{line}: not read\n", file.path));
            }
        }
        for path in &self.ignored {
            text.push_str(&format!("{path}: not read, because packets use no file of this name\n"));
        }
        self.warnings.iter().for_each(|warning| text.push_str(&format!("{warning}\n")));
        text.into()
    }
}

impl Request for MemoryCheckRequest {
    const ADVERTISED: &'static [&'static str] = &[];
    type Answer = MemoryCheckAnswer;

    fn run(self, shelf: &Shelf, control: &Control<'_>) -> Result<MemoryCheckAnswer, Failure> {
        control.step("reading the project's memory")?;
        let folder = shelf.memory(self.project.as_deref())?;
        let memory = folder.read_with(Sources::User, shelf.user_memory())?;
        let (files, warnings) = (memory.coverage().to_vec(), memory.warnings().to_vec());
        Ok(MemoryCheckAnswer { files, ignored: folder.ignored(), warnings })
    }
}

request! {
    /// Measure how well packets of a project's memory answer.
    pub struct EvalMemoryRequest {
        /// .context folder, or a folder in or below its project
        #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
        pub project: Option<String>,

        /// Policy: memory or packet-seed
        #[arg(long, short, value_name = "NAME")]
        pub policy: Option<String>,

        /// Model, encoding or file:PATH [default: o200k]
        #[arg(long, short, short_alias = 'm', alias = "model", value_name = "NAME")]
        pub tokenizer: Option<String>,

        /// Reference time for the age of entries, e.g. 2026-03-01 [default: now]
        #[arg(long, value_name = "TIME")]
        pub now: Option<Date>,

        /// Omit your own folder, ~/.config/pannier/context
        #[arg(long)]
        #[serde(default)]
        pub no_user: bool,
    }
}

/// The measures of a project's memory.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct EvalMemoryAnswer(pub MemoryReport);

impl Answer for EvalMemoryAnswer {
    fn text(&self) -> Cow<'_, str> {
        let MemoryReport { entries, distinct_packets, steps, monotonic_steps, .. } = &self.0;
        let MemoryReport { query_steps, monotonic_query_steps, .. } = &self.0;
        let mut text = format!("entries          {entries}\n");
        for known in &self.0.known_items {
            let (budget, queries, whole) = (known.budget, known.queries, known.whole);
            text.push_str(&format!(
                "at {budget:>5} tokens  {} of {queries} answered: {whole} whole, {} by their paragraph\n",
                known.answered(),
                known.by_paragraph,
            ));
            known.missed.iter().for_each(|id| text.push_str(&format!("  missed {id}\n")));
        }
        let sum = |count: fn(&Coverage) -> usize| self.0.coverage.iter().map(count).sum::<usize>();
        text.push_str(&format!(
            "packets          {distinct_packets} different\nsteps            {monotonic_steps} of {steps} budgets \
             keep all whole entries; with queries {monotonic_query_steps} of {query_steps}\nlines            {} of \
             {} not read\n",
            sum(|file| file.uncovered.len()),
            sum(|file| file.lines),
        ));
        text.into()
    }
}

impl Request for EvalMemoryRequest {
    const ADVERTISED: &'static [&'static str] = &[];
    type Answer = EvalMemoryAnswer;

    fn run(self, shelf: &Shelf, control: &Control<'_>) -> Result<EvalMemoryAnswer, Failure> {
        control.step("reading the project's memory")?;
        let folder = shelf.memory(self.project.as_deref())?;
        // The defaults of `memory`.
        let sources = sources(shelf, self.no_user);
        let config = Config::read(&folder)?;
        let memory = folder.read_with(sources, shelf.user_memory())?;
        let counter = shelf.counter(self.tokenizer.as_deref(), DEFAULT_TOKENIZER, control)?;
        let now = self.now.map_or_else(|| SystemTime::now().into(), |Date(time)| time);
        let mut options = PacketOptions::new(now).with_config(&config);
        if let Some(policy) = &self.policy {
            options.policy = policy.parse()?;
        }
        control.step("packing entries")?;
        Ok(EvalMemoryAnswer(eval::measure(&memory, &options, &counter)?))
    }
}
