//! Prints a project's memory within a token budget.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::SystemTime;

use pannier_core::item::find_item;
use pannier_core::{ContextItem, Explanation, TokenCounter};
use pannier_memory::{Config, Memory, Packet, PacketBuilder, PacketFormat, PacketOptions, Section};
use pannier_policy::Policy;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use super::pool::check_explained;
use super::values::{list, non_negative};
use super::{Answer, Control, Count, Date, Request, Tokens};
use crate::{Failure, Shelf};

/// The tokenizer of packets, which their format specifies.
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

        /// Your task; ranks decisions and learnings
        #[arg(long, value_name = "TEXT")]
        pub query: Option<String>,

        /// File you will work on, for ranking only; repeatable
        #[arg(long = "file", value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
        #[serde(default, deserialize_with = "list")]
        pub files: Vec<String>,

        /// Model, encoding or file:PATH [default: bytes/4]
        #[arg(long, short, short_alias = 'm', alias = "model", value_name = "NAME")]
        pub tokenizer: Option<String>,

        /// Output format: text, json or jsonl
        #[arg(long, short, value_name = "F", value_enum, hide_possible_values = true)]
        pub format: Option<MemoryFormat>,

        /// Explain why an entry is in or out; repeatable
        #[arg(long, value_name = "ID")]
        #[serde(default, deserialize_with = "list")]
        pub explain: Vec<String>,

        /// Reference time for the age of entries, e.g. 2026-03-01 [default: now]
        #[arg(long, value_name = "TIME", help_heading = "Advanced", hide_short_help = true)]
        pub now: Option<Date>,

        /// Maximum characters, for hosts that truncate
        #[arg(long, value_name = "N", help_heading = "Advanced", hide_short_help = true)]
        pub max_chars: Option<Count>,
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
    /// The packet as JSON.
    Json(Packet),
    /// The entries.
    Items(Vec<ContextItem>),
    /// The policy that selects the entries.
    Policy(Box<Policy>),
    /// Why entries are in or out.
    Explanations(Vec<Explanation>),
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
            Self::Text(packet) | Self::Json(packet) => {
                map.serialize_entry("markdown", &packet.text)?;
            }
            Self::Items(items) => map.serialize_entry("items", items)?,
            Self::Policy(policy) => map.serialize_entry("policy", policy)?,
            Self::Explanations(explanations) => {
                map.serialize_entry("explanations", explanations)?;
            }
        }
        map.end()
    }
}

impl Answer for MemoryAnswer {
    fn text(&self) -> Cow<'_, str> {
        // Items, policies and explanations always serialize.
        let line = |item: &ContextItem| serde_json::to_string(item).unwrap_or_default() + "\n";
        match self {
            Self::Text(packet) | Self::Json(packet) => packet.text.as_str().into(),
            Self::Items(items) => items.iter().map(line).collect::<String>().into(),
            Self::Policy(policy) => toml::to_string(policy).unwrap_or_default().into(),
            Self::Explanations(explanations) => {
                serde_json::to_string(explanations).unwrap_or_default().into()
            }
        }
    }
}

/// A project's memory that was read, and the settings of its packet.
#[derive(Debug)]
pub struct OpenMemory {
    memory: Memory,
    options: PacketOptions,
    counter: Arc<dyn TokenCounter>,
    format: MemoryFormat,
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
        let folder = shelf.memory(self.project.as_deref())?;
        control.step("reading the project's memory")?;
        let config = Config::read(&folder)?;
        let memory = folder.read()?;
        memory.warnings().iter().for_each(|warning| control.warn(warning.to_string()));
        let counter = shelf.counter(self.tokenizer.as_deref(), PACKET_TOKENIZER, control)?;
        let query = self.query.iter().chain(&self.files).map(String::as_str);
        let now = self.now.map_or_else(|| SystemTime::now().into(), |Date(time)| time);
        let mut options = PacketOptions::new(now).with_config(&config).with_query(query);
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
        Ok(OpenMemory { memory, options, counter, format })
    }
}

impl OpenMemory {
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
        Ok(match self.format {
            MemoryFormat::Jsonl => MemoryAnswer::Items(builder.pool().to_vec()),
            MemoryFormat::Policy => MemoryAnswer::Policy(Box::new(builder.policy()?)),
            format => {
                let packet = builder.packet()?;
                packet.warnings().for_each(|warning| control.warn(warning));
                match format {
                    MemoryFormat::Json => MemoryAnswer::Json(packet),
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
    const ADVERTISED: &'static [&'static str] = &["query", "files", "budget"];
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
