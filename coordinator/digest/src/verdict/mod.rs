//! The verdict: one total function over how the process ended, why the pool acted, what the log and reports say.
//! `docs/endings.md` has its table; each row is named here, and tested.

mod death;
mod exited;
mod log_only;
mod pool;
mod setup;
#[cfg(test)]
mod tests;

use crate::rules::Indicator;
use crate::signs::Seen;
use buildpool_protocol::outcome::{Acted, CrashType, Ending, SetupOutcome};
use buildpool_protocol::report::{Cause, CrashReport, KnownFrom, Verdict};
use death::last_words;
use exited::{exited, exited_zero};
use log_only::log_only;
use pool::{acted_ruling, not_started};

/// Everything that the verdict depends on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Case<'a> {
    pub(crate) ending: Option<&'a Ending>,
    pub(crate) acted: Option<&'a Acted>,
    /// The setup did not pass: the ending is the setup's.
    pub(crate) failed_setup: Option<&'a SetupOutcome>,
    /// The kernel says that the job ran out of memory; with limit and peak in words.
    pub(crate) out_of_memory: Option<String>,
    pub(crate) crash_report: Option<&'a CrashReport>,
    /// Crash signs in the log, in order.
    pub(crate) crashes: &'a [Seen<Indicator>],
    /// A known tool's last word of success, if nothing speaks against it after that.
    pub(crate) success: Option<&'a Seen<&'static str>>,
    /// A known tool's last word of failure.
    pub(crate) failure: Option<&'a Seen<&'static str>>,
    /// The success came after the last crash sign and the last failure.
    pub(crate) success_is_last: bool,
    /// A line that speaks of a failure or a death before that success, which only an exit code could take back.
    pub(crate) contradiction: Option<&'a str>,
    /// A tool that runs others and has not said how it ended.
    pub(crate) unended: Option<&'a str>,
    pub(crate) tests_failed: u64,
    /// Each tool that counted failed tests counted none the last time.
    pub(crate) failures_are_past: bool,
    /// The failed tests are known from a report file, named here.
    pub(crate) report: Option<&'a str>,
    /// Tests that began or were announced, and never ended.
    pub(crate) unfinished: u64,
    /// The test that ran when everything stopped.
    pub(crate) running_test: Option<&'a str>,
    /// Tests now, and in the last good run, when there are far fewer.
    pub(crate) collapsed: Option<(u64, u64)>,
    /// The words of the command that ask for tests by name, when none ran.
    pub(crate) tests_missed: Option<&'a str>,
    /// The first line of the likeliest cause, its place included.
    pub(crate) first_error: Option<String>,
    /// The first error with a place that nothing took back, where the command exited 0.
    pub(crate) standing_error: Option<&'a str>,
    /// An action that xcodebuild was asked for and whose result is not there, although that of another one is.
    pub(crate) action_left: Option<&'a str>,
    /// The command has a pipe, which hides the exit codes of all programs but the last.
    pub(crate) has_pipe: bool,
    /// The first of a linter's remarks, where there is nothing else.
    pub(crate) first_remark: Option<&'a str>,
    /// The first of the warnings, where there are no errors.
    pub(crate) first_warning: Option<&'a str>,
    /// The last line of the output that says something.
    pub(crate) last_line: Option<&'a str>,
    /// That cause is known from a report file.
    pub(crate) error_in_report: bool,
    /// The likeliest of the problems outside tests that report files name, in a line.
    pub(crate) report_problem: Option<&'a str>,
    /// It is the machine's fault.
    pub(crate) problem_is_machines: bool,
    /// Why it is not known what a report says: it could not be read, or not as a whole.
    pub(crate) unread: Option<&'a str>,
    /// Something counted tests, and there were none: what that was, and whether it is a report or the log.
    pub(crate) no_tests: Option<(&'a str, KnownFrom)>,
    /// The submitter asked for tests.
    pub(crate) is_test_run: bool,
    /// Build errors were found.
    pub(crate) build_errors: bool,
    /// Test failures were found.
    pub(crate) test_errors: bool,
    /// The likeliest cause is the machine's fault.
    pub(crate) infrastructure: bool,
    /// The tests were those of cargo: a panic in them is a failed test.
    pub(crate) panics_are_tests: bool,
    /// xcodebuild was at work: its exit codes have meanings of their own.
    pub(crate) xcodebuild: bool,
}

/// The verdict and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ruling {
    pub(crate) verdict: Verdict,
    pub(crate) crash_type: CrashType,
    pub(crate) cause: Option<Cause>,
    /// The row of the table.
    pub(crate) rule: &'static str,
    /// The line of the log that decided, if one did.
    pub(crate) line: Option<String>,
}

fn ruling(
    rule: &'static str,
    verdict: Verdict,
    crash_type: CrashType,
    known_from: KnownFrom,
    text: impl Into<String>,
) -> Ruling {
    Ruling { verdict, crash_type, cause: Some(Cause { text: text.into(), known_from }), rule, line: None }
}

/// The table.
pub(crate) fn decide(case: &Case<'_>) -> Ruling {
    if let Some(acted) = case.acted {
        return acted_ruling(acted, case);
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
        Some(Ending::Unobserved { reason }) => ruling(
            "unobserved",
            Verdict::Lost,
            CrashType::None,
            KnownFrom::Pool,
            format!(
                "The command was started, but how it ended is not known: {reason}. This is the pool's failure, not the command's; submit the job again."
            ),
        ),
    }
}

/// The test that ran when everything stopped, after what stopped it.
fn doing(case: &Case<'_>) -> String {
    case.running_test.map_or(String::new(), |test| format!(" while `{test}` ran"))
}

fn signaled(name: &str, core_dump: bool, case: &Case<'_>) -> Ruling {
    let doing = doing(case);
    let core = if core_dump { " (a core was dumped)" } else { "" };
    if let Some(memory) = &case.out_of_memory {
        return ruling(
            "signal_out_of_memory",
            Verdict::Crashed,
            CrashType::OutOfMemory,
            KnownFrom::WaitStatus,
            format!("The kernel ended the command for its memory{doing} ({name}): {memory}."),
        );
    }
    let meaning = crate::endings::signal_meaning(name);
    let mut text = format!("The command died of {name}{core}{doing}: {meaning}");
    if let Some(said) = last_words(case) {
        text.push_str(&format!(" It said: {said}"));
    }
    let mut ruling =
        ruling("signal", Verdict::Crashed, CrashType::of_signal(name), KnownFrom::WaitStatus, text);
    ruling.line = last_words(case);
    ruling
}

fn failure_type(case: &Case<'_>) -> CrashType {
    if case.tests_failed > 0 || case.test_errors && !case.build_errors {
        CrashType::TestFailure
    } else if case.build_errors || case.failure.is_some_and(is_of_build) {
        CrashType::BuildFailure
    } else {
        CrashType::Unknown
    }
}

/// Whether a last word tells that it was a build that failed. `TEST FAILED` stands behind a failed build as well.
fn is_of_build(failure: &Seen<&'static str>) -> bool {
    let marks = ["** BUILD FAILED", "** TEST BUILD FAILED", "** ARCHIVE FAILED"];
    failure.what == "xcodebuild" && marks.iter().any(|mark| failure.line.contains(mark))
}

fn tests(count: u64) -> String {
    crate::view::counted(count, "test")
}

/// That some tests never ended, in words.
fn unfinished(case: &Case<'_>) -> String {
    match case.running_test {
        Some(test) => format!("{} began and never ended (`{test}`)", tests(case.unfinished)),
        None => format!("{} that a runner announced never ended", tests(case.unfinished)),
    }
}
