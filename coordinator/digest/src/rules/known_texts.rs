//! Table of the texts that each pattern requires, and of their rarest bytes in logs. Parsing all patterns would take most of the start
//! of a process.
//!
//! The table only saves time: a pattern without a row is parsed at the start, with the same result. A test compares each row with
//! its pattern, and `cargo xtask bless` writes the table again.

use super::literal_search::STRIDE;
use std::borrow::Cow;

/// A row for each pattern, in the order of their bytes: the pattern and its texts, escaped, with tabs between them. Before each text
/// are the offsets of its picks, each as the character after [`OFFSET_0`] by so much. A row without a text is of a pattern that the
/// automaton matches.
const TABLE: &str = include_str!("../../golden/rule_texts.tsv");

/// The character of the offset 0.
const OFFSET_0: u8 = b'0';

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

    /// The texts of a pattern with their picks, empty if it has none. `None` if the table has no row for it.
    pub(super) fn of(
        &self,
        pattern: &str,
    ) -> Option<impl Iterator<Item = (Cow<'static, [u8]>, [u8; STRIDE])> + use<>> {
        let row = self.rows.binary_search_by(|(known, _)| (*known).cmp(pattern)).ok()?;
        Some(self.rows[row].1.split('\t').filter_map(picked))
    }
}

/// A text of a row with its picks.
fn picked(field: &'static str) -> Option<(Cow<'static, [u8]>, [u8; STRIDE])> {
    let (picks, text) = field.split_at_checked(STRIDE)?;
    let [even, odd] = *picks.as_bytes().first_chunk()?;
    Some((unescaped(text), [even.wrapping_sub(OFFSET_0), odd.wrapping_sub(OFFSET_0)]))
}

