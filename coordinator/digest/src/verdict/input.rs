//! Input of the verdict: what is known about an attempt.

use crate::markers::MarkerLine;
use crate::reports::memory_words;
use crate::rules::Indicator;
use crate::tool::ToolId;
use buildpool_protocol::evidence::MemoryEvidence;
use buildpool_protocol::outcome::{EndReason, Ending, SetupOutcome};
use buildpool_protocol::report::{CrashReport, KnownFrom, TestCounts};
use std::collections::BTreeSet;

/// Input of the verdict.
#[derive(Clone, Debug, Default)]
pub(crate) struct VerdictInput<'a> {
    pub(crate) ending: Option<&'a Ending>,
    pub(crate) acted: Option<&'a EndReason>,
    /// Setup that did not pass. `ending` is then the ending of the setup.
    pub(crate) failed_setup: Option<&'a SetupOutcome>,
    /// Limit, peak and kills that the worker knows of.
    pub(crate) memory: Option<&'a MemoryEvidence>,
    pub(crate) crash_report: Option<&'a CrashReport>,
    /// Crash indicators in the log, in order.
    pub(crate) crashes: &'a [MarkerLine<Indicator>],
    pub(crate) log: LogResult<'a>,
    pub(crate) tests: TestEvidence,
    pub(crate) errors: ErrorEvidence<'a>,
    /// A part of the command line without a result, although another part has one: `xcodebuild archive`.
    pub(crate) action_left: Option<String>,
    /// Tool that printed its start and not its end.
    pub(crate) cut_short: Option<ToolId>,
    /// Test runner whose exit code the command hides, and which reported no result.
    pub(crate) unreported: Option<ToolId>,
    /// Sign of a failure at the end of the log, if the exit code of the program that printed it is hidden.
    pub(crate) bad_end: Option<String>,
    /// The command has a pipe, which hides the exit codes of all programs except the last.
    pub(crate) has_pipe: bool,
    /// Tools whose lines are in the log.
    pub(crate) tools: BTreeSet<ToolId>,
    /// Last meaningful line of the output.
    pub(crate) last_line: Option<&'a str>,
}

impl VerdictInput<'_> {
    /// Usual meaning of an exit code, as the continuation of a sentence. A tool can have codes of its own.
    pub(crate) fn meaning_of(&self, code: i32) -> &'static str {
        let own = self.tools.iter().find_map(|tool| (tool.code_meaning)(code));
        own.or_else(|| crate::exit_codes::code_meaning(code)).unwrap_or_default()
    }

    /// Text with limit and peak, if the kernel reported that the job ran out of memory.
    pub(crate) fn out_of_memory(&self) -> Option<String> {
        self.memory.filter(|memory| memory.oom_killed).map(memory_words)
    }
}

/// Result of the run by the lines in which known tools report success or failure.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum LogResult<'a> {
    /// No tool reported a result.
    #[default]
    Silent,
    /// A tool reported success, and no failure or crash stands. `before` is a failure that the success clears.
    Succeeded {
        success: &'a MarkerLine<ToolId>,
        before: Option<&'a MarkerLine<ToolId>>,
        /// Reason against the success that only an exit code can override.
        doubt: Option<Doubt<'a>>,
    },
    /// A tool reported failure, and none success.
    Failed(&'a MarkerLine<ToolId>),
    /// A tool reported success, and a failure or a crash stands.
    Contradicts { success: &'a MarkerLine<ToolId>, failure: Option<&'a MarkerLine<ToolId>> },
}

/// Reason to doubt a tool's success without an exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Doubt<'a> {
    /// This earlier line reports a failure or a crash.
    Line(&'a str),
    /// A driver of other tools has started and has not reported its end.
    Unended(ToolId),
}

impl<'a> LogResult<'a> {
    /// The last success of a tool, whether it stands or not.
    pub(crate) const fn success(self) -> Option<&'a MarkerLine<ToolId>> {
        match self {
            Self::Succeeded { success, .. } | Self::Contradicts { success, .. } => Some(success),
            Self::Silent | Self::Failed(_) => None,
        }
    }

    /// The failure of a tool that decides, whether it stands or not.
    pub(crate) const fn failure(self) -> Option<&'a MarkerLine<ToolId>> {
        match self {
            Self::Succeeded { before: failure, .. } | Self::Contradicts { failure, .. } => failure,
            Self::Failed(failure) => Some(failure),
            Self::Silent => None,
        }
    }

    /// The failure of a tool that no success clears.
    pub(super) const fn standing_failure(self) -> Option<&'a MarkerLine<ToolId>> {
        if self.is_success() { None } else { self.failure() }
    }

    /// Returns true if a tool reported success and nothing stands against it.
    pub(super) const fn is_success(self) -> bool {
        matches!(self, Self::Succeeded { .. })
    }
}

