//! The verdict: one total function over how the process ended, why the pool acted, what the log and reports say.
//! `docs/endings.md` has its table; each row is named here, and tested.

use crate::rules::Indicator;
use crate::signs::Seen;
use buildpool_protocol::outcome::{Acted, CrashType, Ending, StartFailure};
use buildpool_protocol::report::{Cause, CrashReport, KnownFrom, Verdict};

/// Everything that the verdict depends on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Case<'a> {
    pub(crate) ending: Option<&'a Ending>,
    pub(crate) acted: Option<&'a Acted>,
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
    pub(crate) tests_failed: u64,
    /// The failed tests are known from a report file, named here.
    pub(crate) report: Option<&'a str>,
    /// Tests that began and never ended, in a run that prints both.
    pub(crate) unfinished: u64,
    /// The test that ran when everything stopped.
    pub(crate) running_test: Option<&'a str>,
    /// Tests now, and in the last good run, when there are far fewer.
    pub(crate) collapsed: Option<(u64, u64)>,
    /// The first line of the likeliest cause, its place included.
    pub(crate) first_error: Option<String>,
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

fn seconds(duration: std::time::Duration) -> String {
    if duration.subsec_millis() == 0 {
        format!("{} s", duration.as_secs())
    } else {
        format!("{:.1} s", duration.as_secs_f64())
    }
}

fn acted_ruling(acted: &Acted, case: &Case<'_>) -> Ruling {
    let doing = case.running_test.map_or(String::new(), |test| format!(" while `{test}` ran"));
    match acted {
        Acted::Timeout { after } => ruling(
            "acted_timeout",
            Verdict::TimedOut,
            CrashType::Timeout,
            KnownFrom::Pool,
            format!(
                "The pool ended the command{doing}: it ran longer than its timeout of {}.",
                seconds(*after)
            ),
        ),
        Acted::IdleTimeout { after } => ruling(
            "acted_idle_timeout",
            Verdict::TimedOut,
            CrashType::Timeout,
            KnownFrom::Pool,
            format!(
                "The pool ended the command{doing}: it wrote nothing for {}, its idle timeout.",
                seconds(*after)
            ),
        ),
        Acted::Cancelled { by, reason } => {
            let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            let who = if by.is_empty() { "its submitter" } else { by };
            ruling(
                "acted_cancelled",
                Verdict::Cancelled,
                CrashType::Cancelled,
                KnownFrom::Pool,
                format!("The job was cancelled by {who}{why}."),
            )
        }
        Acted::Drained => ruling(
            "acted_drained",
            Verdict::Lost,
            CrashType::None,
            KnownFrom::Pool,
            "The pool ended the command because its worker was drained and the drain's deadline came; submit the job again.",
        ),
        Acted::CutOff => ruling(
            "acted_cut_off",
            Verdict::Lost,
            CrashType::None,
            KnownFrom::Pool,
            "The worker ended the command because it had lost contact with the coordinator for too long; submit the job again.",
        ),
        Acted::Fenced => ruling(
            "acted_fenced",
            Verdict::Lost,
            CrashType::None,
            KnownFrom::Pool,
            "The worker ended the command because a newer attempt of the job had been granted.",
        ),
        Acted::OutputLimit { reason } => ruling(
            "acted_output_limit",
            Verdict::Lost,
            CrashType::None,
            KnownFrom::Pool,
            format!("The pool ended the command because its output could not be kept: {reason}."),
        ),
    }
}

