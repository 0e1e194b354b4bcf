//! A selection as a table for people: included and excluded items with reasons, and the budget.

use std::collections::BTreeMap;

use anstyle::{AnsiColor, Effects, Style};
use pannier_core::layout::Ledger;
use pannier_core::{ContextItem, ContextKind, Selection};
use unicode_width::UnicodeWidthStr;

use super::label;
use crate::output;
use crate::table::{Table, one_line, shorten};

/// The excluded items of a table, unless the user asks for all.
const MAX_EXCLUDED_ROWS: usize = 20;

/// The smallest width of contents next to the numbers.
const MIN_CONTENT_WIDTH: usize = 12;

/// The fills of the bar: the three kinds with most tokens, and all others.
const FILLS: [char; 4] = ['█', '▓', '▒', '░'];
const COLORS: [AnsiColor; 4] =
    [AnsiColor::Blue, AnsiColor::Green, AnsiColor::Yellow, AnsiColor::Magenta];

/// Renders the table, with the first excluded items or with all of them.
pub(super) fn text(selection: &Selection<'_>, styled: bool, shows_all: bool) -> String {
    render(selection, output::terminal_width(), styled, shows_all)
}

fn render(selection: &Selection<'_>, width: usize, styled: bool, shows_all: bool) -> String {
    let report = selection.report();
    let (ledger, budget) = (selection.ledger(), selection.budget());
    let included = report.included.iter().map(|entry| entry.item);
    let mut text = bar(ledger.sent(), budget.target_tokens(), &kinds(included), width, styled);
    text.push_str(&wrapped(&ledger_line(ledger), 0, width));
    let heading = |text: &str| match styled {
        true => format!("\n{0}{text}{0:#}\n", Style::new().bold()),
        false => format!("\n{text}\n"),
    };

    text.push_str(&heading("In, in the order to send"));
    let mut rows = Rows::new(width, Some("reason"));
    for entry in &report.included {
        rows.add(entry.index, entry.item, entry.score, Some(entry.reason.to_string()));
    }
    match report.included.is_empty() {
        true => text.push_str("  nothing\n"),
        false => text.push_str(&rows.lines(styled).concat()),
    }
    if !report.excluded.is_empty() {
        text.push_str(&heading("Out, best first"));
        let count = report.excluded.len();
        let shown = if shows_all { count } else { count.min(MAX_EXCLUDED_ROWS) };
        let mut rows = Rows::new(width, None);
        for entry in &report.excluded[..shown] {
            rows.add(entry.index, entry.item, entry.score, None);
        }
        let lines = rows.lines(styled);
        let (header, lines) = lines.split_at(1);
        text.push_str(&header.concat());
        let faint = Style::new().effects(Effects::DIMMED);
        for (line, entry) in lines.iter().zip(&report.excluded) {
            text.push_str(line);
            let reason = wrapped(&one_line(&entry.reason.to_string()), 6, width);
            match styled {
                true => text.push_str(&format!("{faint}{reason}{faint:#}")),
                false => text.push_str(&reason),
            }
        }
        if shown < count {
            text.push_str(&format!("  … and {} more; --all lists them\n", count - shown));
        }
    }
    for shortfall in selection.shortfalls() {
        let (kind, required) = (&shortfall.kind, shortfall.required_count);
        let satisfied = shortfall.satisfied_count;
        let line = one_line(&format!("Short of {kind}: {satisfied} of {required} required"));
        text.push_str(&format!("\n{line}\n"));
    }
    text
}

/// Rows of items under column headers. Ids and contents are cut to the width, numbers never.
struct Rows {
    width: usize,
    reason: Option<&'static str>,
    cells: Vec<Vec<String>>,
}

impl Rows {
    fn new(width: usize, reason: Option<&'static str>) -> Self {
        Self { width, reason, cells: Vec::new() }
    }

    fn add(
        &mut self,
        index: Option<usize>,
        item: &ContextItem,
        score: f64,
        reason: Option<String>,
    ) {
        let index = index.unwrap_or_default();
        let (score, tokens) = (format!("{score:.3}"), item.tokens().to_string());
        let mut cells = vec![index.to_string(), one_line(&label(index, item)), score, tokens];
        cells.extend(reason);
        cells.push(item.content().to_owned());
        self.cells.push(cells);
    }

    /// Returns the lines: the headers, and one for each row.
    fn lines(mut self, styled: bool) -> Vec<String> {
        let mut head = vec!["#", "id", "score", "tokens"];
        head.extend(self.reason);
        head.push("content");
        let last = head.len() - 1;
        self.cells.insert(0, head.into_iter().map(str::to_owned).collect());
        let widest =
            |column: usize| self.cells.iter().map(|cells| cells[column].width()).max().unwrap_or(0);
        // Two columns before each cell.
        let numbers: usize = (0..last).filter(|column| *column != 1).map(widest).sum();
        let rest = self.width.saturating_sub(numbers + 2 * (last + 1));
        let id_width = rest.saturating_sub(MIN_CONTENT_WIDTH).max(rest / 2).clamp(4, 40);
        let mut table = Table::new(self.width, 2, &[true, false, true, true]).with_min_last(0);
        for (number, mut cells) in self.cells.into_iter().enumerate() {
            cells[1] = shorten(&cells[1], id_width);
            let faint = Style::new().effects(Effects::DIMMED);
            table.styled_row(cells, if number == 0 { faint } else { Style::new() });
        }
        table.render(styled).split_inclusive('\n').map(str::to_owned).collect()
    }
}