/// Whether the command runs tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum TestRun {
    /// It does not, as far as its text shows.
    #[default]
    No,
    /// It runs tests.
    Tests,
    /// It runs tests that it selects by name or file.
    SelectedTests,
}

/// Failed tests of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FailedTests {
    None,
    /// So many failed.
    Standing(u64),
    /// So many failed, and the last total of each tool that counted them has no failures.
    Past(u64),
}

impl FailedTests {
    pub(super) const fn count(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Standing(count) | Self::Past(count) => count,
        }
    }
}

/// Evidence about the tests of the run.
#[derive(Clone, Debug, Default)]
pub(crate) struct TestEvidence {
    pub(crate) run: TestRun,
    pub(crate) counts: Option<TestCounts>,
    /// The last total of each tool that counted failed tests has no failures.
    pub(crate) failures_are_past: bool,
    /// Report files that the counts are from; `None` for counts from the log.
    pub(crate) report: Option<String>,
    /// Number of tests that started or were announced, and never ended.
    pub(crate) unfinished: u64,
    /// Test that was running at the end.
    pub(crate) running: Option<String>,
    /// Number of tests now and in the last good run, if there are far fewer now.
    pub(crate) collapsed: Option<(u64, u64)>,
    /// Argument of the command that selects tests by name, if none ran.
    pub(crate) missed: Option<String>,
    /// Last line of test results that no total follows.
    pub(crate) without_total: Option<String>,
    /// Source that counted zero tests, and whether it is a report or the log.
    pub(crate) none: Option<(String, KnownFrom)>,
    /// A runner found no tests and fails for it.
    pub(crate) fails_without: bool,
    /// A tool printed the total whose tests are not part of a build.
    pub(crate) only_in_test_runs: bool,
    /// A panic is a failed test.
    pub(crate) panics_are_tests: bool,
}

impl TestEvidence {
    /// The failed tests of the run.
    pub(crate) fn failed(&self) -> FailedTests {
        match self.counts.as_ref().map_or(0, |counts| counts.failed) {
            0 => FailedTests::None,
            count if self.failures_are_past => FailedTests::Past(count),
            count => FailedTests::Standing(count),
        }
    }

    /// Returns true if a test failed, whether a later total clears it or not.
    pub(super) fn has_failed(&self) -> bool {
        self.failed() != FailedTests::None
    }

    /// Number of skipped tests, if all tests were skipped.
    pub(super) fn all_skipped(&self) -> Option<u64> {
        let skipped = |counts: &&TestCounts| counts.skipped > 0 && counts.skipped == counts.total;
        self.counts.as_ref().filter(skipped).map(|counts| counts.skipped)
    }

    /// Source that counted zero tests.
    pub(super) fn none(&self) -> Option<(&str, KnownFrom)> {
        self.none.as_ref().map(|(source, from)| (source.as_str(), *from))
    }
}

/// Most likely cause among the findings, on one line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum FirstFinding {
    #[default]
    None,
    Error {
        line: String,
        source: KnownFrom,
        /// The machine caused it.
        is_infrastructure: bool,
    },
    /// A linter's remark. There is no error.
    Remark(String),
    /// There is no error and no remark.
    Warning(String),
}

/// A problem outside tests in a report file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ReportProblem {
    pub(crate) line: String,
    /// The machine caused it.
    pub(crate) is_infrastructure: bool,
}

/// Evidence about errors other than failed tests.
#[derive(Clone, Debug, Default)]
pub(crate) struct ErrorEvidence<'a> {
    pub(crate) first: FirstFinding,
    /// Build errors were found.
    pub(crate) build: bool,
    /// Test failures were found.
    pub(crate) test: bool,
    /// First error with a location that no success cancels, if the command exited 0.
    pub(crate) standing: Option<String>,
    /// Most likely problem outside tests in the report files.
    pub(crate) report_problem: Option<ReportProblem>,
    /// Reason why a report could not be read completely.
    pub(crate) unread: Option<&'a str>,
}

impl ErrorEvidence<'_> {
    /// The line of the first error.
    pub(super) fn first_error(&self) -> Option<&str> {
        match &self.first {
            FirstFinding::Error { line, .. } => Some(line),
            _ => None,
        }
    }

    /// Returns true if the machine is the most likely cause.
    pub(super) const fn is_infrastructure(&self) -> bool {
        matches!(self.first, FirstFinding::Error { is_infrastructure: true, .. })
    }
}