/// The bytes of a text that was written by [`u8::escape_ascii`].
fn unescaped(text: &'static str) -> Cow<'static, [u8]> {
    let Some(first) = memchr::memchr(b'\\', text.as_bytes()) else { return text.as_bytes().into() };
    let (plain, mut rest) = text.as_bytes().split_at(first);
    let mut bytes = Vec::with_capacity(text.len());
    bytes.extend_from_slice(plain);
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
    use super::super::literal_search::{PICKED_BYTES, likely_picks, picks};
    use super::super::literals::LINE_BORDER;
    use super::super::pattern_shape::parsed;
    use super::super::set::search_candidates;
    use super::*;
    use aho_corasick::AhoCorasick;
    use std::collections::{BTreeMap, BTreeSet, HashMap};
    use std::path::Path;

    /// Patterns that may lack a row. Each costs 0.2 million instructions at
    /// the start of a process.
    const DIFFERENCES_MAX: usize = 40;
    /// Bytes of each sample whose lines are counted, so that no large one decides alone.
    const SAMPLE_BYTES_MAX: usize = 40_000;
    /// Lines of real logs for each line of the samples that has a text: logs repeat their lines.
    const REPEATED: usize = 4;
    /// Places of other logs at which a text may begin. Each further byte of the text halves them several times.
    const OTHER_PLACES: usize = 1 << 21;

    fn row(pattern: &str, texts: &[Vec<u8>], picks: impl Fn(&[u8]) -> [u8; STRIDE]) -> String {
        assert!(!pattern.contains(['\t', '\n']), "the pattern {pattern:?} needs an escape");
        texts.iter().fold(pattern.to_owned(), |row, text| {
            let [even, odd] = picks(text).map(|at| char::from(OFFSET_0 + at));
            format!("{row}\t{even}{odd}{}", text.escape_ascii())
        })
    }

    fn add_logs(folder: &Path, lines: &mut BTreeSet<Vec<u8>>) {
        for path in std::fs::read_dir(folder).expect("the samples").flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                add_logs(&path, lines);
            } else if path.extension().is_some_and(|extension| extension == "log") {
                let log = std::fs::read(path).expect("a sample");
                let log = &log[..log.len().min(SAMPLE_BYTES_MAX)];
                let border = |line: &[u8]| [LINE_BORDER, line, LINE_BORDER].concat();
                lines.extend(log.split(|byte| *byte == b'\n').map(border));
            }
        }
    }

    /// The different lines of the samples.
    fn lines() -> BTreeSet<Vec<u8>> {
        let mut lines = BTreeSet::new();
        for folder in ["samples", "tests/logs"] {
            add_logs(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut lines);
        }
        lines
    }

    /// In how many lines each text occurs.
    fn lines_with(texts: &BTreeSet<&[u8]>, lines: &BTreeSet<Vec<u8>>) -> BTreeMap<Vec<u8>, usize> {
        let finder = AhoCorasick::new(texts).expect("the texts are few");
        let mut counts = vec![0; texts.len()];
        for line in lines {
            let found: BTreeSet<_> =
                finder.find_overlapping_iter(line).map(|found| found.pattern()).collect();
            found.iter().for_each(|text| counts[text.as_usize()] += 1);
        }
        texts.iter().map(|text| text.to_vec()).zip(counts).collect()
    }

    /// How often each four bytes occur in the lines.
    fn counts(lines: &BTreeSet<Vec<u8>>) -> HashMap<&[u8], usize> {
        let mut counts = HashMap::new();
        lines.iter().flat_map(|line| line.windows(PICKED_BYTES)).for_each(|bytes| {
            *counts.entry(bytes).or_default() += 1;
        });
        counts
    }

    /// Information of a byte in logs, in half bits.
    const fn half_bits(byte: &u8) -> u32 {
        match byte {
            b'a'..=b'z' | b' ' => 7,
            b'0'..=b'9' => 8,
            _ => 10,
        }
    }

    /// Writes a row for each pattern with those of its texts that occur in the fewest lines of the samples.
    fn write_table(candidates: &BTreeMap<&str, Vec<Vec<Vec<u8>>>>) {
        let texts = candidates.values().flatten().flatten().map(Vec::as_slice).collect();
        let lines = lines();
        let (lines_with, counts) = (lines_with(&texts, &lines), counts(&lines));
        let others = |text: &[u8]| {
            1 + OTHER_PLACES.checked_shr(text.iter().map(half_bits).sum::<u32>() / 2).unwrap_or(0)
        };
        let cost = |texts: &&Vec<Vec<u8>>| {
            texts.iter().map(|text| REPEATED * lines_with[text] + others(text)).sum::<usize>()
        };
        let picks = |text: &[u8]| {
            picks(text, |bytes| REPEATED * counts.get(bytes).copied().unwrap_or(0) + others(bytes))
        };
        let table: String = candidates
            .iter()
            .map(|(pattern, lists)| {
                let rarest = lists.iter().min_by_key(cost).map_or(&[][..], Vec::as_slice);
                format!("{}\n", row(pattern, rarest, picks))
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
            let (texts, picks): (Vec<_>, Vec<_>) =
                texts.map(|(text, picks)| (text.into_owned(), picks)).unzip();
            let is_valid = if lists.is_empty() { texts.is_empty() } else { lists.contains(&texts) };
            let is_pick = |(nth, at): (usize, &u8), text: &[u8]| {
                usize::from(*at) % STRIDE == nth && usize::from(*at) + PICKED_BYTES <= text.len()
            };
            let are_picks = texts.iter().zip(&picks).all(|(text, picks)| {
                let picks = picks.iter().enumerate().take(1 + text.len() - PICKED_BYTES);
                picks.into_iter().all(|pick| is_pick(pick, text))
            });
            assert!(
                is_valid && are_picks,
                "run `cargo xtask bless`; this row is wrong: {}",
                row(pattern, &texts, likely_picks)
            );
        }
        let unused = known.rows.len() + missing - candidates.len();
        assert!(
            missing <= DIFFERENCES_MAX && unused == 0,
            "{missing} patterns have no row in golden/rule_texts.tsv, and {unused} rows have no pattern: run `cargo xtask bless`"
        );
    }
}
