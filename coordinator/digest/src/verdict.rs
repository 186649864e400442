//! Decides the verdict from the process ending, the pool's action, the log and the reports.
//! `docs/endings.md` has the table. Each row has a name here and a test.

mod death;
mod exited;
mod log_only;
mod memory;
mod pool;
mod setup;
#[cfg(test)]
mod tests;

use crate::markers::MarkerLine;
use crate::rules::Indicator;
use crate::tool::ToolId;
use buildpool_protocol::evidence::MemoryEvidence;
use buildpool_protocol::outcome::{Acted, CrashType, Ending, SetupOutcome};
use buildpool_protocol::report::{Cause, CrashReport, KnownFrom, Verdict};
pub(crate) use death::CHILD_CRASHED;
use death::last_words;
use exited::{exited, exited_zero};
use log_only::log_only;
use pool::{acted_decision, not_started};

/// Input of the verdict.
#[derive(Clone, Debug, Default)]
pub(crate) struct VerdictInput<'a> {
    pub(crate) ending: Option<&'a Ending>,
    pub(crate) acted: Option<&'a Acted>,
    /// Setup that did not pass. `ending` is then the ending of the setup.
    pub(crate) failed_setup: Option<&'a SetupOutcome>,
    /// Text with limit and peak, if the kernel reported that the job ran out of memory.
    pub(crate) out_of_memory: Option<String>,
    /// Limit, peak and kills that the worker knows of.
    pub(crate) memory: Option<&'a MemoryEvidence>,
    pub(crate) crash_report: Option<&'a CrashReport>,
    /// Crash signs in the log, in order.
    pub(crate) crashes: &'a [MarkerLine<Indicator>],
    /// Last success marker of a known tool, if nothing after it contradicts it.
    pub(crate) success: Option<&'a MarkerLine<ToolId>>,
    /// Last failure marker of a known tool.
    pub(crate) failure: Option<&'a MarkerLine<ToolId>>,
    /// The success marker came after the last crash sign and the last failure.
    pub(crate) success_is_last: bool,
    /// Line before that success that reports a failure or a crash. Only an exit code can override
    /// it.
    pub(crate) contradiction: Option<&'a str>,
    /// Driver of other tools that has not reported its end.
    pub(crate) unended: Option<ToolId>,
    pub(crate) tests_failed: u64,
    /// The last total of each tool that counted failed tests has no failures.
    pub(crate) failures_are_past: bool,
    /// Report file that contains the failed tests.
    pub(crate) report: Option<&'a str>,
    /// Number of tests that started or were announced, and never ended.
    pub(crate) unfinished: u64,
    /// Test that was running at the end.
    pub(crate) running_test: Option<&'a str>,
    /// Number of tests now and in the last good run, if there are far fewer now.
    pub(crate) collapsed: Option<(u64, u64)>,
    /// Argument of the command that selects tests by name, if none ran.
    pub(crate) tests_missed: Option<&'a str>,
    /// First line of the most likely cause, with its location.
    pub(crate) first_error: Option<String>,
    /// First error with a location that no success cancels, if the command exited 0.
    pub(crate) standing_error: Option<&'a str>,
    /// Requested xcodebuild action without a result, although another action has one.
    pub(crate) action_left: Option<&'a str>,
    /// Last line of test results that no total follows.
    pub(crate) without_total: Option<&'a str>,
    /// The command has a pipe, which hides the exit codes of all programs except the last.
    pub(crate) has_pipe: bool,
    /// First remark of a linter, if there is nothing else.
    pub(crate) first_remark: Option<&'a str>,
    /// First warning, if there are no errors.
    pub(crate) first_warning: Option<&'a str>,
    /// Last meaningful line of the output.
    pub(crate) last_line: Option<&'a str>,
    /// The most likely cause comes from a report file.
    pub(crate) error_in_report: bool,
    /// Headline of the most likely problem outside tests in the report files.
    pub(crate) report_problem: Option<&'a str>,
    /// The machine caused that problem.
    pub(crate) problem_is_machines: bool,
    /// Reason why a report could not be read completely.
    pub(crate) unread: Option<&'a str>,
    /// Source that counted zero tests, and whether it is a report or the log.
    pub(crate) no_tests: Option<(&'a str, KnownFrom)>,
    /// The job is a test run.
    pub(crate) is_test_run: bool,
    /// The job is a test run of tests that its command selects by name.
    pub(crate) selects_tests: bool,
    /// Number of skipped tests, if all tests were skipped.
    pub(crate) all_skipped: Option<u64>,
    /// Build errors were found.
    pub(crate) build_errors: bool,
    /// Test failures were found.
    pub(crate) test_errors: bool,
    /// The machine is the most likely cause.
    pub(crate) infrastructure: bool,
    /// The tests are cargo's, where a panic is a failed test.
    pub(crate) panics_are_tests: bool,
    /// xcodebuild ran. Its exit codes have their own meanings.
    pub(crate) xcodebuild: bool,
}

/// Defines the rows of the table, with their names in the documentation.
macro_rules! rows {
    ($($row:ident = $name:literal),* $(,)?) => {
        /// Row of the table in `docs/endings.md`.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Row {
            $($row),*
        }

        impl Row {
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

/// The verdict and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) verdict: Verdict,
    pub(crate) crash_type: CrashType,
    pub(crate) cause: Option<Cause>,
    /// Row of the table.
    pub(crate) rule: Row,
    /// Line of the log that decided the verdict, if one did.
    pub(crate) line: Option<String>,
}

fn decision(
    rule: Row,
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
            Row::Unobserved,
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
    case.running_test.map_or(String::new(), |test| format!(" while `{test}` ran"))
}

fn signaled(name: &str, core_dump: bool, case: &VerdictInput<'_>) -> Decision {
    let doing = doing(case);
    let core = if core_dump { " (a core was dumped)" } else { "" };
    if let Some(memory) = &case.out_of_memory {
        return decision(
            Row::SignalOutOfMemory,
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
        text.push_str(&format!(" It said: {said}"));
    }
    let mut decision =
        decision(Row::Signal, Verdict::Crashed, CrashType::of_signal(name), KnownFrom::WaitStatus, text);
    decision.line = last_words(case);
    decision
}

fn failure_type(case: &VerdictInput<'_>) -> CrashType {
    if case.tests_failed > 0 || case.test_errors && !case.build_errors {
        CrashType::TestFailure
    } else if case.build_errors || case.failure.is_some_and(is_of_build) {
        CrashType::BuildFailure
    } else {
        CrashType::Unknown
    }
}

/// Returns true if the marker reports a failed build. xcodebuild prints `TEST FAILED` after a
/// failed build as well.
fn is_of_build(failure: &MarkerLine<ToolId>) -> bool {
    let marks = ["** BUILD FAILED", "** TEST BUILD FAILED", "** ARCHIVE FAILED"];
    failure.what == ToolId::Xcodebuild && marks.iter().any(|mark| failure.line.contains(mark))
}

fn tests(count: u64) -> String {
    crate::answer_text::counted(count, "test")
}

/// Text for tests that never ended.
fn unfinished(case: &VerdictInput<'_>) -> String {
    match case.running_test {
        Some(test) => format!("{} began and never ended (`{test}`)", tests(case.unfinished)),
        None => format!("{} that a runner announced never ended", tests(case.unfinished)),
    }
}