fn not_started(failure: &StartFailure) -> Ruling {
    match failure {
        StartFailure::NotFound { program } => ruling(
            "not_found",
            Verdict::Failed,
            CrashType::Unknown,
            KnownFrom::Pool,
            format!(
                "`{program}` was not found on the worker (127); check the name, the PATH and that the tool is installed there."
            ),
        ),
        StartFailure::NotExecutable { program, reason } => ruling(
            "not_executable",
            Verdict::Failed,
            CrashType::Unknown,
            KnownFrom::Pool,
            format!("`{program}` is there but could not be executed (126): {reason}."),
        ),
        StartFailure::Directory { path, reason } => ruling(
            "no_directory",
            Verdict::Rejected,
            CrashType::None,
            KnownFrom::Pool,
            format!("The command was not run: its directory `{path}` could not be entered: {reason}."),
        ),
        StartFailure::Workspace { reason } => ruling(
            "no_workspace",
            Verdict::Rejected,
            CrashType::None,
            KnownFrom::Pool,
            format!(
                "The command was not run: its files could not be laid out on the worker: {reason}. This is the pool's failure."
            ),
        ),
        StartFailure::Resources { reason } => ruling(
            "no_resources",
            Verdict::Rejected,
            CrashType::None,
            KnownFrom::Pool,
            format!(
                "The command was not run: the worker could not start a process: {reason}. This is the worker's failure."
            ),
        ),
    }
}

