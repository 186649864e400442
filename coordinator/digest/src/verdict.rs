//! Decides the verdict from the process ending, the pool's action, the log and the reports.
//! `docs/endings.md` has the table. Each row has a name here and a test.

mod death;
mod exited;
mod input;
mod log_only;
mod memory;
mod pool;
mod setup;
#[cfg(test)]
mod tests;

use crate::markers::MarkerLine;
use crate::tool::{Stage, ToolId};
use buildpool_protocol::outcome::{CrashType, Ending};
use buildpool_protocol::report::{Cause, KnownFrom, Verdict};
pub(crate) use death::CHILD_CRASHED;
use death::last_words;
use exited::{exited, exited_zero};
pub(crate) use input::{
    Doubt, ErrorEvidence, FailedTests, FirstFinding, LogResult, ReportProblem, TestEvidence, TestRun,
    VerdictInput,
};
use log_only::log_only;
use pool::{acted_decision, not_started};

/// Defines the rows of the table, with their names in the documentation.
macro_rules! rows {
    ($($row:ident = $name:literal),* $(,)?) => {
        /// VerdictRow of the table in `docs/endings.md`.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum VerdictRow {
            $($row),*
        }

        impl VerdictRow {
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$row => $name),*
                }
            }
        }
    };
}

rows! {
    ActedTimeout = "acted_timeout",
    ActedTimeoutHeld = "acted_timeout_held",
    ActedIdleTimeout = "acted_idle_timeout",
    ActedCancelled = "acted_cancelled",
    ActedDrained = "acted_drained",
    ActedCutOff = "acted_cut_off",
    ActedFenced = "acted_fenced",
    ActedDiskLimit = "acted_disk_limit",
    ActedOutputLimit = "acted_output_limit",
    NotFound = "not_found",
    NotExecutable = "not_executable",
    NoDirectory = "no_directory",
    NoWorkspace = "no_workspace",
    NoResources = "no_resources",
    Unobserved = "unobserved",
    SetupFailed = "setup_failed",
    SignalOutOfMemory = "signal_out_of_memory",
    SignalMemoryKill = "signal_memory_kill",
    SignalMemoryLimit = "signal_memory_limit",
    Signal = "signal",
    CodeOutOfMemory = "code_out_of_memory",
    CodeMemoryKill = "code_memory_kill",
    CodeMemoryLimit = "code_memory_limit",
    CodeDeath = "code_death",
    CodeShellSignal = "code_shell_signal",
    CodeNoneSelected = "code_none_selected",
    CodeTestsFailed = "code_tests_failed",
    CodeInfrastructure = "code_infrastructure",
    CodeError = "code_error",
    CodeFailureMarker = "code_failure_marker",
    CodeNoTests = "code_no_tests",
    CodeRemarks = "code_remarks",
    CodeWarnings = "code_warnings",
    CodeUnexplained = "code_unexplained",
    ZeroReportFailed = "zero_report_failed",
    ZeroRunnerCrash = "zero_runner_crash",
    ZeroCrashReport = "zero_crash_report",
    ZeroUnfinished = "zero_unfinished",
    ZeroWithoutTotal = "zero_without_total",
    ZeroReportProblem = "zero_report_problem",
    ZeroCollapsed = "zero_collapsed",
    ZeroTestsMissed = "zero_tests_missed",
    ZeroNoTests = "zero_no_tests",
    ZeroNoneSelected = "zero_none_selected",
    ZeroActionLeft = "zero_action_left",
    ZeroCutShort = "zero_cut_short",
    ZeroUnreported = "zero_unreported",
    ZeroBadEnd = "zero_bad_end",
    ZeroFailureMarker = "zero_failure_marker",
    ZeroTestsFailed = "zero_tests_failed",
    ZeroDeathMarker = "zero_death_marker",
    ZeroStandingError = "zero_standing_error",
    ZeroOutOfMemory = "zero_out_of_memory",
    ZeroReportUnread = "zero_report_unread",
    ZeroFailedBefore = "zero_failed_before",
    Zero = "zero",
    LogDeath = "log_death",
    LogTestsFailed = "log_tests_failed",
    LogFailureMarker = "log_failure_marker",
    LogUnfinished = "log_unfinished",
    LogWithoutTotal = "log_without_total",
    LogContradiction = "log_contradiction",
    LogUnended = "log_unended",
    LogNoTests = "log_no_tests",
    LogActionLeft = "log_action_left",
    LogReportUnread = "log_report_unread",
    LogSuccessMarker = "log_success_marker",
    LogErrors = "log_errors",
    LogErrorsWeak = "log_errors_weak",
    LogNothing = "log_nothing",
}

impl VerdictRow {
    /// Returns true if the cause states that no test ran.
    pub(crate) const fn is_of_no_tests(self) -> bool {
        matches!(
            self,
            Self::CodeNoTests
                | Self::CodeNoneSelected
                | Self::ZeroNoTests
                | Self::ZeroNoneSelected
                | Self::ZeroTestsMissed
        )
    }

