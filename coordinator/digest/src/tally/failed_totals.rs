//! Totals with failed tests, until a later total of the same tests has no failure.

use super::{Counts, ToolId};
use crate::limits::FAILED_TOTALS_MAX;
use std::collections::BTreeSet;

/// Two selections of so many tests are rarely different ones of the same size.
const SAME_TESTS_MIN: u64 = 10;

/// A part of the run by a hash of its name, 0 if it has none, and two numbers of tests.
type TotalKey = [u64; 3];

/// A part of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunPart {
    /// Hash of its name.
    pub(super) key: u64,
    /// The name is of the tests, so as many of them are the same ones.
    pub(super) is_named: bool,
}

impl RunPart {
    pub(super) const fn named(key: u64) -> Self {
        Self { key, is_named: true }
    }
}

/// Totals that count failed tests.
#[derive(Clone, Debug, Default)]
pub(super) struct FailedTotals {
    /// Each part with the number of its tests, and of those that failed.
    by_total: BTreeSet<TotalKey>,
    /// The same the other way round.
    by_failed: BTreeSet<TotalKey>,
    /// There were more than the limit: they are never cleared.
    more: bool,
}

impl FailedTotals {
    /// Adds a total. It clears earlier totals of the same tests: of the same named part, and of as many tests. Without names,
    /// equal numbers mean the same tests from [`SAME_TESTS_MIN`] on. If the name of a part identifies its tests, their number
    /// is ignored. A good total with `reruns_failed` is of the failed tests, if there are as many. A run that stopped early
    /// counts fewer tests than `announced`.
    pub(super) fn add(
        &mut self,
        tool: ToolId,
        part: Option<RunPart>,
        announced: Option<u64>,
        counts: Counts,
        reruns_failed: bool,
    ) {
        let (key, total) = (part.map_or(0, |part| part.key), announced.unwrap_or_else(|| counts.total()));
        if counts.failed == 0 && !counts.is_good() {
            return;
        }
        if !tool.names_parts {
            if part.is_some_and(|part| part.is_named) || total >= SAME_TESTS_MIN {
                self.take(key, [total, total]);
            }
            if counts.failed == 0 && reruns_failed {
                self.take_of_failed(key, total);
            }
        } else if part.is_some() {
            self.take(key, [0, u64::MAX]);
        }
        if counts.failed > 0 {
            self.more |= self.by_total.len() >= FAILED_TOTALS_MAX;
            if !self.more {
                self.by_total.insert([key, total, counts.failed]);
                self.by_failed.insert([key, counts.failed, total]);
            }
        }
    }

    /// Those of no named part are of this one.
    pub(super) fn name(&mut self, part: u64) {
        let those = self.by_total.range([0, 0, 0]..=[0, u64::MAX, u64::MAX]);
        for [unnamed, total, failed] in those.copied().collect::<Vec<_>>() {
            self.forget(unnamed, total, failed);
            self.by_total.insert([part, total, failed]);
            self.by_failed.insert([part, failed, total]);
        }
    }

    /// Returns true if no such total is left.
    pub(super) fn are_past(&self) -> bool {
        self.by_total.is_empty() && !self.more
    }

    /// Those of a part that have so many tests, from the first number to the last.
    fn take(&mut self, part: u64, [first, last]: [u64; 2]) {
        let those = self.by_total.range([part, first, 0]..=[part, last, u64::MAX]);
        for [part, total, failed] in those.copied().collect::<Vec<_>>() {
            self.forget(part, total, failed);
        }
    }

    /// Those of a part of which so many tests failed.
    fn take_of_failed(&mut self, part: u64, failed: u64) {
        let those = self.by_failed.range([part, failed, 0]..=[part, failed, u64::MAX]);
        for [part, failed, total] in those.copied().collect::<Vec<_>>() {
            self.forget(part, total, failed);
        }
    }