/// Wraps a line between words.
fn wrapped(line: &str, indent: usize, width: usize) -> String {
    let mut text = String::new();
    let mut current = " ".repeat(indent);
    for word in line.split_whitespace() {
        if current.width() > indent && current.width() + 1 + word.width() > width {
            text.push_str(&current);
            text.push('\n');
            current = " ".repeat(indent.max(2));
        } else if current.width() > indent {
            current.push(' ');
        }
        current.push_str(word);
    }
    text + &current + "\n"
}

/// Returns the kinds of items with their tokens, most first; at most as many as there are fills.
fn kinds<'i>(items: impl Iterator<Item = &'i ContextItem>) -> Vec<(String, i64)> {
    let mut tokens: BTreeMap<&ContextKind, i64> = BTreeMap::new();
    for item in items {
        let sum = tokens.entry(item.kind()).or_default();
        *sum = sum.saturating_add(item.tokens().max(0));
    }
    let mut kinds: Vec<(String, i64)> =
        tokens.into_iter().map(|(kind, tokens)| (one_line(kind.as_str()), tokens)).collect();
    kinds.sort_by_key(|(_, tokens)| std::cmp::Reverse(*tokens));
    if kinds.len() > FILLS.len() {
        let others = kinds.split_off(FILLS.len() - 1);
        let sum = others.iter().fold(0_i64, |sum, (_, tokens)| sum.saturating_add(*tokens));
        kinds.push((format!("{} others", others.len()), sum));
    }
    kinds
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

/// Renders the used share of the target as a bar of the kinds that fill it, and their tokens.
fn bar(used: i64, target: i64, kinds: &[(String, i64)], width: usize, styled: bool) -> String {
    let cells = (width / 3).clamp(10, 30);
    let share = if target > 0 { used as f64 / target as f64 } else { 0.0 };
    let filled = ((share * cells as f64) as usize).min(cells);
    let total: i64 = kinds.iter().fold(0, |sum, (_, tokens)| sum.saturating_add(*tokens));
    let painted = |fill: usize, text: String| match styled {
        true => {
            let style = Style::new().fg_color(Some(COLORS[fill].into()));
            format!("{style}{text}{style:#}")
        }
        false => text,
    };
    let (mut text, mut sum, mut drawn) = (String::new(), 0_i64, 0);
    for (fill, (_, tokens)) in kinds.iter().enumerate() {
        sum = sum.saturating_add(*tokens);
        let end = (sum as f64 / total.max(1) as f64 * filled as f64).round() as usize;
        text.push_str(&painted(fill, FILLS[fill].to_string().repeat(end.saturating_sub(drawn))));
        drawn = end.max(drawn);
    }
    // Fixed text and framing are of no kind.
    text.push_str(&"█".repeat(filled.saturating_sub(drawn)));
    text.push_str(&"·".repeat(cells - filled.max(drawn)));
    let percent = (share * 100.0) as i64;
    text.push_str(&format!("  {used} of {target} tokens ({percent} %)\n"));
    let mut legend = String::new();
    let mut line_width = 0;
    for (fill, (kind, tokens)) in kinds.iter().enumerate() {
        let entry = format!("{kind} {tokens}");
        let entry_width = entry.width() + 2;
        if line_width > 0 && line_width + 2 + entry_width > width {
            legend.push('\n');
            line_width = 0;
        } else if line_width > 0 {
            legend.push_str("  ");
            line_width += 2;
        }
        legend.push_str(&painted(fill, FILLS[fill].to_string()));
        legend.push_str(&format!(" {entry}"));
        line_width += entry_width;
    }
    if !legend.is_empty() {
        text.push_str(&legend);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use pannier_core::score::ReflexiveScorer;
    use pannier_core::{ContextBudget, Pipeline};

    use super::*;

    fn table(tokens: i64, count: usize, width: usize, shows_all: bool) -> String {
        let items: Vec<ContextItem> = (0..count)
            .map(|number| {
                let kind = ["Document", "Message", "Memory", "ToolOutput", "Note"][number % 5];
                ContextItem::builder(format!("content {number} of a long text"), tokens)
                    .id(format!("a-very-long-name-of-an-item-in-a-pool-{number}"))
                    .kind(ContextKind::new(kind).unwrap())
                    .build()
                    .unwrap()
            })
            .collect();
        let budget = ContextBudget::new(tokens * 7, tokens * 7).unwrap();
        let pipeline = Pipeline::builder(ReflexiveScorer).build();
        render(&pipeline.run(&items, &budget).unwrap(), width, false, shows_all)
    }

    #[test]
    fn sixty_columns_hold_every_number() {
        for tokens in [9, 123_456_789] {
            let text = table(tokens, 1_000, 60, false);
            for line in text.lines() {
                assert!(line.width() <= 60, "{line}");
            }
            let rows = text.lines().filter(|line| line.contains(&format!("{tokens} ")));
            assert!(rows.count() >= 27, "{text}");
            let requested = format!("BudgetExceeded: {tokens} tokens requested, 0 available");
            let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(joined.matches(&requested).count(), MAX_EXCLUDED_ROWS, "{text}");
        }
    }

    #[test]
    fn the_rest_of_the_excluded_is_counted() {
        let text = table(9, 1_000, 100, false);
        assert!(text.ends_with("  … and 973 more; --all lists them\n"), "{text}");
        let all = table(9, 1_000, 100, true);
        assert_eq!(all.matches("BudgetExceeded").count(), 993);
        assert!(!all.contains("--all"));
    }

    #[test]
    fn the_bar_is_divided_by_kind() {
        let text = table(10, 9, 90, false);
        let lines: Vec<&str> = text.lines().take(2).collect();
        assert_eq!(lines[0], "█████████▓▓▓▓▓▓▓▓▒▒▒▒░░░░░░░░░  70 of 70 tokens (100 %)");
        assert_eq!(lines[1], "█ Document 20  ▓ Message 20  ▒ Memory 10  ░ 2 others 20");
    }
}
