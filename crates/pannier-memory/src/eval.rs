//! Measures how well packets answer: known entries as queries, and what larger budgets take back.
//!
//! In the known-item test, every second entry is a query: its title and the first words of its body. The packet answers if
//! it has the entry whole, or by the paragraph that answers: its decision or lesson, or else its first.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use pannier_core::TokenCounter;
use pannier_core::item::Sent;
use serde::Serialize;

use crate::excerpt::key_paragraph;
use crate::{Coverage, Entry, Memory, MemoryError, PacketBuilder, PacketOptions, Section};

/// The budgets of the known-item test.
pub const BUDGETS: [usize; 3] = [2_500, 4_000, 8_000];

/// The number of words of the body in a query.
const QUERY_WORDS: usize = 25;

/// The budgets of the test for monotonic use, and the step between them.
const SWEEP: RangeInclusive<usize> = 500..=12_000;
const STEP: usize = 250;

/// The maximum number of queries with that test.
const SWEEP_QUERIES: usize = 4;

/// The measures of a project's memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MemoryReport {
    /// The number of entries, rules included.
    pub entries: usize,
    /// The known-item test at each budget.
    pub known_items: Vec<KnownItems>,
    /// The number of different packets among those of all queries, at the smallest budget.
    pub distinct_packets: usize,
    /// The number of steps between two budgets, without a query.
    pub steps: usize,
    /// The number of steps at which all whole entries stay whole.
    pub monotonic_steps: usize,
    /// The number of steps between two budgets, with some of the queries.
    pub query_steps: usize,
    /// The number of those at which all whole entries stay whole.
    pub monotonic_query_steps: usize,
    /// What was read of each file.
    pub coverage: Vec<Coverage>,
}

/// The results of the known-item test at a budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct KnownItems {
    /// The budget in tokens.
    pub budget: usize,
    /// The number of queries.
    pub queries: usize,
    /// How many packets have the entry whole.
    pub whole: usize,
    /// How many packets have the entry by its paragraph.
    pub by_paragraph: usize,
    /// The ids of entries that the packet does not have.
    pub missed: Vec<String>,
}

impl KnownItems {
    /// Returns how many packets answer.
    pub fn answered(&self) -> usize {
        self.whole + self.by_paragraph
    }
}

/// Measures a memory with these options. Their budget and query are replaced.
///
/// # Errors
///
/// As [`PacketBuilder::packet`].
pub fn measure(
    memory: &Memory,
    options: &PacketOptions,
    counter: &Arc<dyn TokenCounter>,
) -> Result<MemoryReport, MemoryError> {
    // Rules are in every packet, and skills in none.
    let is_asked =
        |entry: &&Entry| !matches!(entry.section(), Section::Constitution | Section::Skills);
    let asked = memory.entries().iter().filter(is_asked);
    let asked: Vec<&Entry> = asked.step_by(2).collect();
    let mut known_items = Vec::new();
    let mut packets = BTreeSet::new();
    for budget in BUDGETS {
        let mut found = KnownItems {
            budget,
            queries: asked.len(),
            whole: 0,
            by_paragraph: 0,
            missed: Vec::new(),
        };
        for entry in &asked {
            let mut options = options.clone().with_query([query(entry).as_str()]);
            options.budget = budget;
            let builder = PacketBuilder::new(memory, options, Arc::clone(counter))?;
            let text = builder.packet()?.text;
            let selection = builder.selection()?;
            let sent =
                selection.sent().find(|sent| builder.entries()[sent.index].id() == entry.id());
            match sent {
                Some(sent) if sent.is_whole() => found.whole += 1,
                Some(sent) if has_paragraph(&sent, entry) => found.by_paragraph += 1,
                _ => found.missed.push(entry.id().to_owned()),
            }
            if budget == BUDGETS[0] {
                packets.insert(text);
            }
        }
        known_items.push(found);
    }
    let sweep =
        |query: Option<&str>| monotonic_steps(memory, options.clone().with_query(query), counter);
    let (steps, monotonic_steps) = sweep(None)?;
    let (mut query_steps, mut monotonic_query_steps) = (0, 0);
    for entry in asked.iter().step_by(asked.len().div_ceil(SWEEP_QUERIES).max(1)) {
        let (steps, monotonic) = sweep(Some(&query(entry)))?;
        query_steps += steps;
        monotonic_query_steps += monotonic;
    }
    Ok(MemoryReport {
        entries: memory.entries().len(),
        known_items,
        distinct_packets: packets.len(),
        steps,
        monotonic_steps,
        query_steps,
        monotonic_query_steps,
        coverage: memory.coverage().to_vec(),
    })
}

/// Returns the title of an entry and the first words of its body.
fn query(entry: &Entry) -> String {
    let body = entry.text().strip_prefix(entry.title()).unwrap_or(entry.text());
    let words = body.split_whitespace().take(QUERY_WORDS);
    [entry.title()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

/// Returns whether the form of an entry has the paragraph that answers, regardless of line breaks.
fn has_paragraph(sent: &Sent<'_>, entry: &Entry) -> bool {
    let joined = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let paragraph = key_paragraph(entry.text()).unwrap_or(entry.title());
    joined(sent.item().content()).contains(&joined(paragraph))
}

/// Returns the number of steps between two budgets, and of those at which all whole entries stay whole.
fn monotonic_steps(
    memory: &Memory,
    mut options: PacketOptions,
    counter: &Arc<dyn TokenCounter>,
) -> Result<(usize, usize), MemoryError> {
    let (mut steps, mut monotonic, mut before) = (0, 0, None::<BTreeSet<usize>>);
    for budget in SWEEP.step_by(STEP) {
        options.budget = budget;
        let builder = PacketBuilder::new(memory, options.clone(), Arc::clone(counter))?;
        let whole = builder.whole_indices()?;
        if let Some(before) = before {
            steps += 1;
            monotonic += usize::from(before.is_subset(&whole));
        }
        before = Some(whole);
    }
    Ok((steps, monotonic))
}