fn signaled(name: &str, core_dump: bool, case: &Case<'_>) -> Ruling {
    let doing = case.running_test.map_or(String::new(), |test| format!(" while `{test}` ran"));
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

/// The crash sign that says most, as a line.
fn last_words(case: &Case<'_>) -> Option<String> {
    case.crashes.iter().max_by_key(|seen| telling(seen.what)).map(|seen| seen.line.trim().to_owned())
}

/// How much a sign tells about the cause.
const fn telling(indicator: Indicator) -> u8 {
    match indicator {
        Indicator::FatalError | Indicator::UncaughtException | Indicator::Sanitizer => 9,
        Indicator::OutOfMemory | Indicator::Panic => 8,
        Indicator::UnexpectedSignal | Indicator::Died(_) => 7,
        Indicator::TestRunnerCrashed | Indicator::TestProcessCrashed | Indicator::EarlyExit => 6,
        Indicator::RunnerError | Indicator::RunnerNotLaunched | Indicator::NeverBeganTesting => 5,
        Indicator::RestartedAfterCrash | Indicator::BundleLoadFailed | Indicator::SimulatorBootTimeout => 4,
        Indicator::Killed => 3,
        Indicator::ConnectionInterrupted => 1,
    }
}

/// Whether a sign alone says that something died, when the run did not end well.
const fn is_death(indicator: Indicator, panics_are_tests: bool) -> bool {
    match indicator {
        Indicator::TestRunnerCrashed
        | Indicator::EarlyExit
        | Indicator::TestProcessCrashed
        | Indicator::RestartedAfterCrash
        | Indicator::FatalError
        | Indicator::UncaughtException
        | Indicator::UnexpectedSignal
        | Indicator::Sanitizer
        | Indicator::Killed
        | Indicator::OutOfMemory
        | Indicator::Died(_) => true,
        Indicator::Panic => !panics_are_tests,
        Indicator::ConnectionInterrupted
        | Indicator::NeverBeganTesting
        | Indicator::BundleLoadFailed
        | Indicator::SimulatorBootTimeout
        | Indicator::RunnerError
        | Indicator::RunnerNotLaunched => false,
    }
}

/// Whether a test runner itself says that what it tested died: counts against a good end whatever came after.
const fn is_runner_death(indicator: Indicator) -> bool {
    matches!(
        indicator,
        Indicator::TestRunnerCrashed
            | Indicator::TestProcessCrashed
            | Indicator::RestartedAfterCrash
            | Indicator::EarlyExit
    )
}

/// What kind of death the signs speak of.
fn death_type(case: &Case<'_>) -> CrashType {
    if case.out_of_memory.is_some() {
        return CrashType::OutOfMemory;
    }
    if let Some(signal) = case.crash_report.and_then(|report| report.signal.as_deref()) {
        return CrashType::of_signal(signal);
    }
    for seen in case.crashes {
        if let Indicator::Died(signal) = seen.what {
            return CrashType::of_signal(signal);
        }
    }
    let has = |indicator| case.crashes.iter().any(|seen| seen.what == indicator);
    if has(Indicator::OutOfMemory) {
        CrashType::OutOfMemory
    } else if has(Indicator::Killed) {
        CrashType::Killed
    } else if case.xcodebuild && case.crashes.iter().any(|seen| is_runner_death(seen.what)) {
        CrashType::SimulatorCrash
    } else {
        CrashType::Unknown
    }
}

/// The death that the log or a crash report speaks of, if any.
fn death(case: &Case<'_>, rule: &'static str, runner_only: bool) -> Option<Ruling> {
    let sign = case
        .crashes
        .iter()
        .filter(|seen| {
            if runner_only { is_runner_death(seen.what) } else { is_death(seen.what, case.panics_are_tests) }
        })
        .max_by_key(|seen| telling(seen.what))?;
    let doing = case.running_test.map_or(String::new(), |test| format!(" while `{test}` ran"));
    let words = last_words(case).unwrap_or_else(|| sign.line.trim().to_owned());
    let (text, known_from) = match case.crash_report {
        Some(report) => (
            format!(
                "`{}` crashed{doing}{}: {}",
                report.process_name,
                report.signal.as_deref().map_or(String::new(), |signal| format!(" with {signal}")),
                report.message.as_deref().unwrap_or(&words)
            ),
            KnownFrom::CrashReport,
        ),
        None => (format!("Something that the command ran died{doing}: {words}"), KnownFrom::Marker),
    };
    let mut ruling = ruling(rule, Verdict::Crashed, death_type(case), known_from, text);
    ruling.line = Some(sign.line.clone());
    Some(ruling)
}

fn failure_type(case: &Case<'_>) -> CrashType {
    if case.tests_failed > 0 || case.test_errors && !case.build_errors {
        CrashType::TestFailure
    } else if case.build_errors {
        CrashType::BuildFailure
    } else {
        CrashType::Unknown
    }
}

fn exited_zero(case: &Case<'_>) -> Ruling {
    let contradiction =
        |rule, text: String| ruling(rule, Verdict::Inconclusive, CrashType::Unknown, KnownFrom::Marker, text);
    if let (true, Some(report)) = (case.tests_failed > 0, case.report) {
        return ruling(
            "zero_report_failed",
            Verdict::Failed,
            CrashType::TestFailure,
            KnownFrom::Report,
            format!("The command exited 0, but {report} says that {} failed.", tests(case.tests_failed)),
        );
    }
    if let Some(ruling) = death(case, "zero_runner_crash", true) {
        return ruling;
    }
    if case.crash_report.is_some()
        && let Some(ruling) = death(case, "zero_crash_report", false)
    {
        return ruling;
    }
    if case.unfinished > 0 {
        return contradiction(
            "zero_unfinished",
            format!(
                "The command exited 0, but {} began and never ended{}: the run was cut short.",
                tests(case.unfinished),
                case.running_test.map_or(String::new(), |test| format!(" (`{test}`)"))
            ),
        );
    }
    if let Some((now, before)) = case.collapsed {
        return contradiction(
            "zero_collapsed",
            format!("The command exited 0, but only {now} tests ran where the last good run had {before}."),
        );
    }
    if let (Some(failure), false) = (case.failure, case.success_is_last) {
        let mut ruling = contradiction(
            "zero_failure_marker",
            format!(
                "The command exited 0, but {} says that it failed: {}",
                failure.what,
                failure.line.trim()
            ),
        );
        ruling.crash_type = failure_type(case);
        ruling.line = Some(failure.line.clone());
        return ruling;
    }
    if case.tests_failed > 0 && !case.success_is_last {
        let mut ruling = contradiction(
            "zero_tests_failed",
            format!("The command exited 0, but its output counts {} as failed.", tests(case.tests_failed)),
        );
        ruling.crash_type = CrashType::TestFailure;
        return ruling;
    }
    let death_sign = case.crashes.iter().find(|seen| is_death(seen.what, case.panics_are_tests));
    if let (Some(seen), false) = (death_sign, case.success_is_last) {
        let mut ruling = contradiction(
            "zero_death_marker",
            format!("The command exited 0, but its output speaks of a death: {}", seen.line.trim()),
        );
        ruling.line = Some(seen.line.clone());
        return ruling;
    }
    Ruling {
        verdict: Verdict::Passed,
        crash_type: CrashType::None,
        cause: None,
        rule: "zero",
        line: case.success.map(|seen| seen.line.clone()),
    }
}

fn tests(count: u64) -> String {
    if count == 1 { "1 test".to_owned() } else { format!("{count} tests") }
}

fn exited(code: i32, case: &Case<'_>) -> Ruling {
    if let Some(memory) = &case.out_of_memory {
        return ruling(
            "code_out_of_memory",
            Verdict::Crashed,
            CrashType::OutOfMemory,
            KnownFrom::WaitStatus,
            format!("A process of the job was ended by the kernel for its memory: {memory}."),
        );
    }
    if let Some(mut ruling) = death(case, "code_death", false) {
        if ruling.crash_type == CrashType::Unknown
            && let Some(signal) = crate::endings::shell_signal(code)
        {
            ruling.crash_type = CrashType::of_signal(signal);
        }
        return ruling;
    }
    if let Some(signal) = crate::endings::shell_signal(code)
        && case.tests_failed == 0
        && !case.build_errors
        && !case.test_errors
    {
        return ruling(
            "code_shell_signal",
            Verdict::Failed,
            CrashType::of_signal(signal),
            KnownFrom::ShellConvention,
            format!(
                "Exit code {code} is what a shell gives when a program died of {signal} ({} + 128): a guess, since the command itself exited.",
                code - 128
            ),
        );
    }
    let kind = failure_type(case);
    if case.tests_failed > 0 {
        let (known_from, source) = match case.report {
            Some(report) => (KnownFrom::Report, format!(" ({report})")),
            None => (KnownFrom::Marker, String::new()),
        };
        return ruling(
            "code_tests_failed",
            Verdict::Failed,
            CrashType::TestFailure,
            known_from,
            format!("{} failed{source}; exit code {code}.", tests(case.tests_failed)),
        );
    }
    let mut ruling = match (&case.first_error, case.failure) {
        (Some(error), _) => ruling(
            if case.infrastructure { "code_infrastructure" } else { "code_error" },
            Verdict::Failed,
            kind,
            KnownFrom::Marker,
            format!("Exit code {code}: {error}"),
        ),
        (None, Some(failure)) => ruling(
            "code_failure_marker",
            Verdict::Failed,
            kind,
            KnownFrom::Marker,
            format!("Exit code {code}; {} says: {}", failure.what, failure.line.trim()),
        ),
        (None, None) => ruling(
            "code_unexplained",
            Verdict::Failed,
            kind,
            KnownFrom::WaitStatus,
            format!(
                "The command exited with code {code}{}",
                crate::endings::code_meaning(code, case.xcodebuild)
            ),
        ),
    };
    if case.success_is_last
        && let Some(success) = case.success
        && let Some(cause) = &mut ruling.cause
    {
        cause.text.push_str(&format!(
            " (The last word of {} was success, `{}`, and the exit code says otherwise.)",
            success.what,
            success.line.trim()
        ));
    }
    ruling
}

fn log_only(case: &Case<'_>) -> Ruling {
    if let Some(ruling) = death(case, "log_death", true) {
        return ruling;
    }
    if !case.success_is_last
        && let Some(ruling) = death(case, "log_death", false)
    {
        return ruling;
    }
    let kind = failure_type(case);
    if case.tests_failed > 0 && !(case.success_is_last && case.report.is_none()) {
        let known_from = if case.report.is_some() { KnownFrom::Report } else { KnownFrom::Marker };
        return ruling(
            "log_tests_failed",
            Verdict::Failed,
            CrashType::TestFailure,
            known_from,
            format!("{} failed.", tests(case.tests_failed)),
        );
    }
    if let (Some(failure), false) = (case.failure, case.success_is_last) {
        let mut ruling = ruling(
            "log_failure_marker",
            Verdict::Failed,
            kind,
            KnownFrom::Marker,
            format!("{} says that it failed: {}", failure.what, failure.line.trim()),
        );
        ruling.line = Some(failure.line.clone());
        return ruling;
    }
    if case.unfinished > 0 {
        return ruling(
            "log_unfinished",
            Verdict::Inconclusive,
            CrashType::Unknown,
            KnownFrom::Marker,
            format!("{} began and never ended; the log has no exit code.", tests(case.unfinished)),
        );
    }
    if let (Some(success), true) = (case.success, case.success_is_last) {
        if case.build_errors || case.test_errors {
            return ruling(
                "log_contradiction",
                Verdict::Inconclusive,
                kind,
                KnownFrom::Marker,
                format!(
                    "{} says that it succeeded (`{}`), but the log has errors{}; it has no exit code to decide by.",
                    success.what,
                    success.line.trim(),
                    case.first_error.as_deref().map_or(String::new(), |error| format!(": {error}"))
                ),
            );
        }
        let mut ruling = ruling(
            "log_success_marker",
            Verdict::Passed,
            CrashType::None,
            KnownFrom::Marker,
            format!("{} says that it succeeded: {}", success.what, success.line.trim()),
        );
        ruling.line = Some(success.line.clone());
        return ruling;
    }
    match &case.first_error {
        Some(error) if case.build_errors || case.test_errors => {
            ruling("log_errors", Verdict::Failed, kind, KnownFrom::Marker, error.clone())
        }
        Some(error) => ruling(
            "log_errors_weak",
            Verdict::Inconclusive,
            CrashType::Unknown,
            KnownFrom::Marker,
            format!("The log has errors but no exit code and no tool's last word: {error}"),
        ),
        None => ruling(
            "log_nothing",
            Verdict::Inconclusive,
            CrashType::Unknown,
            KnownFrom::Marker,
            "The log alone does not say how the command ended: no exit code was given and no known tool's last word was found.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use buildpool_protocol::output::Stream;
    use std::time::Duration;

    fn seen<T>(what: T, line: &str) -> Seen<T> {
        Seen { what, line: line.to_owned(), stream: Stream::Stdout, from: 0, order: 1 }
    }

    #[track_caller]
    fn check(case: &Case<'_>, rule: &str, verdict: Verdict, crash_type: CrashType) -> Ruling {
        let ruling = decide(case);
        assert_eq!(
            (ruling.rule, ruling.verdict, ruling.crash_type),
            (rule, verdict, crash_type),
            "{ruling:?}"
        );
        assert_eq!(ruling.cause.is_none(), rule == "zero", "{ruling:?}");
        ruling
    }

    const ZERO: Ending = Ending::Exited { code: 0 };
    const ONE: Ending = Ending::Exited { code: 1 };

    fn died(name: &str) -> Ending {
        Ending::Signaled { signal: 0, name: name.to_owned(), core_dump: true }
    }

    fn known() -> String {
        name_every_row().join(" ")
    }

    /// The rows that the table in the documentation has.
    fn name_every_row() -> Vec<String> {
        let table = include_str!("../../../docs/endings.md");
        table
            .lines()
            .filter_map(|line| line.strip_prefix("| `"))
            .filter_map(|line| line.split_once('`'))
            .map(|(row, _)| row.to_owned())
            .collect()
    }

    #[test]
    fn the_pool_s_reason_goes_before_the_signal() {
        let killed = died("SIGKILL");
        let rows = [
            (
                Acted::Timeout { after: Duration::from_secs(5) },
                "acted_timeout",
                Verdict::TimedOut,
                CrashType::Timeout,
            ),
            (
                Acted::IdleTimeout { after: Duration::from_secs(5) },
                "acted_idle_timeout",
                Verdict::TimedOut,
                CrashType::Timeout,
            ),
            (
                Acted::Cancelled { by: "me".into(), reason: String::new() },
                "acted_cancelled",
                Verdict::Cancelled,
                CrashType::Cancelled,
            ),
            (Acted::Drained, "acted_drained", Verdict::Lost, CrashType::None),
            (Acted::CutOff, "acted_cut_off", Verdict::Lost, CrashType::None),
            (Acted::Fenced, "acted_fenced", Verdict::Lost, CrashType::None),
            (
                Acted::OutputLimit { reason: "disk full".into() },
                "acted_output_limit",
                Verdict::Lost,
                CrashType::None,
            ),
        ];
        for (acted, rule, verdict, crash_type) in rows {
            for ending in [&killed, &ZERO, &ONE] {
                let case = Case { ending: Some(ending), acted: Some(&acted), ..Case::default() };
                check(&case, rule, verdict, crash_type);
                assert!(known().contains(rule), "{rule} is not in the table");
            }
        }
    }

    #[test]
    fn what_never_ran_is_said_to_be_so() {
        let text = || "x".to_owned();
        let rows = [
            (StartFailure::NotFound { program: text() }, "not_found", Verdict::Failed, CrashType::Unknown),
            (
                StartFailure::NotExecutable { program: text(), reason: text() },
                "not_executable",
                Verdict::Failed,
                CrashType::Unknown,
            ),
            (
                StartFailure::Directory { path: text(), reason: text() },
                "no_directory",
                Verdict::Rejected,
                CrashType::None,
            ),
            (StartFailure::Workspace { reason: text() }, "no_workspace", Verdict::Rejected, CrashType::None),
            (StartFailure::Resources { reason: text() }, "no_resources", Verdict::Rejected, CrashType::None),
        ];
        for (failure, rule, verdict, crash_type) in rows {
            let ending = Ending::NotStarted(failure);
            check(&Case { ending: Some(&ending), ..Case::default() }, rule, verdict, crash_type);
            assert!(known().contains(rule), "{rule} is not in the table");
        }
        let ending = Ending::Unobserved { reason: text() };
        check(
            &Case { ending: Some(&ending), ..Case::default() },
            "unobserved",
            Verdict::Lost,
            CrashType::None,
        );
    }

    #[test]
    fn each_signal_has_its_type_and_a_core_dump_changes_nothing() {
        for (name, crash_type) in [
            ("SIGSEGV", CrashType::SegmentationFault),
            ("SIGABRT", CrashType::Abort),
            ("SIGKILL", CrashType::Killed),
            ("SIGTERM", CrashType::Terminated),
            ("SIGINT", CrashType::Interrupted),
            ("SIGTRAP", CrashType::Trap),
            ("SIGILL", CrashType::IllegalInstruction),
            ("SIGBUS", CrashType::BusError),
            ("SIGFPE", CrashType::FloatingPointException),
            ("SIGSYS", CrashType::BadSystemCall),
            ("SIGPIPE", CrashType::Unknown),
        ] {
            let ending = died(name);
            let ruling = check(
                &Case { ending: Some(&ending), ..Case::default() },
                "signal",
                Verdict::Crashed,
                crash_type,
            );
            let cause = ruling.cause.expect("a crash has a cause");
            assert_eq!(cause.known_from, KnownFrom::WaitStatus);
            assert!(cause.text.contains(name));
        }
        let ending = died("SIGKILL");
        let case =
            Case { ending: Some(&ending), out_of_memory: Some("limit 1 MiB".into()), ..Case::default() };
        check(&case, "signal_out_of_memory", Verdict::Crashed, CrashType::OutOfMemory);
    }

    #[test]
    fn a_code_of_128_and_more_is_a_guess_unless_the_log_says_it() {
        let ending = Ending::Exited { code: 139 };
        let case = Case { ending: Some(&ending), ..Case::default() };
        let ruling = check(&case, "code_shell_signal", Verdict::Failed, CrashType::SegmentationFault);
        assert_eq!(ruling.cause.expect("there is a cause").known_from, KnownFrom::ShellConvention);
        let crashes = [seen(Indicator::Died("SIGSEGV"), "Segmentation fault")];
        let case = Case { ending: Some(&ending), crashes: &crashes, ..Case::default() };
        check(&case, "code_death", Verdict::Crashed, CrashType::SegmentationFault);
        // SIGBUS on a Mac and SIGUSR1 on Linux have the same number: no guess is made.
        let ending = Ending::Exited { code: 138 };
        let case = Case { ending: Some(&ending), ..Case::default() };
        check(&case, "code_unexplained", Verdict::Failed, CrashType::Unknown);
    }

    #[test]
    fn other_codes_are_failures_of_what_the_log_names() {
        let one = Case { ending: Some(&ONE), ..Case::default() };
        check(&one, "code_unexplained", Verdict::Failed, CrashType::Unknown);
        let case = Case { out_of_memory: Some("peak".into()), ..one.clone() };
        check(&case, "code_out_of_memory", Verdict::Crashed, CrashType::OutOfMemory);
        let case = Case { tests_failed: 2, test_errors: true, ..one.clone() };
        check(&case, "code_tests_failed", Verdict::Failed, CrashType::TestFailure);
        let case = Case { build_errors: true, first_error: Some("a.c:1: error".into()), ..one.clone() };
        check(&case, "code_error", Verdict::Failed, CrashType::BuildFailure);
        let case = Case { infrastructure: true, first_error: Some("no space".into()), ..one.clone() };
        check(&case, "code_infrastructure", Verdict::Failed, CrashType::Unknown);
        let failure = seen("xcodebuild", "** BUILD FAILED **");
        let case = Case { failure: Some(&failure), ..one.clone() };
        check(&case, "code_failure_marker", Verdict::Failed, CrashType::Unknown);
        let success = seen("xcodebuild", "** BUILD SUCCEEDED **");
        let case = Case { success: Some(&success), success_is_last: true, ..one };
        let ruling = check(&case, "code_unexplained", Verdict::Failed, CrashType::Unknown);
        assert!(ruling.cause.expect("there is a cause").text.contains("exit code says otherwise"));
    }

    #[test]
    fn a_panic_inside_tests_is_a_failed_test() {
        let crashes = [seen(Indicator::Panic, "thread 'a' panicked at src/lib.rs:1:1:")];
        let ending = Ending::Exited { code: 101 };
        let case = Case { ending: Some(&ending), crashes: &crashes, tests_failed: 1, ..Case::default() };
        let in_tests = Case { panics_are_tests: true, ..case.clone() };
        check(&in_tests, "code_tests_failed", Verdict::Failed, CrashType::TestFailure);
        check(&case, "code_death", Verdict::Crashed, CrashType::Unknown);
    }

    #[test]
    fn zero_passes_only_with_nothing_against_it() {
        let zero = Case { ending: Some(&ZERO), ..Case::default() };
        check(&zero, "zero", Verdict::Passed, CrashType::None);
        let case = Case { tests_failed: 1, report: Some("r.xml"), ..zero.clone() };
        check(&case, "zero_report_failed", Verdict::Failed, CrashType::TestFailure);
        let success = seen("xcodebuild", "** TEST SUCCEEDED **");
        let good = Case { success: Some(&success), success_is_last: true, ..zero.clone() };
        check(&good, "zero", Verdict::Passed, CrashType::None);
        let crashes = [seen(Indicator::RestartedAfterCrash, "Restarting after unexpected exit")];
        let case = Case { crashes: &crashes, xcodebuild: true, ..good.clone() };
        check(&case, "zero_runner_crash", Verdict::Crashed, CrashType::SimulatorCrash);
        let report = CrashReport { signal: Some("SIGTRAP".into()), ..CrashReport::default() };
        let crashes = [seen(Indicator::FatalError, "Fatal error: no")];
        let case = Case { crashes: &crashes, crash_report: Some(&report), ..good.clone() };
        check(&case, "zero_crash_report", Verdict::Crashed, CrashType::Trap);
        let case = Case { unfinished: 3, ..good.clone() };
        check(&case, "zero_unfinished", Verdict::Inconclusive, CrashType::Unknown);
        let case = Case { collapsed: Some((2557, 6664)), ..good.clone() };
        check(&case, "zero_collapsed", Verdict::Inconclusive, CrashType::Unknown);
        let failure = seen("xcodebuild", "** TEST FAILED **");
        let case = Case { failure: Some(&failure), ..zero.clone() };
        check(&case, "zero_failure_marker", Verdict::Inconclusive, CrashType::Unknown);
        let case = Case { failure: Some(&failure), ..good.clone() };
        check(&case, "zero", Verdict::Passed, CrashType::None);
        let case = Case { tests_failed: 1, ..zero.clone() };
        check(&case, "zero_tests_failed", Verdict::Inconclusive, CrashType::TestFailure);
        let case = Case { crashes: &crashes, ..zero };
        check(&case, "zero_death_marker", Verdict::Inconclusive, CrashType::Unknown);
        // A test's own output may speak of deaths; the tool's last word stands.
        let case = Case { crashes: &crashes, ..good };
        check(&case, "zero", Verdict::Passed, CrashType::None);
    }

    #[test]
    fn a_log_alone_passes_on_a_last_word_only() {
        let log = Case::default();
        check(&log, "log_nothing", Verdict::Inconclusive, CrashType::Unknown);
        let success = seen("maven", "BUILD SUCCESS");
        let good = Case { success: Some(&success), success_is_last: true, ..log.clone() };
        let ruling = check(&good, "log_success_marker", Verdict::Passed, CrashType::None);
        assert_eq!(ruling.cause.expect("there is a cause").known_from, KnownFrom::Marker);
        let case = Case { build_errors: true, ..good.clone() };
        check(&case, "log_contradiction", Verdict::Inconclusive, CrashType::BuildFailure);
        let case = Case { unfinished: 1, ..good.clone() };
        check(&case, "log_unfinished", Verdict::Inconclusive, CrashType::Unknown);
        let case = Case { tests_failed: 1, ..log.clone() };
        check(&case, "log_tests_failed", Verdict::Failed, CrashType::TestFailure);
        let failure = seen("maven", "BUILD FAILURE");
        let case = Case { failure: Some(&failure), ..log.clone() };
        check(&case, "log_failure_marker", Verdict::Failed, CrashType::Unknown);
        let crashes = [seen(Indicator::Sanitizer, "ERROR: AddressSanitizer")];
        let case = Case { crashes: &crashes, ..log.clone() };
        check(&case, "log_death", Verdict::Crashed, CrashType::Unknown);
        let case = Case { test_errors: true, first_error: Some("x".into()), ..log.clone() };
        check(&case, "log_errors", Verdict::Failed, CrashType::TestFailure);
        let case = Case { first_error: Some("x".into()), ..log };
        check(&case, "log_errors_weak", Verdict::Inconclusive, CrashType::Unknown);
    }

    #[test]
    fn every_row_of_the_documented_table_is_tested_here() {
        let tests = include_str!("verdict.rs");
        let tests = tests.split_once("mod tests").expect("this module").1;
        for row in name_every_row() {
            let is_rule = ["acted_", "code_", "zero", "log_", "no_", "not_", "signal", "unobserved"];
            if is_rule.iter().any(|start| row.starts_with(start)) {
                assert!(tests.contains(&format!("\"{row}\"")), "{row} has no test");
            }
        }
    }
}
