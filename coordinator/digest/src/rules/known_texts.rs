//! Table of the texts that each pattern requires. Parsing all patterns would take most of the start of a process.
//!
//! The table only saves time: a pattern without a row is parsed at the start, with the same result. A test compares each row with
//! its pattern, and `cargo xtask bless` writes the table again.

use std::borrow::Cow;

/// A row for each pattern, in the order of their bytes: the pattern and its texts, escaped, with tabs between them. A row
/// without a text is of a pattern that the automaton matches.
const TABLE: &str = include_str!("../../golden/rule_texts.tsv");

/// Rows of the table.
pub(super) struct KnownTexts {
    /// Pattern, and its texts with tabs between them.
    rows: Vec<(&'static str, &'static str)>,
}

impl KnownTexts {
    pub(super) fn new() -> Self {
        let rows = TABLE.lines().map(|row| row.split_once('\t').unwrap_or((row, "")));
        Self { rows: rows.collect() }
    }

    /// The texts of a pattern, empty if it has none. `None` if the table has no row for it.
    pub(super) fn of(&self, pattern: &str) -> Option<impl Iterator<Item = Cow<'static, [u8]>> + use<>> {
        let row = self.rows.binary_search_by(|(known, _)| (*known).cmp(pattern)).ok()?;
        Some(self.rows[row].1.split('\t').filter(|text| !text.is_empty()).map(unescaped))
    }
}

/// The bytes of a text that was written by [`u8::escape_ascii`].
fn unescaped(text: &'static str) -> Cow<'static, [u8]> {
    let Some(first) = memchr::memchr(b'\\', text.as_bytes()) else { return text.as_bytes().into() };
    let (plain, mut rest) = text.as_bytes().split_at(first);
    let mut bytes = plain.to_vec();
    loop {
        rest = match rest {
            [] => return bytes.into(),
            [b'\\', b'x', high, low, rest @ ..] => {
                let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0) as u8;
                bytes.push(digit(*high) << 4 | digit(*low));
                rest
            }
            [b'\\', escaped, rest @ ..] => {
                bytes.push(match escaped {
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'n' => b'\n',
                    other => *other,
                });
                rest
            }
            [byte, rest @ ..] => {
                bytes.push(*byte);
                rest
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::pattern_shape::parsed;
    use super::super::set::search_texts;
    use super::*;
    use std::collections::BTreeMap;

    /// Patterns that may lack a row, and rows that may lack a pattern. Each of the former costs 0.2 million instructions at
    /// the start of a process.
    const DIFFERENCES_MAX: usize = 40;

    fn row(pattern: &str) -> String {
        assert!(!pattern.contains(['\t', '\n']), "the pattern {pattern:?} needs an escape");
        let texts = search_texts(&parsed(pattern)).unwrap_or_default();
        texts.iter().fold(pattern.to_owned(), |row, text| format!("{row}\t{}", text.escape_ascii()))
    }

    #[test]
    fn the_table_has_the_texts_of_the_patterns() {
        let rows: BTreeMap<_, _> =
            crate::tools::rules().map(|rule| (rule.pattern, row(rule.pattern))).collect();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/rule_texts.tsv");
            let table: String = rows.values().map(|row| format!("{row}\n")).collect();
            std::fs::write(path, table).expect("the table is writable");
            return;
        }
        let known = KnownTexts::new();
        assert!(known.rows.is_sorted(), "sort the rows of golden/rule_texts.tsv, or run `cargo xtask bless`");
        let mut missing = 0;
        for (pattern, row) in &rows {
            let Some(texts) = known.of(pattern) else {
                missing += 1;
                continue;
            };
            let texts = texts.map(|text| format!("\t{}", text.escape_ascii()));
            let found = texts.fold((*pattern).to_owned(), |row, text| row + &text);
            assert_eq!(found, *row, "run `cargo xtask bless`");
        }
        let unused = known.rows.len() + missing - rows.len();
        assert!(
            missing <= DIFFERENCES_MAX && unused <= DIFFERENCES_MAX,
            "{missing} patterns have no row in golden/rule_texts.tsv, and {unused} rows have no pattern: run `cargo xtask bless`"
        );
    }
}
