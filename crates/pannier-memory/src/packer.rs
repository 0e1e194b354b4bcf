//! Builds a packet from a project's memory.
//!
//! The budget bounds the printed text, including headings, bullets and the token count. The frame (header, files to read,
//! constitution, instruction) is in every packet; all other entries compete for the remaining budget.
//!
//! In packets of the specification, the selected tasks supply the keywords that score decisions and learnings. So there
//! are two runs: the first selects the tasks, whose scores do not depend on keywords; the second selects everything with
//! the keywords of those tasks. Otherwise the most urgent tasks supply them, and one run selects everything.

mod explain;
mod packet;
mod pool;
mod receipt;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use pannier_core::report::SelectionReport;
use pannier_core::{ContextBudget, ContextItem, Pipeline, Selection, TokenCounter};
use pannier_policy::{Policy, PolicyRegistry};

pub use self::packet::Packet;
use self::pool::{pool, pool_entries, urgent_tasks};
use crate::policy::{PacketPolicy, memory_policy, seed_policy};
use crate::render::{PacketFill, PacketFrame, PacketLayout, RenderedEntries, entries_within};
use crate::{Entry, Memory, MemoryError, PacketOptions, Section, keywords};

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
        let packet = self.select(budget)?;
        let (text, tokens_used) = packet.text();
        let is_empty =
            packet.selection.sent().next().is_none() && !self.layouts[0].frame_shows_anything();
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
            is_empty,
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use pannier_core::layout::{PlacedItems, Plan, RenderCost};
    use pannier_core::score::Pool;
    use pannier_core::{Error, Layout};
    use pannier_tokens::BytesOverFour;
    use proptest::prelude::*;

    use super::*;
    use crate::PacketFormat;

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
