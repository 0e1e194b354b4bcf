//! A selection as a table for people: included and excluded items with reasons, and the budget.

use anstyle::{AnsiColor, Effects, Style};
use pannier_core::Selection;
use pannier_core::layout::Ledger;

use super::label;
use crate::output;
use crate::table::{Table, one_line};

/// Renders the table.
pub(super) fn text(selection: &Selection<'_>, styled: bool) -> String {
    let width = output::terminal_width();
    let report = selection.report();
    let (ledger, budget) = (selection.ledger(), selection.budget());
    let mut text = bar(ledger.sent(), budget.target_tokens(), width, styled);
    text.push_str(&ledger_line(ledger));
    let aligned = &[true, false, true, true];
    let heading = |text: &str| match styled {
        true => format!("\n{0}{text}{0:#}\n", Style::new().bold()),
        false => format!("\n{text}\n"),
    };

    text.push_str(&heading("In, in the order to send"));
    let mut rows = Table::new(width, 2, aligned);
    for entry in &report.included {
        let index = entry.index.unwrap_or_default();
        rows.row([
            format!("{index}"),
            label(index, entry.item),
            format!("{:.3}", entry.score),
            entry.item.tokens().to_string(),
            entry.reason.to_string(),
            entry.item.content().to_owned(),
        ]);
    }
    if report.included.is_empty() {
        rows.row(["nothing".to_owned()]);
    }
    text.push_str(&rows.render(styled));
    if !report.excluded.is_empty() {
        text.push_str(&heading("Out, best first"));
        let mut rows = Table::new(width, 2, aligned);
        let faint = Style::new().effects(Effects::DIMMED);
        for entry in &report.excluded {
            let index = entry.index.unwrap_or_default();
            let tokens = entry.item.tokens().to_string();
            let score = format!("{:.3}", entry.score);
            let label = label(index, entry.item);
            rows.row([format!("{index}"), label, score, tokens, entry.item.content().to_owned()]);
            let reason = entry.reason.to_string();
            rows.styled_row(
                [String::new(), String::new(), String::new(), String::new(), reason],
                faint,
            );
        }
        text.push_str(&rows.render(styled));
    }
    for shortfall in selection.shortfalls() {
        let (kind, required) = (&shortfall.kind, shortfall.required_count);
        let satisfied = shortfall.satisfied_count;
        let line = one_line(&format!("Short of {kind}: {satisfied} of {required} required"));
        text.push_str(&format!("\n{line}\n"));
    }
    text
}

/// Returns one line about a selection.
pub(super) fn summary(selection: &Selection<'_>) -> String {
    let (selected, candidates) = (selection.len(), selection.pool().len());
    let (tokens, target) = (selection.ledger().sent(), selection.budget().target_tokens());
    format!("{selected} of {candidates} items, {tokens} of {target} tokens")
}

/// Renders the ledger as a sum, without lines that are 0.
fn ledger_line(ledger: &Ledger) -> String {
    let mut text = format!("{} window =", ledger.window);
    let parts = [
        (ledger.output_reserve, "reserve"),
        (ledger.slots, "slots"),
        (ledger.margin, "margin"),
        (ledger.fixed, "fixed"),
        (ledger.framing, "framing"),
        (ledger.items, "items"),
        (ledger.merge_adjustment, "joins"),
        (ledger.unused, "slack"),
    ];
    let mut is_first = true;
    for (tokens, name) in parts.into_iter().filter(|(tokens, _)| *tokens != 0) {
        match (std::mem::take(&mut is_first), tokens < 0) {
            (true, _) => text.push_str(&format!(" {tokens} {name}")),
            (false, false) => text.push_str(&format!(" + {tokens} {name}")),
            (false, true) => text.push_str(&format!(" - {} {name}", tokens.unsigned_abs())),
        }
    }
    if is_first {
        text.push_str(" 0");
    }
    text.push('\n');
    text
}

/// Renders the used share of the target as a bar.
fn bar(used: i64, target: i64, width: usize, styled: bool) -> String {
    let cells = (width / 3).clamp(10, 30);
    let share = if target > 0 { used as f64 / target as f64 } else { 0.0 };
    let filled = ((share * cells as f64) as usize).min(cells);
    let (full, rest) = ("█".repeat(filled), "░".repeat(cells - filled));
    let color = if used > target { AnsiColor::Red } else { AnsiColor::Green };
    let style = Style::new().fg_color(Some(color.into()));
    let full = if styled { format!("{style}{full}{style:#}") } else { full };
    format!("{full}{rest}  {used} of {target} tokens ({} %)\n", (share * 100.0) as i64)
}
