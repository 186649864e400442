//! Budget of an answer, and the lines that it already contains.

use crate::hashing::FastHasher;
use buildpool_protocol::limits::{POST_CONTEXT_LINES, PRE_CONTEXT_LINES, TIER_1_FINDINGS_MAX};
use buildpool_protocol::spec::Verbosity;
use std::collections::BTreeSet;

/// Limits of a verbosity in addition to its budget.
pub(super) struct Allowance {
    /// Share of the characters that findings can use, in tenths.
    pub(super) findings_tenths: usize,
    pub(super) message_lines: usize,
    pub(super) pre: usize,
    pub(super) post: usize,
    /// Maximum number of findings with context.
    pub(super) context_findings: usize,
    /// Maximum number of findings on one line each.
    pub(super) other_findings: usize,
    /// Maximum length of such a line, in characters.
    pub(super) one_liner: usize,
    pub(super) summary_lines: usize,
    pub(super) warnings: usize,
    pub(super) notes: usize,
    pub(super) stderr_lines: usize,
    pub(super) stdout_lines: usize,
}

pub(super) const fn allowance(verbosity: Verbosity) -> Allowance {
    match verbosity {
        Verbosity::Minimal => Allowance {
            findings_tenths: 9,
            message_lines: 14,
            pre: 1,
            post: 1,
            context_findings: 3,
            other_findings: 100,
            one_liner: 180,
            summary_lines: 6,
            warnings: 0,
            notes: 6,
            stderr_lines: 45,
            stdout_lines: 90,
        },
        Verbosity::Normal => Allowance {
            findings_tenths: 7,
            message_lines: 40,
            pre: PRE_CONTEXT_LINES,
            post: POST_CONTEXT_LINES,
            context_findings: 6,
            other_findings: 120,
            one_liner: 320,
            summary_lines: 25,
            warnings: 20,
            notes: 20,
            stderr_lines: 100,
            stdout_lines: 50,
        },
        Verbosity::Full => Allowance {
            findings_tenths: 5,
            message_lines: 120,
            pre: PRE_CONTEXT_LINES,
            post: POST_CONTEXT_LINES,
            context_findings: TIER_1_FINDINGS_MAX,
            other_findings: 400,
            one_liner: 400,
            summary_lines: 60,
            warnings: 400,
            notes: 200,
            stderr_lines: usize::MAX,
            stdout_lines: usize::MAX,
        },
    }
}

/// Remaining lines and characters.
#[derive(Clone, Copy, Default)]
pub(super) struct Budget {
    pub(super) lines: usize,
    pub(super) chars: usize,
}

impl Budget {
    /// Returns the sum of two budgets.
    pub(super) const fn plus(self, other: Self) -> Self {
        Self { lines: self.lines + other.lines, chars: self.chars + other.chars }
    }

    /// Returns the difference of two budgets, at least zero.
    pub(super) const fn less(self, other: Self) -> Self {
        Self { lines: self.lines.saturating_sub(other.lines), chars: self.chars.saturating_sub(other.chars) }
    }

    pub(super) fn take(&mut self, text: &str) -> bool {
        let (lines, chars) = (text.split('\n').count(), text.chars().count() + 1);
        if lines > self.lines || chars > self.chars {
            return false;
        }
        self.lines -= lines;
        self.chars -= chars;
        true
    }
}

/// Lines that an answer already contains, so that none is shown twice.
#[derive(Default)]
pub(super) struct Seen {
    lines: BTreeSet<u64>,
}

impl Seen {
    fn key(line: &str) -> u64 {
        let mut hasher = FastHasher::default();
        let stamp = crate::text::front_length(line.as_bytes());
        hasher.text(line.get(stamp..).unwrap_or(line).trim());
        hasher.0
    }

    pub(super) fn add(&mut self, line: &str) {
        self.lines.insert(Self::key(line));
    }

    pub(super) fn has(&self, line: &str) -> bool {
        self.lines.contains(&Self::key(line))
    }
}
