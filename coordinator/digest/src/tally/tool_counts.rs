//! Results of one tool: by test, and the tool's own totals.

use super::failed_totals::{FailedTotals, RunPart};
use super::{Task, ToolId};
use crate::hashing::hashed;
use crate::rules::TestEvent;

/// Counts of one summary.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    pub(crate) expected: u64,
}

impl Counts {
    pub(crate) const fn total(&self) -> u64 {
        self.passed.saturating_add(self.failed).saturating_add(self.skipped).saturating_add(self.expected)
    }

    /// Returns true if a test ended as expected, and no test ended otherwise.
    pub(crate) const fn is_good(&self) -> bool {
        self.failed == 0 && self.passed.saturating_add(self.expected) > 0
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.passed = self.passed.saturating_add(other.passed);
        self.failed = self.failed.saturating_add(other.failed);
        self.skipped = self.skipped.saturating_add(other.skipped);
        self.expected = self.expected.saturating_add(other.expected);
    }

    pub(super) fn slot(&mut self, event: TestEvent) -> Option<&mut u64> {
        match event {
            TestEvent::Started | TestEvent::Ended => None,
            TestEvent::Passed => Some(&mut self.passed),
            TestEvent::Failed => Some(&mut self.failed),
            TestEvent::Skipped => Some(&mut self.skipped),
            TestEvent::ExpectedFailure => Some(&mut self.expected),
        }
    }
}

/// Summaries, added up.
#[derive(Debug, Default)]
pub(super) struct Totals {
    /// Sum of closed sessions.
    pub(super) closed: Counts,
    /// Latest total of the open session.
    pub(super) open: Option<Counts>,
    /// The part of the run that it is of, by a hash of its name, where the tool names it.
    part: Option<RunPart>,
    /// How many tests the program said that it runs, if it did: of those a run that stopped early counts only some.
    tests: Option<u64>,
    /// It is a rerun of the tests that failed before.
    pub(super) reruns_failed: bool,
    /// Totals of closed sessions that count failed tests.
    failed: FailedTotals,
    pub(super) summaries: u64,
    /// Each total is of the same tests: it takes the place of those before it.
    repeats: bool,
}

impl Totals {
    /// Whether a total takes the place of those before it. One without results does not.
    const fn replaces(&self, open: &Counts) -> bool {
        self.repeats && (open.failed > 0 || open.is_good())
    }

    /// Closes the session: its total is final.
    pub(super) fn close(&mut self, tool: ToolId) {
        if let Some(open) = self.open.take() {
            if self.replaces(&open) {
                (self.closed, self.failed) = Default::default();
            }
            self.closed.add(&open);
            self.failed.add(tool, self.part, self.tests, open, self.reruns_failed);
            self.tests = None;
            self.reruns_failed = false;
        }
    }

    /// A total begins, or takes the place of the session's one.
    pub(super) const fn begin(&mut self, counts: Counts, part: Option<RunPart>, tests: u64) {
        if tests > 0 {
            self.tests = Some(tests);
        }
        self.open = Some(counts);
        self.part = part;
        self.summaries += 1;
    }

    /// Assigns failures without a part to this part.
    pub(super) fn failed_in(&mut self, part: u64) {
        self.part.get_or_insert(RunPart::named(part));
        self.failed.name(part);
    }

    /// Returns true if each total with failed tests has a later one of the same tests without failures.
    pub(super) fn failures_are_past(&self, tool: ToolId) -> bool {
        let Some(open) = self.open else { return self.failed.are_past() };
        let mut failed = if self.replaces(&open) { FailedTotals::default() } else { self.failed.clone() };
        failed.add(tool, self.part, self.tests, open, self.reruns_failed);
        failed.are_past()
    }

    pub(super) fn sum(&self) -> Counts {
        match &self.open {
            Some(open) if self.replaces(open) => *open,
            Some(open) => {
                let mut sum = self.closed;
                sum.add(open);
                sum
            }
            None => self.closed,
        }
    }
}

/// Names of tests by run. A run whose names were all in runs before it is a repetition of these tests: a retry, or
/// another configuration. A run with some known names may be of another program.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Number of totals before the current run.
    run: u64,
    /// Names of the current run that no run before it had, and those that one had.
    fresh: u64,
    known: u64,
    /// Names of all runs, each once for each run.
    all: u64,
    repeats: bool,
    is_mixed: bool,
}

impl Names {
    /// Adds a name of the run after `run` totals. `last` is the run that had the name last.
    pub(super) fn add(&mut self, run: u64, last: Option<u64>) {
        if run != self.run {
            self.close();
            self.run = run;
        }
        match last {
            Some(last) if last == run => return,
            Some(_) => self.known += 1,
            None => self.fresh += 1,
        }
        self.all += 1;
    }

    const fn close(&mut self) {
        self.is_mixed |= self.is_mixed_run();
        self.repeats |= self.known > 0;
        (self.fresh, self.known) = (0, 0);
    }

    const fn is_mixed_run(&self) -> bool {
        self.known > 0 && self.fresh > 0
    }

    /// Whether `totals` of `tests` in all are of named tests, and some of the runs only repeat others. Names
    /// below the last total are a list of failures.
    const fn repeat_all_of(&self, tests: u64, totals: u64) -> bool {
        if self.run >= totals {
            return self.repeats && !self.is_mixed && self.all - self.fresh - self.known == tests;
        }
        let repeats = self.repeats || self.known > 0;
        repeats && !self.is_mixed && !self.is_mixed_run() && self.all == tests
    }
}