    fn forget(&mut self, part: u64, total: u64, failed: u64) {
        self.by_total.remove(&[part, total, failed]);
        self.by_failed.remove(&[part, failed, total]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Counts = Counts { passed: 3, failed: 0, skipped: 0, expected: 0 };
    const BAD: Counts = Counts { passed: 2, failed: 1, skipped: 0, expected: 0 };

    #[test]
    fn what_is_kept_does_not_grow_with_the_log_and_what_is_not_kept_is_never_past() {
        let mut failed = FailedTotals::default();
        let parts = FAILED_TOTALS_MAX as u64;
        for part in 1..=parts {
            failed.add(ToolId::Surefire, Some(RunPart::named(part)), None, BAD, false);
        }
        let mut all_again = failed.clone();
        for part in 1..=parts {
            all_again.add(ToolId::Surefire, Some(RunPart::named(part)), None, GOOD, false);
        }
        assert!(all_again.are_past());
        failed.add(ToolId::Surefire, Some(RunPart::named(parts + 1)), None, BAD, false);
        assert_eq!((failed.by_total.len(), failed.by_failed.len()), (FAILED_TOTALS_MAX, FAILED_TOTALS_MAX));
        for part in 1..=parts + 1 {
            failed.add(ToolId::Surefire, Some(RunPart::named(part)), None, GOOD, false);
        }
        assert!(failed.by_total.is_empty() && failed.by_failed.is_empty() && !failed.are_past());
    }

    #[test]
    fn only_a_total_of_the_same_tests_takes_failures_back() {
        let are_past = |tool: ToolId, totals: &[(Option<u64>, Counts)]| {
            let mut failed = FailedTotals::default();
            totals
                .iter()
                .for_each(|(part, counts)| failed.add(tool, part.map(RunPart::named), None, *counts, false));
            failed.are_past()
        };
        let are_past_if_rerun = |totals: &[(Counts, bool)]| {
            let mut failed = FailedTotals::default();
            let add =
                |(counts, reruns): &(Counts, bool)| failed.add(ToolId::Pytest, None, None, *counts, *reruns);
            totals.iter().for_each(add);
            failed.are_past()
        };
        let (many, many_bad) = (Counts { passed: 10, ..GOOD }, Counts { passed: 9, failed: 1, ..GOOD });
        let one = Counts { passed: 1, ..GOOD };
        assert!(are_past(ToolId::TclTest, &[(Some(1), BAD), (Some(1), GOOD)]));
        assert!(!are_past(ToolId::TclTest, &[(Some(1), BAD), (Some(2), GOOD)]));
        assert!(!are_past(ToolId::TclTest, &[(Some(1), BAD), (Some(1), one)]));
        assert!(are_past(ToolId::Surefire, &[(Some(1), BAD), (Some(1), one)]));
        assert!(!are_past(ToolId::Surefire, &[(None, BAD), (None, GOOD)]));
        assert!(are_past_if_rerun(&[(BAD, false), (one, true)]));
        assert!(!are_past_if_rerun(&[(BAD, false), (one, false)]));
        assert!(!are_past(ToolId::Check, &[(None, BAD), (None, GOOD)]));
        assert!(are_past(ToolId::Check, &[(None, many_bad), (None, many)]));
        assert!(!are_past(ToolId::Check, &[(None, GOOD), (None, BAD)]));
        let skipped = Counts { passed: 0, skipped: 3, ..GOOD };
        assert!(!are_past(ToolId::Check, &[(None, BAD), (None, skipped)]));
        // Two more failures of the same tests are not failures of others.
        let worse = Counts { passed: 0, failed: 3, ..GOOD };
        assert!(are_past(ToolId::Check, &[(Some(1), BAD), (Some(1), worse), (Some(1), GOOD)]));
        // Tests that ran and failed again clear no failure of others.
        let of_three = Counts { passed: 6, failed: 3, ..GOOD };
        assert!(!are_past_if_rerun(&[(of_three, false), (BAD, true), (one, true)]));
    }
}
