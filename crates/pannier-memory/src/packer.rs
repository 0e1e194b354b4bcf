//! Builds a packet from a project's memory.
//!
//! The budget bounds the printed text, including headings, bullets and the token count. The frame (header, files to read,
//! constitution, instruction) is in every packet; all other entries compete for the remaining budget.
//!
//! In packets of the specification, the selected tasks supply the keywords that score decisions and learnings. So there
//! are two runs: the first selects the tasks, whose scores do not depend on keywords; the second selects everything with
//! the keywords of those tasks. Otherwise the most urgent tasks supply them, and one run selects everything.

mod explain;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use pannier_core::item::{ContextSource, MetadataValue};
use pannier_core::report::SelectionReport;
use pannier_core::score::MetadataTrustScorer;
use pannier_core::{ContextBudget, ContextItem, Pipeline, Selection, Timestamp, TokenCounter};
use pannier_policy::{Policy, PolicyRegistry, Receipt, ReceiptSource, Replay, RunConfig};
use serde::{Deserialize, Serialize};

use crate::policy::{PacketPolicy, SUPERSEDED_TRUST, kind, memory_policy, seed_policy};
use crate::render::{
    PacketFill, PacketFormat, PacketFrame, PacketLayout, RenderedEntries, entries_within,
};
use crate::{Config, Entry, Memory, MemoryError, Section, Sources, keywords};

/// The source kind in receipts of packets.
const KIND: &str = "memory";

/// The maximum length of the tasks that score other entries. One task is used regardless of its length.
const MAX_TASK_BYTES: usize = 1 << 10;

/// The settings of a packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PacketOptions {
    /// The maximum number of tokens.
    pub budget: usize,
    /// The maximum number of characters; unlimited if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_characters: Option<usize>,
    /// The output format.
    pub format: PacketFormat,
    /// The policy that selects the entries.
    #[serde(
        default = "PacketPolicy::of_old_receipts",
        skip_serializing_if = "PacketPolicy::is_seed"
    )]
    pub policy: PacketPolicy,
    /// The share of tasks, in percent: a guarantee of what the rules leave, and in the specification's packets a maximum.
    pub task_percent: f64,
    /// The share of conventions, as that of tasks.
    pub convention_percent: f64,
    /// The guaranteed share of decisions; the specification has none.
    #[serde(default = "scored_percent", skip_serializing_if = "is_scored_percent")]
    pub decision_percent: f64,
    /// The guaranteed share of learnings; the specification has none.
    #[serde(default = "scored_percent", skip_serializing_if = "is_scored_percent")]
    pub learning_percent: f64,
    /// The work at hand: entries that match it score higher. In the specification's packets, decisions and learnings only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// The files that the work concerns. Rules with matching patterns are in the packet, and others only named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// The files that the memory was read from.
    #[serde(default, skip_serializing_if = "Sources::is_folder")]
    pub sources: Sources,
    /// The current time, against which the age of entries is measured.
    pub now: Timestamp,
    /// Whether a JSON packet contains the current time. Receipts hash the key `tells_time`.
    #[serde(rename = "tells_time")]
    pub include_timestamp: bool,
}

fn scored_percent() -> f64 {
    PacketOptions::SCORED_PERCENT
}

fn is_scored_percent(percent: &f64) -> bool {
    *percent == PacketOptions::SCORED_PERCENT
}

impl PacketOptions {
    /// The default budget in tokens.
    pub const BUDGET: usize = 8_000;
    /// The default of [`task_percent`](Self::task_percent).
    pub const TASK_PERCENT: f64 = 40.0;
    /// The default of [`convention_percent`](Self::convention_percent).
    pub const CONVENTION_PERCENT: f64 = 20.0;
    /// The default of [`decision_percent`](Self::decision_percent) and [`learning_percent`](Self::learning_percent).
    pub const SCORED_PERCENT: f64 = 20.0;

