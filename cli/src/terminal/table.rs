//! Text tables.

use super::{Colour, is_colourful, one_line};

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

    /// Returns the lines of the table, coloured if stdout supports colours.
    pub(crate) fn text(&self) -> String {
        self.lines(is_colourful())
    }

    fn lines(&self, colourful: bool) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].text.chars().count());
            cells.chain([self.heading[column].len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..N).map(width).collect();
        let heading = self.heading.map(|text| Cell::coloured(text, Colour::Dim));
        let mut out = String::new();
        for row in [&heading].into_iter().chain(&self.rows) {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let padding =
                    if column + 1 == N { 0 } else { widths[column] - cell.text.chars().count() + 2 };
                let colour = if colourful { cell.colour } else { Colour::Plain };
                line.push_str(&colour.paint(&cell.text));
                line.push_str(&" ".repeat(padding));
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::{Cell, Colour, Table};

    #[test]
    fn columns_line_up_and_nothing_moves_the_cursor() {
        let mut table = Table::new(["NAME", "STATE", "COMMAND"]);
        table.row(["ä".into(), Cell::coloured("passed", Colour::Green), "true".into()]);
        table.row(["longer".into(), "".into(), "echo a\n\x1b[2Jb".into()]);
        let plain = "NAME    STATE   COMMAND\nä       passed  true\nlonger          echo a  [2Jb\n";
        assert_eq!(table.lines(false), plain);
        assert!(table.lines(true).contains("ä       \x1b[32mpassed\x1b[0m  true"));
    }
}
