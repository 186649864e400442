//! Signs of success, failure or a crash of the whole run, each with the line that matched.

use crate::attempt_facts::Facts;
use crate::command::Command;
use crate::rules::Indicator;
use crate::runs::Runs;
use crate::tally::{Counts, Tally};
use crate::text::clip_chars;
use crate::tool::{Apart, ToolId};
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::CrashIndicators;
use std::collections::BTreeSet;

/// A marker and the line that matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MarkerLine<T> {
    pub(crate) what: T,
    pub(crate) line: String,
    pub(crate) stream: Stream,
    pub(crate) from: u64,
    pub(crate) order: u64,
    /// Order of the last line with the same marker.
    pub(crate) last: u64,
}

impl<T> MarkerLine<T> {
    /// A marker of the line with this text.
    pub(crate) fn new(what: T, text: &str, stream: Stream, from: u64, order: u64) -> Self {
        let line = clip_chars(text, LINE_CHARS_MAX).into_owned();
        Self { what, line, stream, from, order, last: order }
    }
}

/// All signs of a run, bounded: the last success, the runs, and the first crash indicators.
#[derive(Debug, Default)]
pub(crate) struct Markers {
    pub(crate) success: Option<MarkerLine<ToolId>>,
    /// Runs that succeeded and runs that failed.
    pub(crate) runs: Runs,
    pub(crate) crashes: Vec<MarkerLine<Indicator>>,
    pub(crate) tools: BTreeSet<ToolId>,
    /// Distinct lines that claim success. They are contradicted if the job failed nevertheless.
    pub(crate) success_lines: BTreeSet<String>,
    /// The last line that counted tests, if it counts no failure. Earlier ones count parts of the run.
    pub(crate) count_line: Option<String>,
    /// The first line in which a test runner reports that it found no tests.
    pub(crate) no_tests: Option<MarkerLine<()>>,
    /// A test runner failed because it found no tests.
    pub(crate) fails_without_tests: bool,
    /// A part of the run had tests.
    pub(crate) has_tests: bool,
    /// Order of the last line in which a tool ignores the failure of a command.
    pub(crate) ignored: u64,
    /// Order of the last line in which a tool's own total counts failed tests.
    pub(crate) failed_total: u64,
    /// Order of a line: crash messages up to it belong to a program that has ended.
    settled: u64,
    /// The exception that was raised last. A later trace cancels it, because the program went on.
    pub(crate) raised: Option<MarkerLine<Indicator>>,
}

/// Limit on crash indicators. One of each kind is kept, and there are few kinds.
const CRASHES_MAX: usize = 64;

/// Limit on a kept line, in characters.
const LINE_CHARS_MAX: usize = 400;
/// Limit on distinct claims of success. A run usually ends with a few.
const SUCCESS_LINES_MAX: usize = 64;

impl Markers {
    /// Records the success of a tool.
    pub(crate) fn succeeded(&mut self, seen: MarkerLine<ToolId>) {
        self.tools.insert(seen.what);
        if self.success_lines.len() < SUCCESS_LINES_MAX {
            self.success_lines.insert(seen.line.trim().to_owned());
        }
        self.runs.succeeded(seen.what, seen.order);
        self.success = Some(seen);
    }

    /// Records the failure of a tool. `is_shown`: an error with a place was reported before it.
    pub(crate) fn failed(&mut self, seen: MarkerLine<ToolId>, is_shown: bool) {
        self.tools.insert(seen.what);
        self.runs.failed(seen, is_shown, false);
    }

    /// Records that a test runner found no tests. The first such line counts.
    pub(crate) fn found_no_tests(&mut self, mut seen: MarkerLine<()>) {
        seen.line = seen.line.trim().to_owned();
        self.no_tests.get_or_insert(seen);
    }

    /// Adds a crash indicator, of which the first and the last line count.
    pub(crate) fn crashed(&mut self, seen: MarkerLine<Indicator>) {
        if let Some(known) = self.crashes.iter_mut().find(|known| known.what == seen.what) {
            known.last = known.last.max(seen.order);
        } else if self.crashes.len() < CRASHES_MAX {
            self.crashes.push(seen);
        }
    }

    /// Returns the last failure that no success cleared. A tool that may have run again can be silent when it succeeds. Without an
    /// exit code, its failure counts only if no tool succeeded after it.
    pub(crate) fn standing_failure(&self, has_code: bool) -> Option<&MarkerLine<ToolId>> {
        if has_code {
            return self.runs.standing(|_| true, true);
        }
        let success = self.success.as_ref().map_or(0, |seen| seen.order);
        let last = self.runs.last().filter(|seen| seen.order > success);
        last.or_else(|| self.runs.standing(|apart| apart == Apart::Always, true))
    }

    /// Returns a failure or a crash indicator that only an exit code could clear, because the later success is unrelated to it.
    pub(crate) fn contradiction(&self) -> Option<&str> {
        let failure = self.runs.standing(|_| true, false).map(|seen| seen.line.as_str());
        failure.or_else(|| {
            let stands = |seen: &&MarkerLine<Indicator>| self.is_death_outside(seen);
            self.crashes.iter().find(stands).map(|seen| seen.line.as_str())
        })
    }

    /// Whether a crash indicator is a sanitizer's report, of a test host whose tool can report success nevertheless, or outside
    /// of the successful runs.
    fn is_death_outside(&self, seen: &MarkerLine<Indicator>) -> bool {
        let is_outside = |order| !self.runs.contains(order);
        seen.what == Indicator::Sanitizer
            || seen.what.is_of_test_host() && self.runs.may_hide_death(seen.last)
            || seen.what.is_word() && (is_outside(seen.order) || is_outside(seen.last))
    }

