//! Effects of a matched line.

use super::{Groups, Problem};
use crate::exit_codes::signal_named;
use crate::machines::MatchedLine;
use crate::tally::Counts;
use crate::tool::ToolId;

/// Event of a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TestEvent {
    Started,
    Passed,
    Failed,
    Skipped,
    ExpectedFailure,
    /// It ended. Another line has the result.
    Ended,
}

/// A marker about the whole run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Marker {
    /// A known tool reports success.
    Success(ToolId),
    /// A known tool reports failure.
    Failure(ToolId),
    /// A known tool reports failure in passing. Its earlier report is its last word.
    FailureToo(ToolId),
    /// A tool reports a number of errors. It counts if a build error was found.
    TotalOfErrors(ToolId),
    /// A tool withdraws its earlier report of failure. It is not a result of the run.
    TakesBack(ToolId),
    /// A tool is running. It is not a result.
    Tool(ToolId),
    /// A run of a tool begins. Its earlier run has ended.
    Begins(ToolId),
    /// A test runner found no tests.
    NoTests,
    /// A test runner found no tests, and fails for it.
    FailsWithoutTests,
    /// A crash indicator.
    Crash(Indicator),
    /// A crash indicator if this tool is running, by its own lines before or after.
    CrashUnder(ToolId, Indicator),
    /// An exception reports the end of its program. A later trace cancels it, because the program went on.
    Raised(Indicator),
    /// A trace begins.
    Trace,
}

impl Marker {
    /// With the signal that the line names.
    pub(crate) fn with_signal(self, groups: &Groups<'_>) -> Self {
        let signal = || groups.text("sig").and_then(|said| signal_named(&said)).unwrap_or_default();
        match self {
            Self::Crash(Indicator::Died("")) => Self::Crash(Indicator::Died(signal())),
            Self::Crash(Indicator::ChildDied("")) => Self::Crash(Indicator::ChildDied(signal())),
            Self::CrashUnder(tool, Indicator::Died("")) => Self::CrashUnder(tool, Indicator::Died(signal())),
            _ => self,
        }
    }
}

/// Crash indicators, named as in the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Indicator {
    TestRunnerCrashed,
    ConnectionInterrupted,
    EarlyExit,
    NeverBeganTesting,
    BundleLoadFailed,
    SimulatorBootTimeout,
    TestProcessCrashed,
    RestartedAfterCrash,
    FatalError,
    UncaughtException,
    UnexpectedSignal,
    RunnerError,
    RunnerNotLaunched,
    Sanitizer,
    Panic,
    Killed,
    OutOfMemory,
    /// A shell or make names the signal of a program that it ran. Empty until it is read from group `sig`.
    Died(&'static str),
    /// A tool reports the death of its process, with the signal if it names one. Empty until it is read from group `sig`.
    ChildDied(&'static str),
}

impl Indicator {
    /// True if it is only a word that a test may print too.
    pub(crate) const fn is_word(self) -> bool {
        matches!(
            self,
            Self::FatalError
                | Self::UncaughtException
                | Self::UnexpectedSignal
                | Self::Panic
                | Self::Killed
                | Self::OutOfMemory
                | Self::Died(_)
        )
    }
}

/// Reads counts from a summary line.
pub(crate) type Count = fn(&Groups<'_>) -> Option<Counts>;

/// Each kind of test has its own number. A line may have several numbers of a kind: `skipped`, `skipped2`.
pub(crate) const SORTS: Count = |groups| {
    let sum = |names: &[&str]| names.iter().map(|name| groups.number(name)).fold(0, u64::saturating_add);
    Some(Counts {
        passed: sum(&["passed", "passed2"]),
        failed: sum(&["failed", "failed2", "errors"]),
        skipped: sum(&["skipped", "skipped2", "skipped3"]),
        expected: groups.number("expected"),
    })
};

/// The rest of a total, which is in one of two groups, passed.
pub(crate) const TOTAL: Count = |groups| {
    let counts = SORTS(groups)?;
    let total = groups.number("n").saturating_add(groups.number("n2"));
    let others = counts.failed.saturating_add(counts.skipped).saturating_add(counts.expected);
    Some(Counts { passed: total.saturating_sub(others), ..counts })
};

/// Effect of a matched line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    /// Begins a problem.
    Problem(Problem),
    /// Reports an event of the test in group `t`.
    Test(ToolId, TestEvent),
    /// A tool's summary of its tests, which is a result of the run.
    Counts(ToolId, Count),
    /// The following effects of the rule count only if this tool is known: by the command, or by a line before.
    IfKnown(ToolId),
    /// A change that only this rule needs, in the file of its tool.
    Own(fn(&mut MatchedLine<'_>)),
    /// A summary of a part of the tests, or of the tests so far. It is not a result of the run.
    Partial(ToolId, Count),
    /// This tool is running.
    AtWork(ToolId),
    /// Announces a summary.
    Heading(ToolId),
    /// A line of a summary that reports a failure outside the summary's tests: the run failed,
    /// with any results of its tests.
    OtherFailure(ToolId),
    /// Number of tests.
    Plan(ToolId),
    /// Number of tests (`n`, or `selected` of them) that run now; a total follows after them.
    Announces(ToolId),
    /// Adds to the summary before it: `3 failing`.
    Adds(ToolId, Count),
    /// Number of tests of the summary before it that did not simply pass: `FAILED (failures=3)`.
    Moves(ToolId, Count),
    /// Begins a test session. Later counts belong to this session.
    Session(ToolId),
    /// This tool has ended, completely if all its tests passed.
    Over(ToolId, bool),
    /// The tests of a part of the run follow, named by group `t`. Only tests of the same part are the same tests.
    Part(ToolId),
    /// Names the file (`f`) of the failures after it.
    File,
    /// Later output belongs to the test in group `t`.
    OutputFollows,
    /// The line belongs to that test's output; the failure of the test contains it.
    IsOutput,
    /// A marker of the run.
    Marker(Marker),
    /// A test runner reports the death of a process that ran tests, by the signal in group `sig` if it names one. This counts
    /// inside the message of a failed test too.
    WorkerDied,
    /// A test runner reports the death of its own process, inside the message of a failed test too. It may run the test in
    /// another process: a later total decides.
    RunnerSays(Marker),
    /// The same, if it is a line of a message with this text.
    Within(&'static str, &'static Effect),
    /// Kept as the tool's last word.
    Summary,
    /// Not a problem, even if a later rule matches.
    Harmless,
    /// No later rule is matched.
    Alone,
}

impl Effect {
    /// The tool whose program is running if another line shows this before its total. For many tools, a session is only
    /// their total.
    pub(crate) fn at_work(self) -> Option<ToolId> {
        match self {
            Self::Test(tool, _) | Self::AtWork(tool) | Self::Announces(tool) => Some(tool),
            // A total's own heading does not begin a run.
            Self::Heading(tool) if tool.announces.is_none() => Some(tool),
            _ => None,
        }
    }
}
