//! Whole entries that are opened by their ids.

use pannier_core::TokenCounter;

use super::PacketFormat;
use super::markdown::{content, date_prefix, demote_headings};
use super::note::NoteRenderer;
use crate::Entry;
use crate::excerpt::{key_paragraph, one_line_title};

/// Renders whole entries as Markdown, each with its place, and what is left out by id and title, within a budget.
pub(crate) fn entries_within(
    entries: &[&Entry],
    budget: usize,
    counter: &dyn TokenCounter,
) -> String {
    let whole = |entry: &Entry| {
        let place = format!("{}:{}", entry.path(), entry.line());
        let phase = entry.phase().map(|phase| format!(" [{phase}]")).unwrap_or_default();
        let superseded = if entry.is_superseded() { " (superseded)" } else { "" };
        let heading = match entry.section().has_titles() {
            true => format!("{}{}", date_prefix(entry), entry.title()),
            false => one_line_title(entry),
        };
        let text = if entry.section().has_titles() { entry.text().into() } else { content(entry) };
        format!(
            "### {} {heading}{phase}{superseded}\n\n{place}\n\n{}\n\n",
            entry.short_id(),
            demote_headings(&text)
        )
    };
    let forms: Vec<[String; 3]> = entries
        .iter()
        .map(|entry| {
            let title = one_line_title(entry);
            let paragraph = key_paragraph(entry.text());
            let notes = NoteRenderer::new(entry, PacketFormat::Markdown);
            [whole(entry), notes.note(&title, paragraph), notes.note(&title, None)]
        })
        .collect();
    let text = |step: usize| {
        let levels: Vec<usize> =
            (0..forms.len()).map(|index| level_at(step, index, forms.len())).collect();
        let kept = forms.iter().zip(&levels).filter_map(|(forms, level)| forms.get(*level));
        let mut text: String = kept.map(String::as_str).collect();
        let omitted = levels.iter().filter(|level| **level > 2).count();
        if omitted > 0 {
            text.push_str(&format!("- +{omitted} more\n"));
        }
        format!("{}\n", text.trim_end())
    };
    // The first step that fits, by bisection, or else the last.
    let (mut first, mut last) = (0, 3 * forms.len());
    while first < last {
        let middle = first.midpoint(last);
        match counter.count_up_to(&text(middle), budget) {
            Some(_) => last = middle,
            None => first = middle + 1,
        }
    }
    text(last)
}

/// Returns the level of an entry after `step` shortenings: all but the first to their excerpts and titles, then to a count,
/// the last first; and then the first.
fn level_at(step: usize, index: usize, count: usize) -> usize {
    let others = count - 1;
    if index == 0 {
        return step.saturating_sub(3 * others);
    }
    let from_end = others - index;
    let noted = step.saturating_sub(2 * from_end).min(2);
    noted + usize::from(step > 2 * others + from_end)
}
