//! Rulings for commands that exited by themselves.

use super::death::{death, is_death};
use super::{
    Decision, FailedTests, FirstFinding, LogResult, NO_TEST_RAN, TestRun, VerdictInput, VerdictRow, decision,
    doing, failed_tests, failure_type, memory, tests, unfinished,
};
use crate::rules::Indicator;
use crate::tool::Stage;
use buildpool_protocol::outcome::CrashType;
use buildpool_protocol::report::{KnownFrom, Verdict};

pub(super) fn exited_zero(case: &VerdictInput<'_>) -> Decision {
    let contradiction = |rule, text: String| {
        decision(rule, Verdict::Inconclusive, CrashType::Unknown, KnownFrom::Marker, text)
    };
    if let (true, Some(report)) = (case.tests.has_failed(), &case.tests.report) {
        return decision(
            VerdictRow::ZeroReportFailed,
            Verdict::Failed,
            CrashType::TestFailure,
            KnownFrom::Report,
            format!("The command exited 0, but {report} counts {} as failed.", failed_tests(case)),
        );
    }
    if let Some(decision) = death(case, VerdictRow::ZeroRunnerCrash, true) {
        return decision;
    }
    if case.crash_report.is_some()
        && let Some(decision) = death(case, VerdictRow::ZeroCrashReport, false)
    {
        return decision;
    }
    if case.tests.unfinished > 0 {
        return contradiction(
            VerdictRow::ZeroUnfinished,
            format!("The command exited 0, but {}: the run was cut short.", unfinished(case)),
        );
    }
    if let Some(line) = &case.tests.without_total {
        let text = format!(
            "The command exited 0, but no total follows the test results `{line}`: the run was cut short{}.",
            pipe(case)
        );
        return contradiction(VerdictRow::ZeroWithoutTotal, text);
    }
    if let (Some(action), None) = (&case.action_left, case.log.failure()) {
        return contradiction(
            VerdictRow::ZeroActionLeft,
            format!("The command exited 0, but the log has no result of `{action}`: it is not complete."),
        );
    }
    if let (Some(tool), None) = (case.cut_short, case.log.failure()) {
        return contradiction(
            VerdictRow::ZeroCutShort,
            format!(
                "The command exited 0, but {tool} began its work and did not print the end: it is not complete."
            ),
        );
    }
    if let (Some(runner), None, LogResult::Silent, None) =
        (case.unreported, &case.tests.counts, case.log, case.tests.none())
    {
        return contradiction(
            VerdictRow::ZeroUnreported,
            format!(
                "The command exited 0, but the exit code of {runner} is not known, and the log has no result of it{}.",
                pipe(case)
            ),
        );
    }
    if let Some(problem) = &case.errors.report_problem {
        // A failure of the machine is not a failure of the command, so the result is unknown.
        let (verdict, crash_type) = match problem.is_infrastructure {
            true => (Verdict::Inconclusive, CrashType::Unknown),
            false => (Verdict::Failed, failure_type(case)),
        };
        let text = format!("The command exited 0, but a report names a problem: {}", problem.line);
        return decision(VerdictRow::ZeroReportProblem, verdict, crash_type, KnownFrom::Report, text);
    }
    if let Some((now, before)) = case.tests.collapsed {
        return contradiction(
            VerdictRow::ZeroCollapsed,
            format!(
                "The command exited 0, but only {} ran where the last good run had {before}.",
                tests(now)
            ),
        );
    }
    if let Some(asked) = &case.tests.missed {
        return contradiction(
            VerdictRow::ZeroTestsMissed,
            format!("The command exited 0, but no tests ran, and it asks for some: `{asked}`."),
        );
    }
    if let (true, Some((source, known_from))) =
        (case.tests.run != TestRun::No || case.tests.fails_without || says_tested(case), case.tests.none())
    {
        let text = format!("The command exited 0, but no tests ran, by {source}.");
        return decision(
            VerdictRow::ZeroNoTests,
            Verdict::Inconclusive,
            CrashType::Unknown,
            known_from,
            text,
        );
    }
    if let (true, Some(count)) = (case.tests.run == TestRun::SelectedTests, case.tests.all_skipped()) {
        return contradiction(
            VerdictRow::ZeroNoneSelected,
            format!(
                "The command exited 0, but no test ran: it selects tests by name, and {} skipped.",
                match count {
                    1 => "the only test is".to_owned(),
                    count => format!("all {count} tests are"),
                }
            ),
        );
    }
    if let Some(failure) = case.log.standing_failure() {
        let mut decision = contradiction(
            VerdictRow::ZeroFailureMarker,
            format!(
                "The command exited 0, but {} reported a failure: {}{}",
                failure.what,
                failure.line.trim(),
                pipe(case)
            ),
        );
        decision.crash_type = failure_type(case);
        decision.line = Some(failure.line.clone());
        return decision;
    }
    if let FailedTests::Standing(count) = case.tests.failed() {
        let mut decision = contradiction(
            VerdictRow::ZeroTestsFailed,
            format!("The command exited 0, but its output counts {} as failed{}.", tests(count), pipe(case)),
        );
        decision.crash_type = CrashType::TestFailure;
        return decision;
    }
    // The remaining words of a crash, and the signs of a dead test host, are not taken back by a later success. Other signs count
    // only if the run did not end with success.
    let stands = |what: Indicator| what.is_word() || !case.log.is_success() || what == Indicator::Sanitizer;
    let is_death = |what: Indicator| {
        what.is_of_test_host() || is_death(what, case.tests.panics_are_tests) && stands(what)
    };
    if let Some(seen) = case.crashes.iter().find(|seen| is_death(seen.what)) {
        let mut decision = contradiction(
            VerdictRow::ZeroDeathMarker,
            format!("The command exited 0, but its output reports a crash: {}", seen.line.trim()),
        );
        decision.line = Some(seen.line.clone());
        return decision;
    }
    if let Some(error) = &case.errors.standing {
        let mut decision = contradiction(
            VerdictRow::ZeroStandingError,
            format!(
                "The command exited 0, but its output has an error that nothing took back: {error}{}",
                pipe(case)
            ),
        );
        decision.crash_type = failure_type(case);
        return decision;
    }
    if let (Some(end), LogResult::Silent) = (&case.bad_end, case.log) {
        let text = format!("The command exited 0, but the log ends {end}{}", pipe(case));
        return contradiction(VerdictRow::ZeroBadEnd, text);
    }
    if let (Some(memory), false) = (case.out_of_memory(), case.log.is_success()) {
        let text = format!(
            "The command exited 0, but the kernel ended a process of the job for its memory: {memory}."
        );
        let (inconclusive, killed) = (Verdict::Inconclusive, CrashType::OutOfMemory);
        return decision(VerdictRow::ZeroOutOfMemory, inconclusive, killed, KnownFrom::WaitStatus, text);
    }
    if let Some(unread) = case.errors.unread {
        let text = format!("The command exited 0, but not all evidence could be read: {unread}");
        let (inconclusive, unknown) = (Verdict::Inconclusive, CrashType::Unknown);
        return decision(VerdictRow::ZeroReportUnread, inconclusive, unknown, KnownFrom::Report, text);
    }
    if let FailedTests::Past(count) = case.tests.failed() {
        return decision(
            VerdictRow::ZeroFailedBefore,
            Verdict::Passed,
            CrashType::None,
            KnownFrom::Marker,
            format!(
                "The command exited 0, and the last total counts no failed test; an earlier one counted {}.",
                tests(count)
            ),
        );
    }
    Decision {
        verdict: Verdict::Passed,
        crash_type: CrashType::None,
        cause: None,
        rule: VerdictRow::Zero,
        line: case.log.success().map(|seen| seen.line.clone()),
    }
}