    /// Applies the values that a configuration sets.
    ///
    /// ```
    /// use pannier_memory::{Config, PacketOptions};
    ///
    /// let config = Config::parse(".ctxrc".as_ref(), "token_budget: 600\ntask_budget_pct: 0.29\n")?;
    /// let options = PacketOptions::new("2026-03-01T12:00:00Z".parse()?);
    /// let options = options.with_config(&config).with_query(["fix the roof", "src/roof.rs"]);
    /// assert_eq!((options.budget, options.task_percent), (600, 29.0));
    /// assert_eq!(options.convention_percent, PacketOptions::CONVENTION_PERCENT);
    /// assert_eq!(options.query.as_deref(), Some("fix the roof src/roof.rs"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_config(mut self, config: &Config) -> Self {
        let percent = |share: Option<f64>, default: f64| {
            // Rounded: 0.29 * 100.0 is not 29.0.
            share.map_or(default, |share| (share * 1e11).round() / 1e9)
        };
        self.budget = config.token_budget.unwrap_or(self.budget);
        self.task_percent = percent(config.task_budget_pct, self.task_percent);
        self.convention_percent = percent(config.convention_budget_pct, self.convention_percent);
        self.decision_percent = percent(config.decision_budget_pct, self.decision_percent);
        self.learning_percent = percent(config.learning_budget_pct, self.learning_percent);
        self
    }

    /// Sets the query to these texts, such as the request and the paths it concerns. Blank texts set none.
    #[must_use]
    pub fn with_query<'t>(mut self, texts: impl IntoIterator<Item = &'t str>) -> Self {
        let query = texts.into_iter().collect::<Vec<_>>().join(" ");
        self.query = Some(query).filter(|query| !query.trim().is_empty());
        self
    }

    /// Returns the defaults: 8,000 tokens of Markdown.
    pub fn new(now: Timestamp) -> Self {
        Self {
            budget: Self::BUDGET,
            max_characters: None,
            format: PacketFormat::default(),
            task_percent: Self::TASK_PERCENT,
            convention_percent: Self::CONVENTION_PERCENT,
            policy: PacketPolicy::default(),
            decision_percent: Self::SCORED_PERCENT,
            learning_percent: Self::SCORED_PERCENT,
            query: None,
            files: Vec::new(),
            sources: Sources::default(),
            now,
            include_timestamp: false,
        }
    }
}

/// Builds packets from a project's memory.
///
/// ```
/// use std::sync::Arc;
///
/// use pannier_memory::{Memory, PacketBuilder, PacketOptions};
/// use pannier_tokens::BytesOverFour;
///
/// let memory = Memory::from_files([
///     ("CONSTITUTION.md", "- [ ] Never row alone.\n"),
///     ("TASKS.md", "- [ ] Paint the oars\n"),
/// ]);
/// let options = PacketOptions::new("2026-11-16T12:00:00Z".parse()?);
/// let packet = PacketBuilder::new(&memory, options, Arc::new(BytesOverFour))?.packet()?;
/// assert!(packet.text.contains("- [ ] Paint the oars\n") && packet.tokens_used < 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct PacketBuilder<'m> {
    memory: &'m Memory,
    options: PacketOptions,
    counter: Arc<dyn TokenCounter>,
    /// The entries of the pool: all but the rules.
    entries: Arc<[&'m Entry]>,
    pool: Arc<Vec<ContextItem>>,
    rendered: Arc<RenderedEntries>,
    /// The policy of the first run.
    policy: Policy,
    /// One for each [`PacketFill`], in that order.
    layouts: [PacketLayout; 4],
    /// The result of [`character_limit`](Self::character_limit).
    character_limit: OnceLock<(usize, usize)>,
}

/// The text that an agent receives, with its counts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Packet {
    /// The text, with its final newline.
    pub text: String,
    /// The number of tokens of the text.
    pub tokens_used: usize,
    /// The budget that the entries were selected for. A character limit may make it smaller than the requested one.
    pub budget: usize,
    /// The tokens of the frame alone; if the packet is over budget, the smallest budget that fits the frame.
    pub min_tokens: usize,
    /// Whether the text exceeds the budget. Only the frame can cause this.
    pub is_over_budget: bool,
    /// Whether the text exceeds the character limit. Only the frame can cause this.
    pub is_over_characters: bool,
    /// The requested budget and character limit.
    requested: (usize, Option<usize>),
}

