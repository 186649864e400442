//! Keeps lines that match no recognizer but contain a word of failure. They are shown only if the
//! run did not pass and no better finding exists.

use crate::findings::{RawFinding, normalised};
use crate::hashing::FastHasher;
use crate::rules::{Kind, Role};
use crate::text::lossy;
use aho_corasick::{AhoCorasick, AhoCorasickKind};
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::Severity;
use std::collections::VecDeque;
use std::sync::LazyLock;

/// Number of lines kept from the beginning of a log.
const FIRST_MAX: usize = 4;
/// Number of lines kept from the end of a log.
const LAST_MAX: usize = 8;
/// Maximum number of lines of one message.
const LINES_MAX: usize = 6;
/// Certainty of a match, in percent.
const SURE: u8 = 50;
/// Maximum number of bytes of a line that are searched.
const LOOKED_BYTES_MAX: usize = 400;

/// Words that report a problem. A match counts only if the word is not part of a longer name.
const WORDS: &[&str] = &[
    "fail",
    "fails",
    "failed",
    "failing",
    "failure",
    "failures",
    "error",
    "errors",
    "fatal",
    "exception",
    "panic",
    "refused",
    "denied",
    "rejected",
    "aborted",
    "not found",
    "not formatted",
    "not installed",
    "no such",
    "no space",
    "expected",
    "unexpected",
    "unknown",
    "undefined",
    "invalid",
    "mismatch",
    "missing",
    "cannot",
    "can't",
    "could not",
    "couldn't",
    "unable to",
    "syntax error",
    "assertion",
    "threshold",
    "timed out",
    "vulnerability",
    "vulnerabilities",
    "violation",
    "violations",
    "issue",
    "no module named",
    "no files",
    "no file",
    "no match",
    "no matches",
    "no matching",
    "went wrong",
    "not recognized",
    "unrecognized",
    "not supported",
    "unsupported",
    "not allowed",
    "not permitted",
    "not exist",
    "must be",
    "must have",
    "incompatible",
    "illegal",
    "crash",
    "crashed",
    "died",
    "unreachable",
    "unavailable",
    "conflict",
    "conflicts",
    "exceeded",
    "exceeds",
    "too many",
    "too long",
    "too large",
    "too old",
    "expired",
    "unauthorized",
    "forbidden",
    "differ",
    "differs",
];

/// Substrings of [`WORDS`], without a first letter of variable case if they are long enough. Every
/// such line contains one of them, so they serve as a prefilter.
pub(crate) const TEXTS: &[&str] = &[
    "fail",
    "Fail",
    "FAIL",
    "error",
    "Error",
    "ERROR",
    "fatal",
    "Fatal",
    "FATAL",
    "xception",
    "panic",
    "refused",
    "denied",
    "DENIED",
    "rejected",
    "abort",
    "Abort",
    "not found",
    "not formatted",
    "NOT FOUND",
    "not installed",
    "o such",
    "o space",
    "xpected",
    "nknown",
    "ndefined",
    "nvalid",
    "ismatch",
    "MISMATCH",
    "issing",
    "annot",
    "can't",
    "ould not",
    "ouldn't",
    "nable to",
    "ssertion",
    "hreshold",
    "imed out",
    "ulnerabilit",
    "iolation",
    "Issue",
    "o module named",
    "o file",
    "o match",
    "went wrong",
    "not recogn",
    "nrecogn",
    "not support",
    "nsupported",
    "not allowed",
    "not permitted",
    "not exist",
    "must be",
    "must have",
    "ncompatible",
    "llegal ",
    "crash",
    "Crash",
    " died",
    "nreachable",
    "navailable",
    "onflict",
    "xceed",
    "oo many",
    "oo long",
    "oo large",
    "oo old",
    "xpired",
    "nauthorized",
    "orbidden",
    " differ",
];

/// Prefixes of lines that report success.
const GOOD: &[&str] = &["ok ", "PASS", "Pass", "pass", "✓", "✔", "√", "[PASS", "[  OK", "[ OK"];

/// The first and the last matching lines of a log.
#[derive(Debug, Default)]
pub(crate) struct KeywordLines {
    first: Vec<Kept>,
    last: VecDeque<Kept>,
    /// Stream of the message that still receives lines.
    open: Option<Stream>,
}

/// A kept line, and the hash of its text without numbers.
#[derive(Debug)]
struct Kept {
    key: u64,
    found: RawFinding,
}

impl KeywordLines {
    /// Adds a line that no rule matched. `has_text` is true if it contains one of [`TEXTS`].
    #[inline]
    pub(crate) fn line(&mut self, own: &[u8], has_text: bool, place: (Stream, u64, u64, u64)) {
        if has_text || self.open == Some(place.0) {
            self.candidate(own, has_text, place);
        }
    }