/// Returns true if a test action ran: a tool reported the success of its tests, or a total that a build never prints.
pub(super) fn says_tested(case: &VerdictInput<'_>) -> bool {
    case.log.success().is_some_and(|seen| (seen.what.stage)(&seen.line) == Stage::Tests)
        || case.tests.none().is_some() && case.tests.only_in_test_runs
}

/// Advice for the end of a sentence if a pipe can hide the exit code.
fn pipe(case: &VerdictInput<'_>) -> &'static str {
    if case.has_pipe {
        " (the exit code is that of the last program in the pipe: put `set -o pipefail` before it)"
    } else {
        ""
    }
}

pub(super) fn exited(code: i32, case: &VerdictInput<'_>) -> Decision {
    if let Some(memory) = case.out_of_memory() {
        return decision(
            VerdictRow::CodeOutOfMemory,
            Verdict::Crashed,
            CrashType::OutOfMemory,
            KnownFrom::WaitStatus,
            format!("A process of the job was ended by the kernel for its memory: {memory}."),
        );
    }
    if let Some(decision) = memory::of_code(code, case) {
        return decision;
    }
    if let Some(mut decision) = death(case, VerdictRow::CodeDeath, false) {
        if decision.crash_type == CrashType::Unknown
            && let Some(signal) = crate::exit_codes::shell_signal(code)
        {
            decision.crash_type = CrashType::of_signal(signal);
        }
        return decision;
    }
    if let Some(signal) = crate::exit_codes::shell_signal(code)
        && !case.tests.has_failed()
        && !case.errors.build
        && !case.errors.test
    {
        return decision(
            VerdictRow::CodeShellSignal,
            Verdict::Failed,
            CrashType::of_signal(signal),
            KnownFrom::ShellConvention,
            format!(
                "Exit code {code} usually means that a program was killed by {signal} (128 + {}){}.",
                code - 128,
                doing(case)
            ),
        );
    }
    let kind = failure_type(case);
    if let Some(decision) = none_selected(code, case) {
        return decision;
    }
    if case.tests.has_failed() {
        let (known_from, source) = match &case.tests.report {
            Some(report) => (KnownFrom::Report, format!(" ({report})")),
            None => (KnownFrom::Marker, String::new()),
        };
        let text = format!("{} failed{source}; exit code {code}{}.", failed_tests(case), cut_off(code, case));
        return decision(
            VerdictRow::CodeTestsFailed,
            Verdict::Failed,
            CrashType::TestFailure,
            known_from,
            text,
        );
    }
    let mut decision = match (&case.errors.first, case.log.failure()) {
        // The runner's own error states the reason, such as a missing file of tests.
        (FirstFinding::Error { line, source, is_infrastructure: false }, _)
            if case.tests.none().is_some() && !case.errors.build =>
        {
            let text = format!("{NO_TEST_RAN} (exit code {code}): {line}");
            decision(VerdictRow::CodeNoTests, Verdict::Failed, kind, *source, text)
        }
        (FirstFinding::Error { line, source, is_infrastructure }, _) => {
            let row = if *is_infrastructure { VerdictRow::CodeInfrastructure } else { VerdictRow::CodeError };
            decision(row, Verdict::Failed, kind, *source, format!("Exit code {code}: {line}"))
        }
        (_, Some(failure)) => decision(
            VerdictRow::CodeFailureMarker,
            Verdict::Failed,
            kind,
            KnownFrom::Marker,
            format!("Exit code {code}; {} reported: {}", failure.what, failure.line.trim()),
        ),
        (_, None) => without_errors(code, kind, case),
    };
    if let LogResult::Succeeded { success, .. } = case.log
        && let Some(cause) = &mut decision.cause
    {
        cause.text.push_str(&format!(
            " (The last result of {} was success, `{}`, and the exit code contradicts it.)",
            success.what,
            success.line.trim()
        ));
    }
    decision
}

/// Ruling for a command that selects tests by name, where no test has the name. Some runners exit 0
/// in this case and others do not, so the verdict is the same for both.
fn none_selected(code: i32, case: &VerdictInput<'_>) -> Option<Decision> {
    let has_errors = case.errors.build || case.errors.is_infrastructure() || case.tests.has_failed();
    let (source, known_from) =
        case.tests.none().filter(|_| case.tests.run == TestRun::SelectedTests && !has_errors)?;
    let text = format!(
        "No test matched: no test ran (exit code {code}), by {source}, and the command selects tests by name or file."
    );
    let (inconclusive, unknown) = (Verdict::Inconclusive, CrashType::Unknown);
    Some(decision(VerdictRow::CodeNoneSelected, inconclusive, unknown, known_from, text))
}

/// Ruling for a failed command without an error or a failure marker in its output.
fn without_errors(code: i32, kind: CrashType, case: &VerdictInput<'_>) -> Decision {
    if let Some((source, known_from)) = case.tests.none() {
        let text = match source.strip_suffix(" output") {
            Some(tool) => format!("{tool} ran no tests (exit code {code})."),
            None => format!("No tests ran (exit code {code}), as {source} shows."),
        };
        return decision(VerdictRow::CodeNoTests, Verdict::Failed, kind, known_from, text);
    }
    if let FirstFinding::Remark(remark) = &case.errors.first {
        let text = format!("Exit code {code}, after a linter's remarks: {remark}");
        return decision(VerdictRow::CodeRemarks, Verdict::Failed, kind, KnownFrom::Marker, text);
    }
    if let FirstFinding::Warning(warning) = &case.errors.first {
        let last = case.last_line.filter(|line| !warning.contains(*line) && !line.contains(warning.as_str()));
        let last = last.map_or(String::new(), |line| format!("; the last line is: {line}"));
        let text = format!(
            "Exit code {code}, with no error in the output{last}; the first of its warnings: {warning}"
        );
        return decision(VerdictRow::CodeWarnings, Verdict::Failed, kind, KnownFrom::Marker, text);
    }
    let meaning = case.meaning_of(code);
    let said = match case.last_line {
        None => " The command printed nothing.".to_owned(),
        Some(line) => format!(" No known error message was found. The last line is: {line}"),
    };
    let text = format!("The command exited with code {code}{}{meaning}.{said}", doing(case));
    // An answer always shows a guess.
    let is_guess = code == crate::exit_codes::TIMEOUT_CODE;
    let known_from = if is_guess { KnownFrom::ShellConvention } else { KnownFrom::WaitStatus };
    decision(VerdictRow::CodeUnexplained, Verdict::Failed, kind, known_from, text)
}

/// Phrase that names the running test if the exit code stands for a signal.
fn cut_off(code: i32, case: &VerdictInput<'_>) -> String {
    match crate::exit_codes::shell_signal(code) {
        Some(signal) if case.tests.running.is_some() => {
            format!(", as a shell gives it for a death of {signal}{}: a guess", doing(case))
        }
        _ => String::new(),
    }
}