impl Packet {
    /// Returns a message for each limit that the packet exceeds, for users rather than the model.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let (budget, max_characters) = self.requested;
        let tokens = self.is_over_budget.then(|| {
            format!(
                "the packet has {} tokens, above the budget of {budget}: the rules, the files to read and the \
                 instruction are in every packet; raise the budget to {}, or shorten the constitution",
                self.tokens_used, self.min_tokens
            )
        });
        let characters = max_characters.filter(|_| self.is_over_characters).map(|limit| {
            format!(
                "the packet has {} characters, above the limit of {limit}: the rules are in every packet; shorten the \
                 constitution",
                self.text.chars().count()
            )
        });
        tokens.into_iter().chain(characters)
    }
}

/// A selection, with the pipeline and the budget it came from.
struct PacketSelection<'p> {
    layout: PacketLayout,
    policy: Policy,
    pipeline: Pipeline,
    budget: ContextBudget,
    selection: Selection<'p>,
}

impl PacketSelection<'_> {
    /// Renders the packet and counts its tokens.
    fn text(&self) -> (String, usize) {
        self.layout.text(&self.selection.placed())
    }
}

impl<'m> PacketBuilder<'m> {
    /// Returns a builder for the entries of `memory`.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Engine`] if an option is out of its range.
    pub fn new(
        memory: &'m Memory,
        options: PacketOptions,
        counter: Arc<dyn TokenCounter>,
    ) -> Result<Self, MemoryError> {
        let entries = pool_entries(memory, options.policy);
        let mut rendered = RenderedEntries::new(memory, &entries, &options, &*counter);
        let pool = Arc::new(pool(&entries, &options, &mut rendered)?);
        let policy = match options.policy {
            PacketPolicy::PacketSeed => seed_policy(&options, Vec::new())?,
            PacketPolicy::Memory => {
                let tasks = urgent_tasks(&entries, &pool);
                memory_policy(&options, keywords(tasks.iter().copied()), &tasks.join("\n"))?
            }
        };
        // Checks the ranges of the options.
        policy.pipeline()?;
        let (entries, character_limit) = (entries.into(), OnceLock::new());
        let rendered = Arc::new(rendered);
        let layouts = layouts(&rendered, &options, &counter);
        Ok(Self {
            memory,
            options,
            counter,
            entries,
            pool,
            rendered,
            policy,
            layouts,
            character_limit,
        })
    }

    /// Returns a builder with another budget. It shares the rendered entries.
    fn with_budget(&self, budget: usize) -> Self {
        let options = PacketOptions { budget, ..self.options.clone() };
        let layouts = layouts(&self.rendered, &options, &self.counter);
        Self { options, layouts, character_limit: OnceLock::new(), ..self.clone() }
    }

    /// Counts the tokens of the frame alone.
    fn min_tokens(&self) -> usize {
        self.layouts[2].frame_tokens()
    }

    /// Returns the smallest budget that fits the frame, which prints the budget's own digits.
    fn min_budget(&self) -> usize {
        let mut budget = self.min_tokens();
        // Ascending, so the first budget that holds is the smallest.
        for _ in 0..8 {
            let tokens = self.with_budget(budget).min_tokens();
            if tokens <= budget {
                break;
            }
            budget = tokens;
        }
        budget
    }

    /// Counts the tokens of a packet with all entries whole.
    fn whole_tokens(&self) -> usize {
        self.layouts[0].whole_tokens()
    }

    /// Returns the settings.
    pub fn options(&self) -> &PacketOptions {
        &self.options
    }

    /// Returns the items that compete for the budget: tasks, conventions, decisions and learnings. Their token counts
    /// include bullets and headings as printed.
    pub fn pool(&self) -> &[ContextItem] {
        &self.pool
    }

    /// Returns the entries of the pool, in its order.
    pub fn entries(&self) -> &[&'m Entry] {
        &self.entries
    }