    /// Whether the last line that counted tests counts no failure, and its tool succeeded.
    pub(crate) const fn has_passed_tests(&self) -> bool {
        self.success.is_some() && self.count_line.is_some()
    }

    /// Records a line that counts tests.
    pub(crate) fn counted(&mut self, failed: u64, line: &str) {
        self.count_line = (failed == 0).then(|| clip_chars(line, LINE_CHARS_MAX).trim().to_owned());
    }

    /// Adds the success or failure that a tool's own current counts imply.
    pub(crate) fn total(&mut self, counts: Counts, seen: MarkerLine<ToolId>) {
        if counts.failed > 0 {
            self.failed_total = seen.order;
            self.tools.insert(seen.what);
            self.runs.failed(seen, false, true);
        } else if counts.is_good() {
            self.succeeded(seen);
        }
    }

    /// Removes crash messages of a program that continued after them. Returns whether there were any.
    pub(crate) fn survived(&mut self) -> bool {
        let before = self.crashes.len();
        let settled = self.settled;
        self.crashes.retain(|seen| seen.order <= settled || !seen.what.is_word());
        self.crashes.len() < before
    }

    /// Resolves the signs whose meaning depends on the whole log, the command or the ending.
    pub(crate) fn resolved(
        mut self,
        command: &Command,
        tally: &Tally,
        facts: &Facts,
        last_text: u64,
    ) -> Self {
        self.apply_command(command, tally.failed_apart());
        // The exit code of a linter that is the whole command is its own word: `black --diff`, `ruff check --exit-zero`. Several
        // tools print the same total, so each failure in its log is the linter's.
        if facts.exited_zero() && ToolId::all().any(|tool| tool.lints && command.runs_only(tool.commands())) {
            self.runs.accepts_failures();
        }
        if facts.exited_zero() {
            self.runs.accepts_failures_of(|tool| tool.lints && command.accepts_remarks_of(tool.commands()));
        }
        let ended_badly = facts.ending.as_ref().map(|_| !facts.exited_zero());
        self.complete(ended_badly, last_text);
        self
    }

    /// Applies the command: it may ignore a tool's failure if another tool succeeds after it, or run only one tool. `failed` are
    /// tools with failed tests that did not all pass later.
    fn apply_command(&mut self, command: &Command, failed: impl Iterator<Item = ToolId>) {
        let asked = |tool: ToolId| match tool.host {
            Some(host) if !command.runs(tool.commands()) => host,
            _ => tool,
        };
        self.runs.resolve(
            failed,
            |tool| command.forgives(asked(tool).commands()),
            |tool| command.repeats(tool.commands()),
            |tool| command.runs_only(tool.commands()),
        );
    }

    /// Adds the crash indicator of an exception that ended the program. `ended_badly` is `None` if there is only the log. Then
    /// the exception ended the program if the log ends with it, or if a tool reported a failure after it.
    fn complete(&mut self, ended_badly: Option<bool>, last_text: u64) {
        let last_failure = self.runs.last_failure();
        let ends = |seen: &MarkerLine<Indicator>| {
            ended_badly.unwrap_or(last_text <= seen.order || last_failure > seen.order)
        };
        if let Some(seen) = self.raised.take().filter(ends) {
            self.crashed(seen);
        }
    }

    /// Makes the signs up to `order` final, because their program has ended.
    pub(crate) const fn settle(&mut self, order: u64) {
        self.settled = order;
    }

    /// Order of the line up to which crash messages are final.
    pub(crate) const fn settled(&self) -> u64 {
        self.settled
    }

    /// Returns crash indicators, without words of a crash after which a tool counted its failed tests: their program went on, or a test
    /// printed them. The same applies inside a successful run, if the command `has_ended_well`.
    pub(crate) fn standing_crashes(&self, has_ended_well: bool) -> Vec<MarkerLine<Indicator>> {
        let stands = |seen: &&MarkerLine<Indicator>| {
            !seen.what.is_word()
                || seen.last >= self.failed_total && (!has_ended_well || self.is_death_outside(seen))
        };
        self.crashes.iter().filter(stands).cloned().collect()
    }

    /// Returns the crash indicators of the job result.
    pub(crate) fn indicators(&self) -> CrashIndicators {
        let mut set = CrashIndicators::default();
        for seen in &self.crashes {
            match seen.what {
                Indicator::TestRunnerCrashed => set.test_runner_crashed = true,
                Indicator::ConnectionInterrupted => set.connection_interrupted = true,
                Indicator::EarlyExit => set.early_exit = true,
                Indicator::NeverBeganTesting => set.never_began_testing = true,
                Indicator::BundleLoadFailed => set.bundle_load_failed = true,
                Indicator::SimulatorBootTimeout => set.simulator_boot_timeout = true,
                Indicator::TestProcessCrashed => set.test_process_crashed = true,
                Indicator::RestartedAfterCrash => set.restarted_after_crash = true,
                Indicator::FatalError => set.fatal_error = true,
                Indicator::UncaughtException => set.uncaught_exception = true,
                Indicator::UnexpectedSignal => set.unexpected_signal = true,
                Indicator::RunnerError => set.runner_error = true,
                Indicator::RunnerNotLaunched => set.runner_not_launched = true,
                Indicator::Sanitizer => set.sanitizer = true,
                Indicator::Panic => set.panic = true,
                Indicator::Killed => set.killed = true,
                Indicator::OutOfMemory => set.out_of_memory = true,
                Indicator::Died("SIGKILL") | Indicator::ChildDied("SIGKILL") => set.killed = true,
                Indicator::Died(_) | Indicator::ChildDied(_) => set.unexpected_signal = true,
            }
        }
        set
    }
}
