//! From what a project remembers to what an agent is told of it.
//!
//! The budget bounds what is printed: headings, bullets and the number of tokens itself included. What is always there,
//! the constitution before all, is the frame; everything else competes for the rest of the budget.
//!
//! Which decisions and learnings matter depends on the tasks that are in, and which tasks are in depends, at the margin, on
//! what decisions and learnings leave. So the share of the tasks is filled first, for their keywords; and if it then comes
//! to other tasks, there is another run with theirs.

mod explain;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::{Arc, OnceLock};

use pannier_core::{
    Candidate, ContextBudget, ContextItem, ContextSource, MetadataTrustScorer, MetadataValue,
    Pipeline, Rendering, ScoredItem, Selection, SelectionReport, SliceBudget, Slicer, Tier,
    TieredSlice, Timestamp, TokenCounter, Verdict,
};
use pannier_policy::{Circumstances, Policy, PolicyRegistry, Receipt, ReceiptSource, Replay};
use serde::{Deserialize, Serialize};

use crate::policy::{Choice, kind};
use crate::render::{Frame, PacketFormat, PacketRendering, Pieces, Room, content, short_content};
use crate::{Config, Entry, Memory, MemoryError, Section, keywords};

/// What receipts call the source of packets.
const KIND: &str = "memory";

/// How a packet is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PacketOptions {
    /// How many tokens it may have.
    pub budget: usize,
    /// How many characters it may have, if that is limited, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_characters: Option<usize>,
    /// How it is written.
    pub format: PacketFormat,
    /// How much of the budget tasks may use, in percent.
    pub task_percent: f64,
    /// How much of the budget conventions may use, in percent.
    pub convention_percent: f64,
    /// What somebody is about to do: entries that have to do with it count for more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// What time it is. Entries are the more relevant the younger they are.
    pub now: Timestamp,
    /// Whether the packet tells that time (JSON).
    pub tells_time: bool,
}

impl PacketOptions {
    /// What a budget is, unless somebody says otherwise.
    pub const BUDGET: usize = 8_000;
    /// What tasks may use of it, in percent.
    pub const TASK_PERCENT: f64 = 40.0;
    /// What conventions may use of it, in percent.
    pub const CONVENTION_PERCENT: f64 = 20.0;

    /// The same, with what is configured. What is not stays as it is.
    ///
    /// ```
    /// use pannier_memory::{Config, PacketOptions};
    ///
    /// let config = Config::parse(".ctxrc".as_ref(), "token_budget: 600\ntask_budget_pct: 0.29\n")?;
    /// let options = PacketOptions::new("2026-03-01T12:00:00Z".parse()?);
    /// let options = options.configured(&config).about(["mend the roof", "src/roof.rs"]);
    /// assert_eq!((options.budget, options.task_percent), (600, 29.0));
    /// assert_eq!(options.convention_percent, PacketOptions::CONVENTION_PERCENT);
    /// assert_eq!(options.query.as_deref(), Some("mend the roof src/roof.rs"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn configured(mut self, config: &Config) -> Self {
        let percent = |share: Option<f64>, default: f64| {
            // Without the noise of the multiplication: 0.29 is 29 percent.
            share.map_or(default, |share| (share * 1e11).round() / 1e9)
        };
        self.budget = config.token_budget.unwrap_or(self.budget);
        self.task_percent = percent(config.task_budget_pct, self.task_percent);
        self.convention_percent = percent(config.convention_budget_pct, self.convention_percent);
        self
    }

    /// The same, for somebody who is about to do this: what was asked, and the files it is about.
    #[must_use]
    pub fn about<'t>(mut self, asked: impl IntoIterator<Item = &'t str>) -> Self {
        let asked = asked.into_iter().collect::<Vec<_>>().join(" ");
        self.query = Some(asked).filter(|asked| !asked.trim().is_empty());
        self
    }

    /// A packet of 8,000 tokens in Markdown, made at this time.
    pub fn new(now: Timestamp) -> Self {
        Self {
            budget: Self::BUDGET,
            max_characters: None,
            format: PacketFormat::default(),
            task_percent: Self::TASK_PERCENT,
            convention_percent: Self::CONVENTION_PERCENT,
            query: None,
            now,
            tells_time: false,
        }
    }
}

