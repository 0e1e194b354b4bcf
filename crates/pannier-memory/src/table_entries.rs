//! Parses tables of decisions and learnings: each row is an entry.

use std::ops::Range;

use crate::date;
use crate::entry::Draft;
use crate::markdown::Outline;
use crate::superseded::{is_status_superseded, says_superseded};

/// Returns an entry for each row of a table, if the range is a table and nothing else.
pub(crate) fn table_rows(outline: &Outline, range: &Range<usize>) -> Vec<Draft> {
    let first = outline.line(range.start);
    let last = outline.line(range.end.max(range.start + 1) - 1);
    let rows = (first..=last).map(|line| (line, outline.text()[outline.line_range(line)].trim()));
    let rows: Vec<(usize, Vec<&str>)> = rows
        .filter(|(_, text)| !text.is_empty())
        .map(|(line, text)| (line, if text.starts_with('|') { cells(text) } else { Vec::new() }))
        .collect();
    let is_rule = |cell: &&str| cell.contains('-') && cell.chars().all(|c| matches!(c, '-' | ':'));
    let [(_, names), (_, rule), rows @ ..] = rows.as_slice() else { return Vec::new() };
    if rule.is_empty() || !rule.iter().all(is_rule) || rows.iter().any(|row| row.1.is_empty()) {
        return Vec::new();
    }
    let is_title = |name: &&str| {
        let name = name.to_lowercase();
        ["decision", "title", "learning", "lesson", "summary", "what"]
            .iter()
            .any(|word| name.contains(word))
    };
    let column = names.iter().position(is_title);
    rows.iter().filter_map(|(line, cells)| row_entry(names, column, *line, cells)).collect()
}

/// Returns the cells of a row without their outer bars.
fn cells(row: &str) -> Vec<&str> {
    let row = row.strip_prefix('|').unwrap_or(row);
    let row = row.strip_suffix('|').unwrap_or(row);
    let (mut cells, mut start) = (Vec::new(), 0);
    for (index, _) in row.match_indices('|') {
        if !row[..index].ends_with('\\') {
            cells.push(row[start..index].trim());
            start = index + 1;
        }
    }
    cells.push(row[start..].trim());
    cells
}

/// Returns the words of an entry, of which an index repeats some.
pub(crate) fn entry_words(entry: &Draft) -> impl Iterator<Item = String> {
    let date = entry.date.map(|date| date.to_string()[..10].to_owned()).unwrap_or_default();
    let words = |text: &str| words(text).map(str::to_owned).collect::<Vec<_>>();
    [words(&entry.title), words(&entry.text), words(&date)].into_iter().flatten()
}

/// Returns the words of a text.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric())
}

/// Returns a row as an entry. The title is the cell of its column, or else the first that is no date and no number, or else
/// the first.
fn row_entry(names: &[&str], column: Option<usize>, line: usize, cells: &[&str]) -> Option<Draft> {
    let is_text = |cell: &&str| cell.contains(char::is_alphabetic) && date::day(cell).is_none();
    let column = column.filter(|column| cells.get(*column).is_some_and(is_text));
    let column = column.or_else(|| {
        let words = |cell: &&str| is_text(cell) && cell.contains(' ');
        let text = cells.iter().position(words).or_else(|| cells.iter().position(is_text));
        text.or_else(|| cells.iter().position(|cell| !cell.is_empty()))
    })?;
    let date = cells.iter().find_map(|cell| date::parse(cell.trim_matches(['*', '`', '[', ']'])));
    let others =
        cells.iter().enumerate().filter(|(index, cell)| *index != column && !cell.is_empty());
    let others =
        others.map(|(index, cell)| match names.get(index).filter(|name| !name.is_empty()) {
            Some(name) => format!("**{}**: {cell}", name.trim_matches('*')),
            None => (*cell).to_owned(),
        });
    let text = others.collect::<Vec<_>>().join("\n\n");
    let is_superseded = text.lines().any(is_status_superseded) || says_superseded(cells[column]);
    let title = cells[column].to_owned();
    let date = date.and_then(|date| date.date);
    Some(Draft { title, text, date, is_superseded, line, end_line: line, ..Draft::default() })
}