    /// Returns the policy that selects the entries.
    ///
    /// # Errors
    ///
    /// As [`packet`](Self::packet).
    pub fn policy(&self) -> Result<Policy, MemoryError> {
        Ok(self.select(self.effective_budget())?.policy)
    }

    /// Builds the packet.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Engine`] if the budget is too large to count.
    pub fn packet(&self) -> Result<Packet, MemoryError> {
        self.packet_with_budget(self.effective_budget())
    }

    /// Returns the requested budget, or the tokens that the character limit allows if those are fewer. A limit that
    /// even the frame exceeds leaves the frame's budget.
    fn effective_budget(&self) -> usize {
        let requested = self.options.budget;
        match self.character_limit() {
            None => requested,
            Some((_, tokens)) => requested.min(tokens.max(self.min_tokens())),
        }
    }

    /// Returns the character limit that binds a packet, with the tokens that stand for it.
    fn character_limit(&self) -> Option<(usize, usize)> {
        let max_characters = self.options.max_characters?;
        let limit = self.character_limit.get_or_init(|| {
            let entries = &self.layouts[0];
            (max_characters, entries.tokens_for_characters(max_characters))
        });
        Some(*limit)
    }

    pub(crate) fn packet_with_budget(&self, budget: usize) -> Result<Packet, MemoryError> {
        let (text, tokens_used) = self.select(budget)?.text();
        let max_characters = self.options.max_characters;
        let is_over_characters = max_characters.is_some_and(|limit| text.chars().count() > limit);
        let is_over_budget = tokens_used > budget;
        let min_tokens = match is_over_budget {
            true => self.min_budget(),
            false => self.min_tokens(),
        };
        let requested = (self.options.budget, max_characters);
        Ok(Packet {
            text,
            tokens_used,
            budget,
            min_tokens,
            is_over_budget,
            is_over_characters,
            requested,
        })
    }