/// Makes packets of what a project remembers.
///
/// ```
/// use std::sync::Arc;
///
/// use pannier_memory::{Memory, Packer, PacketOptions};
/// use pannier_tokens::BytesOverFour;
///
/// let memory = Memory::from_files([
///     ("CONSTITUTION.md", "- [ ] Never row alone.\n"),
///     ("TASKS.md", "- [ ] Paint the oars\n"),
/// ]);
/// let options = PacketOptions::new("2026-11-16T12:00:00Z".parse()?);
/// let packet = Packer::new(&memory, options, Arc::new(BytesOverFour))?.packet()?;
/// assert!(packet.text.contains("- [ ] Paint the oars\n") && packet.tokens_used < 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Packer<'m> {
    memory: &'m Memory,
    options: PacketOptions,
    counter: Arc<dyn TokenCounter>,
    /// The entries of the pool: all but the rules.
    entries: Arc<[&'m Entry]>,
    pool: Arc<[ContextItem]>,
    pieces: Arc<Pieces>,
    /// By how much room there is, the most first.
    renderings: [PacketRendering; 4],
    /// The budget that is kept, once it is known.
    kept: OnceLock<usize>,
}

impl std::fmt::Debug for Packer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packer").field("options", &self.options).finish_non_exhaustive()
    }
}

/// What an agent is told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Packet {
    /// The text, with its final line break.
    pub text: String,
    /// How many tokens it has.
    pub tokens_used: usize,
    /// How many it was to have at most. Where characters are limited, too, this may be less than what was asked for.
    pub budget: usize,
    /// How many it would have if only what is always there were in it. If it has more than it may, the least budget that
    /// is enough for that.
    pub least_tokens: usize,
    /// Whether it has more than it may: only if what is always there has.
    pub is_over_budget: bool,
    /// Whether it has more characters than it may: only if what is always there has.
    pub is_over_characters: bool,
    /// What was asked for.
    asked: (usize, Option<usize>),
}

impl Packet {
    /// What is wrong with it, for people: a model need not know.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let (budget, most) = self.asked;
        let tokens = self.is_over_budget.then(|| {
            format!(
                "the packet has {} tokens, above the budget of {budget}: the rules, the files to read and the \
                 instruction are in every packet; raise the budget to {}, or shorten the constitution",
                self.tokens_used, self.least_tokens
            )
        });
        let characters = most.filter(|_| self.is_over_characters).map(|most| {
            format!(
                "the packet has {} characters, above the {most} that are shown: the rules are in every packet; \
                 shorten the constitution",
                self.text.chars().count()
            )
        });
        tokens.into_iter().chain(characters)
    }
}

/// A selection, and what made it.
struct Made<'p> {
    rendering: PacketRendering,
    policy: Policy,
    pipeline: Pipeline,
    budget: ContextBudget,
    selection: Selection<'p>,
}

impl Made<'_> {
    /// Its text, and how many tokens that has.
    fn text(&self) -> (String, usize) {
        self.rendering.text(&self.selection.placed())
    }
}

impl<'m> Packer<'m> {
    /// Makes packets of these entries.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Engine`] if an option is out of its range.
    pub fn new(
        memory: &'m Memory,
        options: PacketOptions,
        counter: Arc<dyn TokenCounter>,
    ) -> Result<Self, MemoryError> {
        let entries = pool_entries(memory);
        let looks = entries.iter().map(|entry| (*entry, content(entry), short_content(entry)));
        let told: Vec<_> = looks.collect();
        let pieces = Arc::new(Pieces::new(memory, &told, options.format, &*counter));
        let pool = pool(told, &newest_first(&entries), &pieces)?.into();
        let entries = entries.into();
        let packer = Self::assemble(memory, options, counter, entries, pool, pieces);
        // Whatever is wrong with the options is wrong with the policy.
        packer.policy(Vec::new())?.pipeline()?;
        Ok(packer)
    }

