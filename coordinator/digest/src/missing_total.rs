//! Finds results of tests that the runner's total does not follow: its run was cut short.

use crate::command::Command;
use crate::text::{clip_chars, lossy};
use crate::tool::ToolId;
use aho_corasick::AhoCorasick;
use std::sync::LazyLock;

/// Maximum number of bytes of a line that are searched.
const LOOKED_BYTES_MAX: usize = 200;
/// Maximum length of a line in a cause, in characters.
const LINE_CHARS_MAX: usize = 60;
/// Parts of the names of programs that run tests.
const TEST_WORDS: &[&str] = &["test", "spec", "mocha", "phpunit", "check", "ava", "tox", "nox", "rake"];
/// Words of totals. A line with one of them and a number ends the results before it.
const TOTAL_WORDS: &[&str] =
    &["pass", "fail", "total", "test", "spec", "example", "success", "finish", "complet", "ran "];

/// Finds [`TOTAL_WORDS`] in capital and small letters.
static TOTALS: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let totals = AhoCorasick::builder().ascii_case_insensitive(true).build(TOTAL_WORDS);
    totals.expect("the words are few; a test uses them")
});

/// Lines with which the bare names of passed tests begin.
static BEGINNINGS: LazyLock<Vec<&[u8]>> =
    LazyLock::new(|| ToolId::all().filter_map(|tool| tool.bare_names_after).collect());

/// Whether marks, ticks and such lines begin with this byte.
const fn begins_result(first: u8) -> bool {
    matches!(first, b'.' | b'F' | b's' | b'x' | b'E' | b',' | b'!' | b'R' | 0xe2)
}

/// Layout of results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layout {
    /// Marks of pytest with a percentage: `..F. [ 34%]`.
    Percent,
    /// Marks alone, complete up to the end of their line or not: `..F.`.
    Marks { is_cut: bool },
    /// Lines with a tick below the title of a suite: `    ✔ adds`.
    Ticks,
    /// Indented names below the name of a group, of a tool that prints bare names.
    Names,
}

/// Results without a total so far.
#[derive(Debug, Default)]
pub(crate) struct MissingTotal {
    open: Option<(Layout, String)>,
    /// Indentation of the last line below a blank one.
    title: Option<usize>,
    /// The command runs a tool that prints the bare names of passed tests.
    runs_bare_names: bool,
    /// Such output has begun, and has no total yet.
    has_begun: bool,
}

impl MissingTotal {
    /// A new state for a command.
    pub(crate) fn new(command: &Command) -> Self {
        let mut tools = ToolId::all().filter(|tool| tool.bare_names_after.is_some());
        Self { runs_bare_names: tools.any(|tool| command.runs(tool.commands())), ..Self::default() }
    }

    /// Adds a line. `is_cut`: the stream ended inside it.
    pub(crate) fn line(&mut self, own: &[u8], after_blank: bool, is_cut: bool) {
        let own = &own[..own.len().min(LOOKED_BYTES_MAX)];
        let (indent, text) = split(own);
        let Some(first) = text.first() else { return };
        let may_count = self.open.is_some() || self.runs_bare_names || self.has_begun;
        if !may_count && !begins_result(*first) {
            if after_blank {
                self.title = Some(indent);
            }
            return;
        }
        let (own, text) = (own.trim_ascii_end(), text.trim_ascii_end());
        if matches!(first, b'.' | b'F' | b's' | b'x' | b'E' | b',' | b'!')
            && let Some(percent) = marks(text)
        {
            let layout = match percent {
                Some(100) => return self.open = None,
                Some(_) => Layout::Percent,
                None => Layout::Marks { is_cut },
            };
            return self.open = Some((layout, shown(own)));
        }
        if text.starts_with("✓".as_bytes()) || text.starts_with("✔".as_bytes()) {
            if indent >= 4 && self.title.is_some_and(|title| title >= 2) {
                self.open = Some((Layout::Ticks, shown(own)));
            }
            return;
        }
        self.has_begun |= indent == 0 && BEGINNINGS.iter().any(|beginning| text.starts_with(beginning));
        let has_names = self.runs_bare_names || self.has_begun;
        if (self.open.is_some() || has_names) && is_total(text) {
            *self = Self { runs_bare_names: self.runs_bare_names, ..Self::default() };
        } else if after_blank {
            self.title = Some(indent);
        } else if has_names && indent >= 2 && self.title.is_some() && self.open.is_none() {
            self.open = Some((Layout::Names, shown(own)));
        }
    }