    /// Selects the entries of a packet with this budget. The specification's packets take two runs: which tasks are in, and
    /// with their keywords everything.
    fn select(&self, budget: usize) -> Result<PacketSelection<'_>, MemoryError> {
        let (layout, limit) = self.layout_for(budget);
        let budget = ContextBudget::new(limit, limit)?;
        let run = |policy: Policy| -> Result<PacketSelection<'_>, MemoryError> {
            let pipeline = PolicyRegistry::default().pipeline(&policy, None)?;
            let pipeline = pipeline.with_layout(layout.clone());
            let selection = pipeline.run(&*self.pool, &budget)?;
            let (layout, budget) = (layout.clone(), budget.clone());
            Ok(PacketSelection { layout, policy, pipeline, budget, selection })
        };
        let first = run(self.policy.clone())?;
        if self.options.policy == PacketPolicy::Memory {
            return Ok(first);
        }
        let mut selected: Vec<usize> = whole_entries(&first.selection).collect();
        selected.sort_unstable();
        let is_task = |index: &&usize| self.entries[**index].section() == Section::Tasks;
        let tasks = selected.iter().filter(is_task).map(|index| self.entries[*index].text());
        run(seed_policy(&self.options, keywords(tasks))?)
    }

    /// Returns the positions in the [pool](Self::pool) of the entries that the packet has whole.
    ///
    /// # Errors
    ///
    /// As [`packet`](Self::packet).
    pub fn whole_indices(&self) -> Result<BTreeSet<usize>, MemoryError> {
        Ok(whole_entries(&self.selection()?).collect())
    }

    /// Returns the layout that a budget allows, and the limit of its tokens.
    fn layout_for(&self, budget: usize) -> (PacketLayout, i64) {
        let [entries, others @ .., over_budget] = &self.layouts;
        let limit = i64::try_from(budget).unwrap_or(i64::MAX);
        let layout = match entries.fixed() <= limit || entries.whole_fits(budget) {
            true => entries,
            false => {
                others.iter().find(|layout| layout.frame_tokens() <= budget).unwrap_or(over_budget)
            }
        };
        // `fixed` assumes the widest token count and omits all entries, so a packet may fit although `fixed` does not.
        let limit = limit.max(layout.fixed());
        let layout = layout.clone();
        match self.character_limit() {
            Some((max_characters, _)) if layout.frame_characters() <= max_characters => {
                let tokens = usize::try_from(limit).unwrap_or(usize::MAX);
                (layout.with_character_limit(max_characters, tokens), limit)
            }
            _ => (layout, limit),
        }
    }

    /// Reports every entry of the pool, included or excluded, with its score and reason.
    ///
    /// # Errors
    ///
    /// As [`packet`](Self::packet).
    pub fn report(&self) -> Result<SelectionReport<&ContextItem>, MemoryError> {
        Ok(self.select(self.effective_budget())?.selection.report())
    }

    /// Selects the entries of the packet.
    ///
    /// # Errors
    ///
    /// As [`packet`](Self::packet).
    pub fn selection(&self) -> Result<Selection<'_>, MemoryError> {
        Ok(self.select(self.effective_budget())?.selection)
    }

    /// Returns a receipt, from which the packet can be replayed and compared.
    ///
    /// # Errors
    ///
    /// As [`packet`](Self::packet).
    pub fn receipt(&self) -> Result<Receipt, MemoryError> {
        let packet = self.select(self.effective_budget())?;
        let mut config = RunConfig::new(packet.policy.clone());
        config.tokenizer = self.counter.name().to_owned();
        let options = serde_json::to_value(&self.options).ok();
        config.source = Some(ReceiptSource {
            kind: KIND.to_owned(),
            version: self.memory.version().to_owned(),
            query: self.options.query.clone(),
            options: options.and_then(|options| serde_json::from_value(options).ok()),
        });
        Ok(Receipt::for_text(&packet.selection, config, &packet.text().0))
    }

    /// Returns the options recorded in the receipt of a packet.
    ///
    /// # Errors
    ///
    /// [`MemoryError::NoPacket`] if the receipt has another source.
    pub fn options_from_receipt(receipt: &Receipt) -> Result<PacketOptions, MemoryError> {
        let options = receipt.source.options.as_ref().filter(|_| receipt.source.kind == KIND);
        let options = options.and_then(|options| serde_json::to_value(options).ok());
        options
            .and_then(|options| serde_json::from_value(options).ok())
            .ok_or(MemoryError::NoPacket)
    }

    /// Replays the packet of a receipt and compares the two.
    ///
    /// # Errors
    ///
    /// As [`packet`](Self::packet).
    pub fn replay(&self, receipt: &Receipt) -> Result<Replay, MemoryError> {
        if receipt.format < 2 {
            let problem = "packets of format 1 were selected by other rules, and cannot be replayed; write a new \
                           receipt"
                .to_owned();
            return Err(pannier_core::Error::InvalidReceipt { problem }.into());
        }
        let packet = self.select(self.effective_budget())?;
        let write = |selection: &Selection<'_>| packet.layout.text(&selection.placed()).0;
        Ok(receipt.replay_for_text(&self.pool, &packet.pipeline, write)?)
    }
}

/// Renders whole entries as Markdown, each with its place, within a budget. The last are shortened first: to the paragraph
/// that answers, to their titles, and then to a count, which alone may exceed the budget.
pub fn render_entries(entries: &[&Entry], budget: usize, counter: &dyn TokenCounter) -> String {
    entries_within(entries, budget, counter)
}

/// Returns a layout for each [`PacketFill`].
fn layouts(
    rendered: &Arc<RenderedEntries>,
    options: &PacketOptions,
    counter: &Arc<dyn TokenCounter>,
) -> [PacketLayout; 4] {
    let frame = PacketFrame::new(Arc::clone(rendered), options);
    PacketFill::ALL.map(|fill| PacketLayout::new(frame.clone(), Arc::clone(counter), fill))
}

/// Returns the pool positions of the entries that are selected whole.
fn whole_entries(selection: &Selection<'_>) -> impl Iterator<Item = usize> {
    let selected = selection.sent().map(|sent| (sent.index, !sent.is_whole()));
    selected.filter(|(_, is_short)| !is_short).map(|(index, _)| index)
}