    fn assemble(
        memory: &'m Memory,
        options: PacketOptions,
        counter: Arc<dyn TokenCounter>,
        entries: Arc<[&'m Entry]>,
        pool: Arc<[ContextItem]>,
        pieces: Arc<Pieces>,
    ) -> Self {
        let frame = Frame::new(Arc::clone(&pieces), &options);
        let rooms = [Room::Rest, Room::Count, Room::Nothing, Room::Over];
        let renderings =
            rooms.map(|room| PacketRendering::new(frame.clone(), Arc::clone(&counter), room));
        let kept = OnceLock::new();
        Self { memory, options, counter, entries, pool, pieces, renderings, kept }
    }

    /// The same with another budget.
    fn asked(&self, budget: usize) -> Self {
        let options = PacketOptions { budget, ..self.options.clone() };
        Self::assemble(
            self.memory,
            options,
            Arc::clone(&self.counter),
            Arc::clone(&self.entries),
            Arc::clone(&self.pool),
            Arc::clone(&self.pieces),
        )
    }

    /// What is always there has so many tokens.
    fn least_tokens(&self) -> usize {
        self.renderings[2].alone()
    }

    /// The least budget that is kept. A packet tells its budget, so a longer one may cost more.
    fn least_budget(&self) -> usize {
        let mut least = self.least_tokens();
        // From below: the first that holds is the smallest.
        for _ in 0..8 {
            let needed = self.asked(least).least_tokens();
            if needed <= least {
                break;
            }
            least = needed;
        }
        least
    }

    /// What everything costs together.
    fn whole_tokens(&self) -> usize {
        self.renderings[0].whole()
    }

    /// How packets are made.
    pub fn options(&self) -> &PacketOptions {
        &self.options
    }

    /// What competes for the budget, as items of the engine: tasks, conventions, decisions and learnings. What an item
    /// costs is what it costs as it is printed.
    pub fn pool(&self) -> &[ContextItem] {
        &self.pool
    }

    /// The entries of the pool, in its order.
    pub fn entries(&self) -> &[&'m Entry] {
        &self.entries
    }

    /// The policy by which they are chosen, for questions of your own.
    ///
    /// # Errors
    ///
    /// As [`packet`](Self::packet).
    pub fn chosen_by(&self) -> Result<Policy, MemoryError> {
        Ok(self.make(self.budget()?)?.policy)
    }

    /// The packet.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Engine`], if the budget is above what can be counted.
    pub fn packet(&self) -> Result<Packet, MemoryError> {
        self.packet_of(self.budget()?)
    }

    /// The largest budget, up to the one that was asked for, whose packet keeps to the characters: found by halves,
    /// and tried. If not even the frame does, the frame's.
    fn budget(&self) -> Result<usize, MemoryError> {
        if let Some(kept) = self.kept.get() {
            return Ok(*kept);
        }
        let asked = self.options.budget;
        let alone = self.least_tokens();
        let fits = |budget: usize| self.packet_of(budget).map(|packet| !packet.is_over_characters);
        let is_free = self.options.max_characters.is_none() || asked <= alone;
        let kept = if is_free || fits(asked)? {
            asked
        } else {
            // Above what everything needs, all budgets are the same.
            let (mut low, mut high) = (alone, asked.min(self.whole_tokens().max(alone)));
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if fits(middle)? { low = middle } else { high = middle }
            }
            low
        };
        Ok(*self.kept.get_or_init(|| kept))
    }

    pub(crate) fn packet_of(&self, budget: usize) -> Result<Packet, MemoryError> {
        let (text, tokens_used) = self.make(budget)?.text();
        let most = self.options.max_characters;
        let is_over_characters = most.is_some_and(|most| text.chars().count() > most);
        let is_over_budget = tokens_used > budget;
        let least_tokens = match is_over_budget {
            true => self.least_budget(),
            false => self.least_tokens(),
        };
        let asked = (self.options.budget, most);
        Ok(Packet {
            text,
            tokens_used,
            budget,
            least_tokens,
            is_over_budget,
            is_over_characters,
            asked,
        })
    }