/// Results of one tool.
#[derive(Debug, Default)]
pub(super) struct ToolCounts {
    /// Results by test.
    pub(super) by_test: Counts,
    /// The tool's own totals.
    pub(super) own: Totals,
    /// Totals that nothing announced, of a tool that announces its own: counted when there are no others.
    pub(super) loose: Totals,
    /// The number of the line that announced a total.
    pub(super) heading: Option<u64>,
    /// The open total, or the next one, reports a failure outside its tests.
    pub(super) other_failure: bool,
    /// A line that only this tool prints was seen, so ambiguous lines count as its own too.
    pub(super) known: bool,
    /// Tests that the tool says it will run: the last plan, with those before it that were not complete.
    pub(super) planned: u64,
    /// Results of the plans before, which were complete.
    pub(super) settled: u64,
    /// Highest number of a finished test of this plan.
    pub(super) numbered: u64,
    /// When a total was announced first, and when this tool was seen last: see [`Tally::clock`].
    pub(super) heading_at: Option<u64>,
    pub(super) told_at: u64,
    /// Tests that were announced since the last total.
    pub(super) announced: u64,
    /// Tests that were announced since the session began or had its total.
    pub(super) session_tests: u64,
    /// Tests that ended since the last total.
    pub(super) ended: u64,
    /// The program under way prints the beginning of each test.
    pub(super) begins: bool,
    /// The current program prints each passed test.
    pub(super) tells_passes: bool,
    /// The part of the run whose tests follow, where the tool names it: a hash of its name.
    pub(super) part: Option<u64>,
    /// Number of results by test, reruns included.
    pub(super) named: u64,
    pub(super) names: Names,
    /// The next total is a rerun of the tests that failed before.
    pub(super) reruns_failed: bool,
    /// The latest total is a loose one.
    pub(super) at_loose: bool,
}

impl ToolCounts {
    pub(super) const fn ledger(&self) -> &Totals {
        if self.own.summaries > 0 { &self.own } else { &self.loose }
    }

    pub(super) const fn at(&mut self) -> &mut Totals {
        if self.at_loose { &mut self.loose } else { &mut self.own }
    }

    pub(super) const fn summaries(&self) -> u64 {
        self.own.summaries + self.loose.summaries
    }

    /// The command runs one invocation of the tool several times. `one_total`: each run has one total.
    pub(super) const fn repeats(&mut self, one_total: bool) {
        (self.own.repeats, self.loose.repeats) = (one_total, one_total);
    }

    /// The open total, if it is the tool's own.
    pub(super) fn standing(&self) -> Option<Counts> {
        self.own.open.filter(|_| !self.at_loose)
    }

    /// In brief GoogleTest names the tests that failed, no others, and counts those that passed.
    pub(super) fn with_failures_told(&self, tool: ToolId, counts: Counts) -> Counts {
        if !tool.names_failed_in_brief || self.begins {
            return counts;
        }
        let told = self.by_test.failed.saturating_sub(self.own.closed.failed);
        Counts { failed: counts.failed.max(told), ..counts }
    }

    /// Resets the announced tests: a total covers them.
    pub(super) const fn told(&mut self) {
        (self.announced, self.ended) = (0, 0);
    }

    /// Announced or planned tests without a result, and without a total since.
    pub(super) fn left(&self) -> u64 {
        // A plan without results may be an unrelated range of numbers.
        let results = self.by_test.total();
        let done = results.saturating_sub(self.settled).max(self.numbered);
        let planned = if results > 0 { self.planned.saturating_sub(done) } else { 0 };
        planned.max(self.announced.saturating_sub(self.ended))
    }

    /// The part of the run that a total is of. Each task has parts of its own; that alone is no name of a part where names
    /// tell all.
    pub(super) fn part_of(&self, tool: ToolId, task: Option<Task>) -> Option<RunPart> {
        match (self.part, task) {
            (Some(part), Some(task)) => Some(RunPart::named(hashed((part, task.name)))),
            (None, Some(task)) if !tool.names_parts => {
                Some(RunPart { key: task.name, is_named: task.is_script })
            }
            (part, _) => part.map(RunPart::named),
        }
    }

    /// Whether each failed test was run again and did not fail. Where all tests are named, the last result of each tells that;
    /// otherwise a later total of the same tests does.
    pub(super) fn failures_are_past(&self, tool: ToolId) -> bool {
        let ledger = self.ledger();
        let names_all = self.named > 0 && self.named >= ledger.sum().total() && !tool.names_repeat;
        match names_all {
            true => self.by_test.failed == 0,
            false => self.summaries() > 0 && ledger.failures_are_past(tool),
        }
    }

    /// Returns the counts of this tool that the result uses.
    pub(super) fn believed(&self, tool: ToolId) -> Counts {
        let summed = self.ledger().sum();
        if tool.totals_only && self.summaries() > 0 {
            // The run's last line has the total only; the tests' own lines tell the rest. Issues are no tests.
            let by_test = &self.by_test;
            let other = by_test.failed + by_test.skipped + by_test.expected;
            Counts { passed: summed.total().saturating_sub(other), ..*by_test }
        } else if self.summaries() == 0
            || self.names.repeat_all_of(summed.total(), self.summaries())
            || tool.by_test && self.by_test.total() >= summed.total()
        {
            self.by_test
        } else {
            summed
        }
    }
}