/// Returns the entries of the pool in tie-breaking order: lists in file order, dated entries newest first.
fn pool_entries(memory: &Memory, policy: PacketPolicy) -> Vec<&Entry> {
    let mut entries: Vec<&Entry> = memory.entries().iter().collect();
    entries.retain(|entry| entry.section() != Section::Constitution && policy.includes(entry));
    entries.sort_by_key(|entry| {
        let date = entry.date().filter(|_| entry.section().is_dated());
        (entry.section(), Reverse(date))
    });
    entries
}

/// Turns entries into items with the token counts of their printed forms.
fn pool(
    entries: &[&Entry],
    options: &PacketOptions,
    rendered: &mut RenderedEntries,
) -> Result<Vec<ContextItem>, MemoryError> {
    let source = ContextSource::new("memory")?;
    let (ranks, trust) = match options.policy {
        PacketPolicy::PacketSeed => (task_recency_ranks(entries), MetadataValue::Integer(0)),
        PacketPolicy::Memory => (task_ranks(entries), MetadataValue::Float(SUPERSEDED_TRUST)),
    };
    let (mut items, mut last) = (Vec::with_capacity(entries.len()), None);
    for (index, entry) in entries.iter().enumerate() {
        let tokens = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        // Rules for other files are opened like skills.
        let section = match entry.is_on_demand(&options.files) {
            true => Section::Skills,
            false => entry.section(),
        };
        let kind = match last {
            Some((last, kind)) if last == section => kind,
            _ => kind(section)?,
        };
        last = Some((section, kind.clone()));
        // The pool owns the contents; a packet copies the printed texts.
        let mut forms = rendered.forms_mut(index).iter_mut().map(|form| {
            (form.name.clone(), std::mem::take(&mut form.content), tokens(form.tokens))
        });
        let (_, content, whole_tokens) = forms.next().unwrap_or_default();
        let mut item = ContextItem::builder(content, whole_tokens)
            .kind(kind)
            .source(source.clone())
            .id(entry.id())
            .metadata("place", format!("{}:{}", entry.path(), entry.line()));
        if let Some(date) = entry.date() {
            item = item.timestamp(date);
        }
        item = match entry.section() {
            Section::Tasks => item.priority(ranks[index]),
            // In file order.
            Section::Conventions => item.priority(-(index as i64)),
            // In file order, rules that match a file first.
            Section::Instructions | Section::Skills => {
                let is_match = entry.source().is_some_and(|source| source.matches(&options.files));
                let first = if is_match { entries.len() as i64 } else { 0 };
                item.priority(first - index as i64)
            }
            _ => item,
        };
        if entry.is_superseded() {
            item = item.metadata(MetadataTrustScorer::KEY, trust.clone());
        }
        for (name, content, tokens) in forms {
            item = item.form(name, content, tokens);
        }
        items.push(item.build()?);
    }
    Ok(items)
}

/// Returns the texts of the most urgent tasks, up to [`MAX_TASK_BYTES`]. Those of many tasks match every entry.
fn urgent_tasks<'m>(entries: &[&'m Entry], pool: &[ContextItem]) -> Vec<&'m str> {
    let mut tasks: Vec<_> = entries.iter().zip(pool).collect();
    tasks.retain(|(entry, _)| entry.section() == Section::Tasks);
    tasks.sort_by_key(|(_, item)| Reverse(item.priority()));
    let mut bytes = 0;
    let is_within = |text: &&str| {
        let is_first = bytes == 0;
        bytes += text.len();
        is_first || bytes <= MAX_TASK_BYTES
    };
    tasks.into_iter().map(|(entry, _)| entry.text()).take_while(is_within).collect()
}

