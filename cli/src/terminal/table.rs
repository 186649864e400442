//! Text tables.

use super::{Colour, columns, cut, is_colourful, one_line};
use std::io;
use unicode_width::UnicodeWidthStr;

/// A column of a table that is too wide keeps at least this width.
const COLUMN_MIN: usize = 8;
/// Space between two columns.
const GAP: usize = 2;

/// A table with a heading. The last column is not padded.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    heading: [&'static str; N],
    rows: Vec<[Cell; N]>,
}

/// A text and its colour.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    colour: Colour,
}

impl Cell {
    pub(crate) fn coloured(text: impl Into<String>, colour: Colour) -> Self {
        Self { text: one_line(&text.into()), colour }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::coloured(text, Colour::Plain)
    }
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(heading: [&'static str; N]) -> Self {
        Self { heading, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, row: [Cell; N]) {
        self.rows.push(row);
    }

    /// Returns the lines of the table: coloured if stdout has colours, and no wider than stdout if
    /// that is a terminal.
    pub(crate) fn text(&self) -> String {
        self.lines(is_colourful(&io::stdout()), columns(io::stdout()))
    }

    fn lines(&self, colourful: bool, columns: Option<usize>) -> String {
        let widths = self.widths(columns);
        let heading = self.heading.map(|text| Cell::coloured(text, Colour::Dim));
        let mut out = String::new();
        for row in [&heading].into_iter().chain(&self.rows) {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let text = cut(&cell.text, *width);
                let padding = if column + 1 == N { 0 } else { width - text.width() + GAP };
                let colour = if colourful { cell.colour } else { Colour::Plain };
                line.push_str(&colour.paint(&text));
                line.push_str(&" ".repeat(padding));
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    /// Returns the width of each column. If the table is too wide, the widest column becomes
    /// narrower first. The first column names the row and keeps its width.
    fn widths(&self, columns: Option<usize>) -> [usize; N] {
        let mut widths = self.heading.map(UnicodeWidthStr::width);
        for row in &self.rows {
            widths.iter_mut().zip(row).for_each(|(width, cell)| *width = cell.text.width().max(*width));
        }
        let Some(columns) = columns else { return widths };
        let gaps = GAP * N.saturating_sub(1);
        while widths.iter().sum::<usize>() + gaps > columns {
            let widest = widths.iter_mut().skip(1).max_by_key(|width| **width);
            match widest.filter(|width| **width > COLUMN_MIN) {
                Some(width) => *width -= 1,
                None => break,
            }
        }
        widths
    }
}

#[cfg(test)]
mod tests {
    use super::{Cell, Colour, Table};
    use unicode_width::UnicodeWidthStr;

    #[test]
    fn columns_line_up_and_nothing_moves_the_cursor() {
        let mut table = Table::new(["NAME", "STATE", "COMMAND"]);
        table.row(["ä".into(), Cell::coloured("passed", Colour::Green), "true".into()]);
        table.row(["longer".into(), "".into(), "echo a\n\x1b[2Jb".into()]);
        let plain = "NAME    STATE   COMMAND\nä       passed  true\nlonger          echo a ⏎ \\x1b[2Jb\n";
        assert_eq!(table.lines(false, None), plain);
        assert!(table.lines(true, None).contains("ä       \x1b[32mpassed\x1b[0m  true"));
    }

    #[test]
    fn a_table_is_no_wider_than_the_terminal() {
        let mut table = Table::new(["ID", "LABELS", "COMMAND"]);
        table.row(["0123456789ab".into(), "a=1 b=2 c=3 d=4".into(), "漢字".repeat(20).into()]);
        for columns in [110, 80, 40] {
            let text = table.lines(true, Some(columns));
            let plain = table.lines(false, Some(columns));
            assert!(plain.lines().all(|line| line.width() <= columns), "{columns}: {plain}");
            assert!(text.contains("0123456789ab"), "{text}");
        }
        let narrow = table.lines(false, Some(40));
        assert_eq!(narrow.lines().nth(1), Some("0123456789ab  a=1 b=2 c=3…  漢字漢字漢…"), "{narrow}");
        // A table that can't fit keeps readable columns.
        assert!(table.lines(false, Some(3)).contains("a=1 b=2…"));
    }
}
