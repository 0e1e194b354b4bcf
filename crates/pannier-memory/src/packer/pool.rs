//! The items that compete for a packet's budget: entries with their forms, priorities and dates.

use std::cmp::Reverse;

use pannier_core::ContextItem;
use pannier_core::item::{ContextSource, MetadataValue};
use pannier_core::score::MetadataTrustScorer;

use crate::policy::{PacketPolicy, SUPERSEDED_TRUST, kind};
use crate::render::RenderedEntries;
use crate::{Entry, Memory, MemoryError, PacketOptions, Section};

/// The maximum length of the tasks that score other entries. One task is used regardless of its length.
const MAX_TASK_BYTES: usize = 1 << 10;

/// Returns the entries of the pool in tie-breaking order: lists in file order, dated entries newest first.
pub(super) fn pool_entries(memory: &Memory, policy: PacketPolicy) -> Vec<&Entry> {
    let mut entries: Vec<&Entry> = memory.entries().iter().collect();
    entries.retain(|entry| entry.section() != Section::Constitution && policy.includes(entry));
    entries.sort_by_key(|entry| {
        let date = entry.date().filter(|_| entry.section().is_dated());
        (entry.section(), Reverse(date))
    });
    entries
}

/// Turns entries into items with the token counts of their printed forms.
pub(super) fn pool(
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
pub(super) fn urgent_tasks<'m>(entries: &[&'m Entry], pool: &[ContextItem]) -> Vec<&'m str> {
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
