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
    use super::super::literal_search::PICKED_BYTES;
    use super::super::pattern_shape::parsed;
    use super::super::set::search_candidates;
    use super::*;
    use aho_corasick::AhoCorasick;
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    /// Patterns that may lack a row. Each costs 0.2 million instructions at
    /// the start of a process.
    const DIFFERENCES_MAX: usize = 40;
    /// Bytes of each sample whose lines are counted, so that no large one decides alone.
    const SAMPLE_BYTES_MAX: usize = 40_000;
    /// Lines of other logs that may contain a text of four bytes; half as many for each further byte.
    const OTHER_LINES: usize = 256;

    fn row(pattern: &str, texts: &[Vec<u8>]) -> String {
        assert!(!pattern.contains(['\t', '\n']), "the pattern {pattern:?} needs an escape");
        texts.iter().fold(pattern.to_owned(), |row, text| format!("{row}\t{}", text.escape_ascii()))
    }

    fn add_logs(folder: &Path, lines: &mut BTreeSet<Vec<u8>>) {
        for path in std::fs::read_dir(folder).expect("the samples").flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                add_logs(&path, lines);
            } else if path.extension().is_some_and(|extension| extension == "log") {
                let log = std::fs::read(path).expect("a sample");
                let log = &log[..log.len().min(SAMPLE_BYTES_MAX)];
                lines.extend(log.split(|byte| *byte == b'\n').map(<[u8]>::to_vec));
            }
        }
    }

    /// In how many different lines of the samples each text occurs.
    fn lines_with(texts: &BTreeSet<&[u8]>) -> BTreeMap<Vec<u8>, usize> {
        let mut lines = BTreeSet::new();
        for folder in ["samples", "tests/logs"] {
            add_logs(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut lines);
        }
        let finder = AhoCorasick::new(texts).expect("the texts are few");
        let mut counts = vec![0; texts.len()];
        for line in &lines {
            let found: BTreeSet<_> =
                finder.find_overlapping_iter(line).map(|found| found.pattern()).collect();
            found.iter().for_each(|text| counts[text.as_usize()] += 1);
        }
        texts.iter().map(|text| text.to_vec()).zip(counts).collect()
    }

    /// Writes a row for each pattern with those of its texts that occur in the fewest lines of the samples.
    fn write_table(candidates: &BTreeMap<&str, Vec<Vec<Vec<u8>>>>) {
        let texts = candidates.values().flatten().flatten().map(Vec::as_slice).collect();
        let lines = lines_with(&texts);
        let others = |text: &[u8]| 1 + (OTHER_LINES >> (text.len() - PICKED_BYTES).min(8));
        let cost = |texts: &&Vec<Vec<u8>>| texts.iter().map(|text| lines[text] + others(text)).sum::<usize>();
        let table: String = candidates
            .iter()
            .map(|(pattern, lists)| {
                let rarest = lists.iter().min_by_key(cost).map_or(&[][..], Vec::as_slice);
                format!("{}\n", row(pattern, rarest))
            })
            .collect();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/rule_texts.tsv");
        std::fs::write(path, table).expect("the table is writable");
    }

    #[test]
    fn the_table_has_the_texts_of_the_patterns() {
        let candidates: BTreeMap<_, _> = crate::tools::rules()
            .map(|rule| (rule.pattern, search_candidates(&parsed(rule.pattern))))
            .collect();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            return write_table(&candidates);
        }
        let known = KnownTexts::new();
        assert!(known.rows.is_sorted(), "sort the rows of golden/rule_texts.tsv, or run `cargo xtask bless`");
        let mut missing = 0;
        for (pattern, lists) in &candidates {
            let Some(texts) = known.of(pattern) else {
                missing += 1;
                continue;
            };
            let texts: Vec<_> = texts.map(Cow::into_owned).collect();
            let is_valid = if lists.is_empty() { texts.is_empty() } else { lists.contains(&texts) };
            assert!(is_valid, "run `cargo xtask bless`; this row is wrong: {}", row(pattern, &texts));
        }
        let unused = known.rows.len() + missing - candidates.len();
        assert!(
            missing <= DIFFERENCES_MAX && unused == 0,
            "{missing} patterns have no row in golden/rule_texts.tsv, and {unused} rows have no pattern: run `cargo xtask bless`"
        );
    }
}
