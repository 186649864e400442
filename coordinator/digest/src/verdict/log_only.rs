//! Ruling for a log without an exit code or a signal.

use super::death::death;
use super::exited::says_tested;
use super::{
    Decision, Doubt, FirstFinding, LogResult, VerdictInput, VerdictRow, decision, failed_tests, failure_type,
    unfinished,
};
use crate::markers::MarkerLine;
use crate::tool::ToolId;
use buildpool_protocol::outcome::CrashType;
use buildpool_protocol::report::{KnownFrom, Verdict};

pub(super) fn log_only(case: &VerdictInput<'_>) -> Decision {
    if let Some(decision) = death(case, VerdictRow::LogDeath, true) {
        return decision;
    }
    if (!case.log.is_success() || case.crash_report.is_some())
        && let Some(decision) = death(case, VerdictRow::LogDeath, false)
    {
        return decision;
    }
    let kind = failure_type(case);
    let is_cleared = case.tests.failures_are_past && case.log.is_success() && case.tests.report.is_none();
    if case.tests.has_failed() && !is_cleared {
        let known_from = if case.tests.report.is_some() { KnownFrom::Report } else { KnownFrom::Marker };
        return decision(
            VerdictRow::LogTestsFailed,
            Verdict::Failed,
            CrashType::TestFailure,
            known_from,
            format!("{} failed.", failed_tests(case)),
        );
    }
    if let Some(failure) = case.log.standing_failure() {
        let mut decision = decision(
            VerdictRow::LogFailureMarker,
            Verdict::Failed,
            kind,
            KnownFrom::Marker,
            format!("{} reported a failure: {}", failure.what, failure.line.trim()),
        );
        decision.line = Some(failure.line.clone());
        return decision;
    }
    // Errors give a more precise cause.
    if case.tests.unfinished > 0 && !case.errors.build && !case.errors.test {
        return decision(
            VerdictRow::LogUnfinished,
            Verdict::Inconclusive,
            CrashType::Unknown,
            KnownFrom::Marker,
            format!("{}; the log has no exit code.", unfinished(case)),
        );
    }
    if let LogResult::Succeeded { success, doubt, .. } = case.log {
        if let Some((row, crash_type, reason)) = against_success(case, success, doubt.as_ref()) {
            let said = success.line.trim();
            let text = format!("{} reported success (`{said}`), but {reason}", success.what);
            return decision(row, Verdict::Inconclusive, crash_type, KnownFrom::Marker, text);
        }
        if let Some(unread) = case.errors.unread {
            let text =
                format!("{} reported success, but not all evidence could be read: {unread}", success.what);
            let (inconclusive, unknown) = (Verdict::Inconclusive, CrashType::Unknown);
            return decision(VerdictRow::LogReportUnread, inconclusive, unknown, KnownFrom::Report, text);
        }
        let mut decision = decision(
            VerdictRow::LogSuccessMarker,
            Verdict::Passed,
            CrashType::None,
            KnownFrom::Marker,
            format!("{} reported success: {}", success.what, success.line.trim()),
        );
        decision.line = Some(success.line.clone());
        return decision;
    }
    match case.errors.first_error() {
        Some(error) if case.errors.build || case.errors.test => {
            decision(VerdictRow::LogErrors, Verdict::Failed, kind, KnownFrom::Marker, error)
        }
        Some(error) => decision(
            VerdictRow::LogErrorsWeak,
            Verdict::Inconclusive,
            CrashType::Unknown,
            KnownFrom::Marker,
            format!(
                "The log has errors, no exit code was given, and no known tool reported a result: {error}"
            ),
        ),
        None => decision(
            VerdictRow::LogNothing,
            Verdict::Inconclusive,
            CrashType::Unknown,
            KnownFrom::Marker,
            "No exit code was given, and no known tool reported a result.",
        ),
    }
}

/// Reason in the log against a tool's success: the row, the type of the failure, and the rest of the sentence.
fn against_success(
    case: &VerdictInput<'_>,
    success: &MarkerLine<ToolId>,
    doubt: Option<&Doubt<'_>>,
) -> Option<(VerdictRow, CrashType, String)> {
    let unknown = CrashType::Unknown;
    let contradiction = |reason: String| {
        let text = format!("{reason}; no exit code was given.");
        Some((VerdictRow::LogContradiction, failure_type(case), text))
    };
    if case.errors.build || case.errors.test || case.errors.report_problem.is_some() {
        let place = if case.errors.report_problem.is_some() { "a report" } else { "the log" };
        let error = case.errors.first_error().map_or(String::new(), |error| format!(": {error}"));
        return contradiction(format!("{place} has errors{error}"));
    }
    if let (true, FirstFinding::Error { line, .. } | FirstFinding::Remark(line)) =
        (success.what.only_installs, &case.errors.first)
    {
        return contradiction(format!("it only installs packages, and the log has errors: {line}"));
    }
    if let Some(Doubt::Line(line)) = doubt {
        return contradiction(format!("an earlier step failed: {}", line.trim()));
    }
    Some(if let Some(Doubt::Unended(driver)) = doubt {
        let text = format!("{driver}, which ran it, reported no result; no exit code was given.");
        (VerdictRow::LogUnended, unknown, text)
    } else if let Some(line) = &case.tests.without_total {
        (VerdictRow::LogWithoutTotal, unknown, format!("no total follows the test results `{line}`."))
    } else if let (true, Some((source, _))) =
        (says_tested(case) || case.tests.fails_without, case.tests.none())
    {
        (VerdictRow::LogNoTests, unknown, format!("no tests ran, by {source}."))
    } else {
        let action = case.action_left.as_ref()?;
        (VerdictRow::LogActionLeft, unknown, format!("the log has no result of `{action}`."))
    })
}
