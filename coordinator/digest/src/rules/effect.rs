//! Effects of a matched line.

use super::{Groups, Problem};
use crate::exit_codes::signal_named;
use crate::machines::MatchedLine;
use crate::tally::Counts;
use crate::tool::{Tool, ToolId};

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
    /// With the signal that the line names.
    pub(crate) fn with_signal(self, groups: &Groups<'_>) -> Self {
        let signal = || groups.text("sig").and_then(|said| signal_named(&said)).unwrap_or_default();
        match self {
            Self::Died("") => Self::Died(signal()),
            Self::ChildDied("") => Self::ChildDied(signal()),
            _ => self,
        }
    }

    /// True if Apple's test host prints it when it dies. `xcodebuild` can report success after that.
    pub(crate) const fn is_of_test_host(self) -> bool {
        matches!(
            self,
            Self::FatalError
                | Self::UncaughtException
                | Self::UnexpectedSignal
                | Self::RunnerError
                | Self::RunnerNotLaunched
                | Self::NeverBeganTesting
        )
    }

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

/// A tool is running. It is not a result.
pub(crate) const RUNS: Effect = Effect::Own(|line| {
    line.markers.tools.insert(line.tool);
});

/// A run of a tool begins. Its earlier run has ended.
pub(crate) const BEGINS: Effect = Effect::Own(|line| line.markers.runs.begins(line.tool, line.order));

/// A test runner found no tests.
pub(crate) const NO_TESTS: Effect = Effect::Own(|line| line.markers.found_no_tests(line.marker(())));

/// A test runner found no tests, and fails for it.
pub(crate) const FAILS_WITHOUT_TESTS: Effect = Effect::Own(|line| {
    line.markers.fails_without_tests = true;
    line.markers.found_no_tests(line.marker(()));
});

/// Effect of a matched line, for the tool to which the rule belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    /// Begins a problem.
    Problem(Problem),
    /// Reports an event of the test in group `t`.
    Test(TestEvent),
    /// A summary of the tool's tests, which is a result of the run.
    Counts(Count),
    /// A summary of a part of the tests, or of the tests so far. It is not a result of the run.
    Partial(Count),
    /// Adds to the summary before it: `3 failing`.
    Adds(Count),
    /// Announces a summary.
    Heading,
    /// Number of tests (`n`, or `selected` of them) that run now; a total follows after them.
    Announces,
    /// Begins a test session. Later counts belong to this session.
    Session,
    /// The tool's run is open.
    AtWork,
    /// The tool reports success.
    Success,
    /// The tool reports failure.
    Failure,
    /// The tool reports a number of errors. It is a failure if a build error was found.
    ErrorTotal,
    /// A crash indicator, with the signal in group `sig` if it names one.
    Crash(Indicator),
    /// The same, of a test runner about its own process. It counts inside the message of a failed test too. The runner may run
    /// the test in another process: a later total decides.
    RunnerSays(Indicator),
    /// A test runner reports the death of a process that ran tests, by the signal in group `sig` if it names one. This counts
    /// inside the message of a failed test too.
    WorkerDied,
    /// The following effects of the rule count only if this tool is known: by the command, or by a line before.
    IfKnown(ToolId),
    /// Effects for another tool.
    Of(ToolId, &'static [Effect]),
    /// The effect counts if the line is one of a message with this text.
    Within(&'static str, &'static Effect),
    /// A change that only some tools need.
    Own(fn(&mut MatchedLine<'_>)),
    /// Names the file (`f`) of the failures after it.
    File,
    /// Kept as the tool's last word.
    Summary,
    /// Not a problem, even if a later rule matches.
    Harmless,
    /// No later rule is matched.
    Alone,
}

impl Effect {
    /// Whether the tool's program is running if another line shows this before its total. For many tools, a session is only
    /// their total.
    pub(crate) const fn is_at_work(self, tool: &Tool) -> bool {
        match self {
            Self::Test(_) | Self::AtWork | Self::Announces => true,
            // A total's own heading does not begin a run.
            Self::Heading => tool.announces.is_none(),
            _ => false,
        }
    }
}