    /// Adds a line that has one of [`TEXTS`] or is below one that was added. Most lines are neither.
    #[inline(never)]
    fn candidate(&mut self, own: &[u8], has_text: bool, place: (Stream, u64, u64, u64)) {
        let (stream, from, to, order) = place;
        let is_open = self.open == Some(stream);
        let looked = lossy(&own[..own.len().min(LOOKED_BYTES_MAX)]);
        let text = looked.trim_end();
        let deep = |text: &str| text.len() - text.trim_start().len();
        if is_open
            && let Some(Kept { found, .. }) = self.last.back_mut().or(self.first.last_mut())
            && found.lines.len() < LINES_MAX
            && deep(&found.lines[0]) < deep(text)
        {
            found.lines.push(text.to_owned());
            found.to = to;
            return;
        }
        if is_open {
            self.open = None;
        }
        if has_text && says_that_something_is_wrong(text) {
            self.add(text, stream, from, to, order);
        }
    }

    fn add(&mut self, text: &str, stream: Stream, from: u64, to: u64, order: u64) {
        let mut hasher = FastHasher::default();
        hasher.text(&normalised(text));
        let key = hasher.0;
        if let Some(known) = self.first.iter_mut().chain(&mut self.last).find(|kept| kept.key == key) {
            known.found.recurrence += 1;
            return;
        }
        self.open = Some(stream);
        let found = RawFinding {
            lines: vec![text.to_owned()],
            stream: Some(stream),
            from,
            to,
            order,
            role: Role::Unknown,
            ..RawFinding::new("generic.word", Kind::Runtime, Severity::Error, SURE)
        };
        if self.first.len() < FIRST_MAX {
            self.first.push(Kept { key, found });
            return;
        }
        if self.last.len() == LAST_MAX {
            self.last.pop_front();
        }
        self.last.push_back(Kept { key, found });
    }

    /// Returns the kept lines in order.
    pub(crate) fn into_found(self) -> impl Iterator<Item = RawFinding> {
        self.first.into_iter().chain(self.last).map(|kept| kept.found)
    }
}

/// Finds all occurrences of all [`WORDS`].
static SEARCHER: LazyLock<AhoCorasick> = LazyLock::new(|| {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .kind(Some(AhoCorasickKind::DFA))
        .build(WORDS)
        .expect("the words are few; a test uses them")
});

/// Returns true if a word of [`WORDS`] is in the line, outside of names, paths and zero counts.
fn says_that_something_is_wrong(line: &str) -> bool {
    let text = line.trim_start();
    if GOOD.iter().any(|good| text.starts_with(good)) {
        return false;
    }
    SEARCHER.find_overlapping_iter(text).any(|word| {
        let (before, after) = (&text[..word.start()], &text[word.end()..]);
        stands_alone(text, word.start(), before, after) && !is_none(before, after)
    })
}

/// Returns true if the word is not part of a name or a path. The name of an error may end with the
/// word.
fn stands_alone(text: &str, at: usize, before: &str, after: &str) -> bool {
    let joins = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '$' | '@' | '\\');
    let is_named =
        before.ends_with(|c: char| c.is_ascii_alphanumeric()) && text.as_bytes()[at].is_ascii_uppercase();
    let begins = is_named || !before.ends_with(|c: char| joins(c) || c == '.');
    let dotted = after.strip_prefix('.').is_some_and(|rest| rest.starts_with(char::is_alphanumeric));
    begins && !after.starts_with(joins) && !dotted
}

/// Returns true for zero counts: `0 errors`, `no errors`, `errors: 0`.
fn is_none(before: &str, after: &str) -> bool {
    let word =
        before.trim_end().rsplit([' ', '(', ',', '\t']).next().unwrap_or_default().to_ascii_lowercase();
    let count = after.trim_start_matches([':', '=', ' ', '"', '\'', ')', 's', 'S']);
    matches!(word.as_str(), "0" | "no" | "without" | "zero" | "any" | "if" | "not")
        || count.starts_with('0') && !count[1..].starts_with(|c: char| c.is_alphanumeric() || c == '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_from_names_and_counts() {
        for line in [
            "  adds: FAIL",
            "curl: (22) The requested URL returned error: 404",
            "FAIL!  : TestMath::adds() Compared values are not the same",
            "{\"level\":\"error\",\"msg\":\"no\"}",
            "level=fatal msg=no",
            "  | ValueError: no",
            "X Adds failed",
            "write /x: no space left on device",
            "2 vulnerabilities",
            "No files matching the pattern \"src\" were found.",
            "Oops! Something went wrong! :(",
            "server died",
            "Files a and b differ",
            "--foo is not recognized",
            "Too many open files",
            "2 files are not formatted",
        ] {
            assert!(says_that_something_is_wrong(line), "{line}");
        }
        for line in [
            "0 errors, 0 warnings",
            "errors=0 failures: 0",
            "compiling src/error_handling.rs",
            "gcc -Werror -c error.c",
            "✓ handles errors",
            "ok 3 - an error is told",
            "https://a/error/x",
            "no errors found",
            "package.error.js",
            "src/crash/reporter.rs",
            "conflicts: 0",
            "moved no-file-found.md",
        ] {
            assert!(!says_that_something_is_wrong(line), "{line}");
        }
    }
}