    fn policy(&self, keywords: Vec<String>) -> Result<Policy, MemoryError> {
        let choice = Choice {
            task_percent: self.options.task_percent,
            convention_percent: self.options.convention_percent,
            keywords,
            query: self.options.query.as_deref(),
            now: self.options.now,
        };
        choice.policy()
    }

    /// Selects what is in the packet of a budget.
    fn make(&self, budget: usize) -> Result<Made<'_>, MemoryError> {
        let [rest, others @ .., over] = &self.renderings;
        let everything_fits = rest.whole_fits(budget);
        let limit = i64::try_from(budget).unwrap_or(i64::MAX);
        let rendering = match rest.fixed() <= limit || everything_fits {
            true => rest,
            false => others.iter().find(|room| room.alone() <= budget).unwrap_or(over),
        };
        // What says nothing of what is missing may cost less; and so may everything.
        let limit = limit.max(rendering.fixed());
        let budget = ContextBudget::new(limit, limit)?;
        let is_task = |index: &usize| self.entries[*index].section() == Section::Tasks;
        let mut tasks: Vec<usize> = match everything_fits {
            true => (0..self.entries.len()).filter(is_task).collect(),
            false => self.first_tasks(rendering, limit)?,
        };
        // Other keywords make other decisions whole, which may leave another rest of the budget to the last of the tasks.
        let mut tries = 0;
        loop {
            let texts = tasks.iter().map(|index| self.entries[*index].text());
            let policy = self.policy(keywords(texts))?;
            let pipeline = PolicyRegistry::default().pipeline(&policy, None)?;
            let pipeline = pipeline.rendered_by(rendering.clone());
            let selection = pipeline.run(&self.pool, &budget)?;
            let mut found: Vec<usize> = whole(&selection).filter(is_task).collect();
            found.sort_unstable();
            tries += 1;
            if found == tasks || tries == Self::TRIES {
                let rendering = rendering.clone();
                return Ok(Made { rendering, policy, pipeline, budget, selection });
            }
            tasks = found;
        }
    }

    /// The tasks that are in as far as their share goes, whatever else is: mostly all that are.
    fn first_tasks(
        &self,
        rendering: &PacketRendering,
        limit: i64,
    ) -> Result<Vec<usize>, MemoryError> {
        let mut order: Vec<usize> = (0..self.pool.len()).collect();
        order.sort_by_key(|index| Reverse(self.pool[*index].priority()));
        let candidate = |index: &usize| {
            let item = &self.pool[*index];
            let heading_tokens = rendering.heading(*index, item);
            Candidate { heading_tokens, ..ScoredItem { item, score: 0.0 }.into() }
        };
        let candidates: Vec<Candidate<'_>> = order.iter().map(candidate).collect();
        let tasks = kind(Section::Tasks)?;
        let tier = Tier { cap_percent: self.options.task_percent, ..Tier::new([tasks.clone()]) };
        let left = SliceBudget::new(limit.saturating_sub(rendering.fixed()));
        let left = SliceBudget { whole_tokens: limit, ..left };
        let outcome = TieredSlice::new([tier])?.slice(&candidates, left)?;
        let verdicts = order.iter().zip(outcome.verdicts());
        let taken = verdicts.filter(|(index, verdict)| {
            **verdict == Verdict::Taken && *self.pool[**index].kind() == tasks
        });
        let mut taken: Vec<usize> = taken.map(|(index, _)| *index).collect();
        taken.sort_unstable();
        Ok(taken)
    }

    /// How often tasks and keywords are matched with each other at most.
    const TRIES: usize = 8;

    /// Every entry that competes, in or out, with its score and its reason.
    ///
    /// # Errors
    ///
    /// As [`packet`](Self::packet).
    pub fn report(&self) -> Result<SelectionReport<&ContextItem>, MemoryError> {
        Ok(self.make(self.budget()?)?.selection.report())
    }

    /// What is needed to make the packet again, and to see that it is the same.
    ///
    /// # Errors
    ///
    /// As [`packet`](Self::packet).
    pub fn receipt(&self) -> Result<Receipt, MemoryError> {
        let made = self.make(self.budget()?)?;
        let mut circumstances = Circumstances::new(made.policy.clone());
        circumstances.tokenizer = self.counter.name().to_owned();
        let options = serde_json::to_value(&self.options).ok();
        circumstances.source = Some(ReceiptSource {
            kind: KIND.to_owned(),
            version: self.memory.version().to_owned(),
            query: self.options.query.clone(),
            options: options.and_then(|options| serde_json::from_value(options).ok()),
        });
        Ok(Receipt::of_text(&made.selection, circumstances, &made.text().0))
    }

    /// The options that the packet of a receipt was made with.
    ///
    /// # Errors
    ///
    /// [`MemoryError::NoPacket`] if the receipt is of something else.
    pub fn options_of(receipt: &Receipt) -> Result<PacketOptions, MemoryError> {
        let options = receipt.source.options.as_ref().filter(|_| receipt.source.kind == KIND);
        let options = options.and_then(|options| serde_json::to_value(options).ok());
        options
            .and_then(|options| serde_json::from_value(options).ok())
            .ok_or(MemoryError::NoPacket)
    }

    /// Makes the packet of a receipt again, and compares.
    ///
    /// # Errors
    ///
    /// As [`packet`](Self::packet).
    pub fn replay(&self, receipt: &Receipt) -> Result<Replay, MemoryError> {
        let made = self.make(self.budget()?)?;
        let write = |selection: &Selection<'_>| made.rendering.text(&selection.placed()).0;
        Ok(receipt.replay_text(&self.pool, &made.pipeline, write)?)
    }
}