    /// Returns true for a run that ended well, or claims it, but did not pass.
    pub(crate) const fn contradicts_success(self) -> bool {
        matches!(
            self,
            Self::ZeroReportFailed
                | Self::ZeroRunnerCrash
                | Self::ZeroCrashReport
                | Self::ZeroReportProblem
                | Self::ZeroUnfinished
                | Self::ZeroWithoutTotal
                | Self::ZeroCollapsed
                | Self::ZeroActionLeft
                | Self::ZeroCutShort
                | Self::ZeroUnreported
                | Self::ZeroBadEnd
                | Self::LogActionLeft
                | Self::LogUnfinished
                | Self::LogWithoutTotal
        )
    }
}

/// The verdict and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) verdict: Verdict,
    pub(crate) crash_type: CrashType,
    pub(crate) cause: Option<Cause>,
    /// VerdictRow of the table.
    pub(crate) rule: VerdictRow,
    /// Line of the log that decided the verdict, if one did.
    pub(crate) line: Option<String>,
}

fn decision(
    rule: VerdictRow,
    verdict: Verdict,
    crash_type: CrashType,
    known_from: KnownFrom,
    text: impl Into<String>,
) -> Decision {
    Decision { verdict, crash_type, cause: Some(Cause { text: text.into(), known_from }), rule, line: None }
}

/// Applies the verdict table.
pub(crate) fn decide(case: &VerdictInput<'_>) -> Decision {
    if let Some(acted) = case.acted {
        return acted_decision(acted, case);
    }
    if let Some(setup) = case.failed_setup {
        return setup::failed(setup);
    }
    match case.ending {
        None => log_only(case),
        Some(Ending::Exited { code: 0 }) => exited_zero(case),
        Some(Ending::Exited { code }) => exited(*code, case),
        Some(Ending::Signaled { name, core_dump, .. }) => signaled(name, *core_dump, case),
        Some(Ending::NotStarted(failure)) => not_started(failure),
        Some(Ending::Unobserved { reason }) => decision(
            VerdictRow::Unobserved,
            Verdict::Lost,
            CrashType::None,
            KnownFrom::Pool,
            format!(
                "The command was started, but how it ended is not known: {reason}. This is the pool's failure, not the command's; submit the job again."
            ),
        ),
    }
}

/// Beginning of a cause that quotes the error of a runner that found no test.
pub(crate) const NO_TEST_RAN: &str = "No test ran";

/// Phrase that names the test that was running at the end.
fn doing(case: &VerdictInput<'_>) -> String {
    case.tests.running.as_ref().map_or(String::new(), |test| format!(" while `{test}` ran"))
}

fn signaled(name: &str, core_dump: bool, case: &VerdictInput<'_>) -> Decision {
    let doing = doing(case);
    let core = if core_dump { " (a core was dumped)" } else { "" };
    if let Some(memory) = case.out_of_memory() {
        return decision(
            VerdictRow::SignalOutOfMemory,
            Verdict::Crashed,
            CrashType::OutOfMemory,
            KnownFrom::WaitStatus,
            format!("The kernel ended the command for its memory{doing} ({name}): {memory}."),
        );
    }
    if let Some(decision) = memory::of_signal(name, case) {
        return decision;
    }
    let meaning = crate::exit_codes::signal_meaning(name);
    let mut text = format!("The command died of {name}{core}{doing}: {meaning}");
    if let Some(said) = last_words(case) {
        text.push_str(&format!(" Its last output: {said}"));
    }
    let mut decision = decision(
        VerdictRow::Signal,
        Verdict::Crashed,
        CrashType::of_signal(name),
        KnownFrom::WaitStatus,
        text,
    );
    decision.line = last_words(case);
    decision
}

fn failure_type(case: &VerdictInput<'_>) -> CrashType {
    if case.tests.has_failed() || case.errors.test && !case.errors.build {
        CrashType::TestFailure
    } else if case.errors.build || case.log.failure().is_some_and(is_of_build) {
        CrashType::BuildFailure
    } else {
        CrashType::Unknown
    }
}

/// Returns true if the marker reports a failed build.
fn is_of_build(failure: &MarkerLine<ToolId>) -> bool {
    (failure.what.stage)(&failure.line) == Stage::Build
}

fn tests(count: u64) -> String {
    crate::answer_text::counted(count, "test")
}

/// Text for the failed tests.
fn failed_tests(case: &VerdictInput<'_>) -> String {
    tests(case.tests.failed().count())
}

/// Text for tests that never ended.
fn unfinished(case: &VerdictInput<'_>) -> String {
    match &case.tests.running {
        Some(test) => format!("{} began and never ended (`{test}`)", tests(case.tests.unfinished)),
        None => format!("{} that a runner announced never ended", tests(case.tests.unfinished)),
    }
}