/// Ranks tasks; the least urgent has rank 0. Tasks in progress are first, then by priority, then by date, and notes are
/// last.
fn task_ranks(entries: &[&Entry]) -> Vec<i64> {
    let dates = task_recency_ranks(entries);
    let mut order: Vec<usize> =
        (0..entries.len()).filter(|index| entries[*index].section() == Section::Tasks).collect();
    // Cached: the tags are parsed from the text.
    order.sort_by_cached_key(|index| {
        let task = entries[*index];
        (
            task.is_specified(),
            task.labels(),
            task.date_or_phase().is_some(),
            task.date_or_phase(),
            dates[*index],
        )
    });
    let mut ranks = vec![0; entries.len()];
    for (rank, index) in order.into_iter().enumerate() {
        ranks[index] = rank as i64;
    }
    ranks
}

/// Ranks tasks by date; the oldest has rank 0. A task without a date takes that of the preceding task. Of equal dates, the
/// later in the file is newer.
fn task_recency_ranks(entries: &[&Entry]) -> Vec<i64> {
    let mut dates = Vec::with_capacity(entries.len());
    let mut last = None;
    for entry in entries.iter().filter(|entry| entry.section() == Section::Tasks) {
        last = entry.date().or(last);
        dates.push(last);
    }
    let mut order: Vec<usize> = (0..dates.len()).collect();
    order.sort_by_key(|index| (dates[*index], *index));
    let mut ranks = vec![0; entries.len()];
    for (rank, index) in order.into_iter().enumerate() {
        ranks[index] = rank as i64;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use pannier_core::layout::{PlacedItems, Plan, RenderCost};
    use pannier_core::score::Pool;
    use pannier_core::{Error, Layout};
    use pannier_tokens::BytesOverFour;
    use proptest::prelude::*;

    use super::*;

    /// Counts the renderings of a packet layout.
    struct Counted(PacketLayout, Arc<AtomicU32>);

    impl Layout for Counted {
        fn plan(&self, pool: &Pool<'_>) -> Result<Plan, Error> {
            self.0.plan(pool)
        }

        fn measure(
            &self,
            items: &PlacedItems<'_>,
            up_to: i64,
        ) -> Result<Option<RenderCost>, Error> {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.measure(items, up_to)
        }
    }

    /// Texts whose characters have one to four bytes, so that either limit may bind.
    fn texts() -> impl Strategy<Value = Vec<String>> {
        prop::collection::vec("[a-z \u{e9}\u{4e2d}\u{1f600}]{1,80}", 0..25)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

        #[test]
        fn a_packet_is_rendered_at_most_4_plus_2_log2_of_its_moves_times(
            tasks in texts(),
            conventions in texts(),
            decisions in texts(),
            budget in 50..1_500_usize,
            max_characters in prop::option::of(150..5_000_usize),
            is_json in any::<bool>(),
            is_seed in any::<bool>(),
        ) {
            let list = |texts: &[String], bullet: &str| -> String {
                texts.iter().map(|text| format!("{bullet} x{text}\n")).collect()
            };
            let memory = Memory::from_files([
                ("TASKS.md", list(&tasks, "- [ ]")),
                ("CONVENTIONS.md", list(&conventions, "-")),
                ("DECISIONS.md", list(&decisions, "## [2026-11-01] title\n\n")),
            ]);
            let mut options = PacketOptions::new("2026-11-16T12:00:00Z".parse().unwrap());
            options.policy = if is_seed { PacketPolicy::PacketSeed } else { PacketPolicy::Memory };
            (options.budget, options.max_characters) = (budget, max_characters);
            options.format = if is_json { PacketFormat::Json } else { PacketFormat::Markdown };
            let builder = PacketBuilder::new(&memory, options, Arc::new(BytesOverFour)).unwrap();
            let packet = builder.select(builder.packet().unwrap().budget).unwrap();
            let renderings = Arc::new(AtomicU32::new(0));
            let layout = Counted(packet.layout.clone(), Arc::clone(&renderings));
            let pipeline = packet.pipeline.clone().with_layout(layout);
            pipeline.run(&*builder.pool, &packet.budget).unwrap();
            // The slicer moves an entry at most three times: to its title, its excerpt and its whole text.
            let moves = (3 * builder.pool.len()).max(1);
            let renderings = renderings.load(Ordering::Relaxed);
            prop_assert!(renderings <= 4 + 2 * moves.ilog2(), "{renderings} of {moves}");
        }
    }
}
