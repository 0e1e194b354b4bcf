//! Tables for people.

use anstyle::Style;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Rows of cells in aligned columns. The last column is truncated to the rest of the line.
pub(crate) struct Table {
    width: usize,
    indent: usize,
    right_aligned: &'static [bool],
    /// The smallest width of the last column, even beyond the line.
    min_last: usize,
    rows: Vec<(Vec<String>, Style)>,
}

impl Table {
    /// Creates a table; `right_aligned` has a flag for each column.
    pub(crate) fn new(width: usize, indent: usize, right_aligned: &'static [bool]) -> Self {
        Self { width, indent, right_aligned, min_last: 12, rows: Vec::new() }
    }

    /// Sets the smallest width of the last column: at 0, no line exceeds the width for it.
    pub(crate) fn with_min_last(mut self, columns: usize) -> Self {
        self.min_last = columns;
        self
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.styled_row(cells, Style::new());
    }

    /// Adds a row in a style.
    pub(crate) fn styled_row(&mut self, cells: impl IntoIterator<Item = String>, style: Style) {
        let cells = cells.into_iter().map(|cell| one_line(&cell)).collect();
        self.rows.push((cells, style));
    }

    /// Renders the rows, each with a line end.
    pub(crate) fn render(&self, is_styled: bool) -> String {
        let columns = self.rows.iter().map(|(cells, _)| cells.len()).max().unwrap_or(0);
        let widest = |column: usize| {
            let cells = self.rows.iter().filter_map(|(cells, _)| cells.get(column));
            cells.map(|cell| cell.width()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(widest).collect();
        let mut text = String::new();
        for (cells, style) in &self.rows {
            let mut line = " ".repeat(self.indent);
            for (column, cell) in cells.iter().enumerate() {
                let is_last = column + 1 == columns;
                let remaining = self.width.saturating_sub(line.width()).max(self.min_last);
                let cell = if is_last { shorten(cell, remaining) } else { cell.clone() };
                let padding = " ".repeat(widths[column].saturating_sub(cell.width()));
                match self.right_aligned.get(column) {
                    Some(true) => line.extend([padding.as_str(), &cell]),
                    _ if is_last => line.push_str(&cell),
                    _ => line.extend([cell.as_str(), &padding]),
                }
                if !is_last {
                    line.push_str("  ");
                }
            }
            let line = line.trim_end();
            if is_styled && *style != Style::new() {
                text.push_str(&format!("{}{line}{}\n", style.render(), style.render_reset()));
            } else {
                text.push_str(line);
                text.push('\n');
            }
        }
        text
    }
}

/// Joins the lines of a text, collapses whitespace, and escapes control characters.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(400));
    for character in text.chars() {
        // No line is wider, and items can be large.
        if line.len() >= 400 {
            break;
        }
        if character.is_whitespace() {
            if !line.ends_with(' ') {
                line.push(' ');
            }
        } else {
            line.push(escape_control(character));
        }
    }
    line.trim().to_owned()
}

/// Escapes control characters other than line feeds and tabs.
pub(crate) fn printable(text: &str) -> String {
    let keep = |character| matches!(character, '\n' | '\t');
    text.chars()
        .map(|character| if keep(character) { character } else { escape_control(character) })
        .collect()
}

/// Replaces a character that a terminal would interpret.
fn escape_control(character: char) -> char {
    match character {
        _ if character.is_control() => '\u{fffd}',
        // Bidirectional overrides and isolates.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        _ => character,
    }
}

/// Truncates a text to `columns`, with an ellipsis.
pub(crate) fn shorten(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    if columns == 0 {
        return String::new();
    }
    let mut short = String::new();
    let mut width = 0;
    for character in text.chars() {
        width += character.width().unwrap_or(0);
        if width + 1 > columns {
            break;
        }
        short.push(character);
    }
    short.truncate(short.trim_end().len());
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_display_width() {
        let mut table = Table::new(20, 1, &[true, false]);
        table.row(["7", "wide 漢字", "last"].map(str::to_owned));
        table.row(["100", "x", "a text that is far too long"].map(str::to_owned));
        assert_eq!(table.render(false), "   7  wide 漢字  last\n 100  x          a text that…\n");
    }

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(one_line("a\u{1b}[31m\n\t b\u{202e}c"), "a\u{fffd}[31m b\u{fffd}c");
    }
}