/// The indices of what is in a selection, all of it.
fn whole(selection: &Selection<'_>) -> impl Iterator<Item = usize> {
    let sent = selection.indices().zip(selection.shortened());
    sent.filter(|(_, is_short)| !is_short).map(|(index, _)| index)
}

/// The entries that compete, in the order that breaks ties: lists as their files read, the rest newest first.
fn pool_entries(memory: &Memory) -> Vec<&Entry> {
    let mut entries: Vec<&Entry> = memory.entries().iter().collect();
    entries.retain(|entry| entry.section() != Section::Constitution);
    entries.sort_by_key(|entry| {
        let date = entry.date().filter(|_| entry.section().is_dated());
        (entry.section(), Reverse(date))
    });
    entries
}

/// Entries as items, which cost what they cost as they are printed. An entry comes with what it says, whole and short.
fn pool(
    entries: Vec<(&Entry, Cow<'_, str>, Cow<'_, str>)>,
    newest: &[i64],
    pieces: &Pieces,
) -> Result<Vec<ContextItem>, MemoryError> {
    let source = ContextSource::new("memory")?;
    let (mut items, mut last) = (Vec::with_capacity(entries.len()), None);
    for (index, (entry, content, short)) in entries.into_iter().enumerate() {
        let (whole_tokens, short_tokens) = pieces.tokens(index);
        let tokens = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let kind = match last {
            Some((section, kind)) if section == entry.section() => kind,
            _ => kind(entry.section())?,
        };
        last = Some((entry.section(), kind.clone()));
        let mut item = ContextItem::builder(content, tokens(whole_tokens))
            .kind(kind)
            .source(source.clone())
            .id(entry.id())
            .metadata("place", format!("{}:{}", entry.path(), entry.line()));
        if let Some(date) = entry.date() {
            item = item.timestamp(date);
        }
        item = match entry.section() {
            Section::Tasks => item.priority(newest[index]),
            // The first conventions come first.
            Section::Conventions => item.priority(-(index as i64)),
            _ => item,
        };
        if entry.is_superseded() {
            item = item.metadata(MetadataTrustScorer::KEY, MetadataValue::Integer(0));
        }
        // A convention that does not fit is only counted.
        if entry.section() != Section::Conventions {
            item = item.short_form(short, tokens(short_tokens));
        }
        items.push(item.build()?);
    }
    Ok(items)
}

/// How new each task is, by its rank; 0 for the oldest. A task without a date is as old as the one before it in the
/// file, where later is newer.
fn newest_first(entries: &[&Entry]) -> Vec<i64> {
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