    /// Returns the last line of results without a total. The command decides in doubtful cases: marks and ticks
    /// alone may be the progress of a program that is not a test runner.
    pub(crate) fn result(&self, command: &Command, is_test_run: bool) -> Option<&str> {
        let (layout, line) = self.open.as_ref()?;
        let runner = ToolId::all().any(|tool| tool.always_totals && command.runs(tool.commands()));
        let may_test = is_test_run || command.is_empty() || command.names_any(TEST_WORDS);
        let counts = match layout {
            Layout::Percent => true,
            Layout::Marks { is_cut } => runner || *is_cut && may_test,
            Layout::Ticks => may_test,
            Layout::Names => true,
        };
        counts.then_some(line)
    }
}

/// Number of leading blanks, and the rest.
fn split(own: &[u8]) -> (usize, &[u8]) {
    let text = own.trim_ascii_start();
    (own.len() - text.len(), text)
}

fn shown(own: &[u8]) -> String {
    clip_chars(lossy(own).trim(), LINE_CHARS_MAX).into_owned()
}

/// Returns `Some` if the line has only marks of tests, at least one of them passed, with the percentage behind them.
fn marks(text: &[u8]) -> Option<Option<u32>> {
    let end = text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
    let (marks, rest) = (&text[..end], text[end..].trim_ascii());
    let is_mark =
        |byte: &u8| matches!(byte, b'.' | b'F' | b'E' | b's' | b'x' | b'X' | b'R' | b'*' | b',' | b'!');
    if !marks.contains(&b'.') || !marks.iter().all(is_mark) {
        return None;
    }
    if rest.is_empty() {
        return Some(None);
    }
    let percent = rest.strip_prefix(b"[")?.strip_suffix(b"%]")?;
    let percent = std::str::from_utf8(percent.trim_ascii()).ok()?;
    percent.parse().ok().map(Some)
}

/// Returns true for a line with a number and a word of a total.
fn is_total(text: &[u8]) -> bool {
    text.iter().any(u8::is_ascii_digit) && TOTALS.is_match(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(log: &str, command: &str) -> Option<String> {
        let mut missing_total = MissingTotal::new(&Command::new(command));
        let mut after_blank = false;
        for line in log.split_inclusive('\n') {
            missing_total.line(line.as_bytes(), after_blank, !line.ends_with('\n'));
            after_blank = line.trim().is_empty();
        }
        missing_total.result(&Command::new(command), false).map(str::to_owned)
    }

    #[test]
    fn results_without_a_total_are_unclosed() {
        for (log, command) in [
            ("....", ""),
            ("..s.x\n..", "./run_tests.sh"),
            ("...\n", "pytest -q | cat"),
            (".......... [ 34%]\n", "true"),
            ("\n  ..", "npx mocha -R dot"),
            ("\n\n  Calc\n    ✔ adds\n    ✔ subs\n", ""),
            ("\n  Calc\n    ✔ adds\nprinted by a test\n", "npm test"),
            ("\nCalc\n  adds\n  subs\n", "bundle exec rspec -fd; true"),
            ("\nRandomized with seed 4\n\nCalc\n  adds\n", ""),
            ("..\n2 passed in 0.1s\n...", "pytest -q a; pytest -q b"),
        ] {
            assert!(result(log, command).is_some(), "{log:?} of {command:?}");
        }
        for (log, command) in [
            ("....", "until curl -s a; do printf .; done"),
            ("...\n", "node --experimental-x a.js"),
            (".... [100%]\n", "pytest -qq"),
            ("....\n4 passed in 0.01s\n", "pytest -q"),
            ("....\n----\nRan 4 tests in 0.1s\n\nOK\n", "python -m unittest"),
            ("\n  Calc\n    ✔ adds\n\n  1 passing (2ms)\n", ""),
            ("\n  Install\n    ✔ copied\n", "npm ci"),
            ("\nCalc\n  adds\n\nFinished in 0.1 seconds\n1 example, 0 failures\n", "rspec -fd"),
            ("\nCalc\n  adds\n", "make"),
            ("Usage: a\n\nOptions:\n  -a\n  -b\n", ""),
        ] {
            assert_eq!(result(log, command), None, "{log:?} of {command:?}");
        }
    }
}
