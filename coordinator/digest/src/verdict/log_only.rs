//! Ruling for a log without an exit code or a signal.

use super::death::death;
use super::exited::says_tested;
use super::{
    Decision, Doubt, LogResult, VerdictInput, VerdictRow, decision, failed_tests, failure_type, unfinished,
};
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
        if case.errors.build || case.errors.test || case.errors.report_problem.is_some() {
            return decision(
                VerdictRow::LogContradiction,
                Verdict::Inconclusive,
                kind,
                KnownFrom::Marker,
                format!(
                    "{} reported success (`{}`), but {} has errors{}; no exit code was given.",
                    success.what,
                    success.line.trim(),
                    if case.errors.report_problem.is_some() { "a report" } else { "the log" },
                    case.errors.first_error().map_or(String::new(), |error| format!(": {error}"))
                ),
            );
        }
        if let Some(Doubt::Line(line)) = doubt {
            let text = format!(
                "{} reported success (`{}`), but an earlier step failed: {}; no exit code was given.",
                success.what,
                success.line.trim(),
                line.trim()
            );
            let (inconclusive, marker) = (Verdict::Inconclusive, KnownFrom::Marker);
            return decision(VerdictRow::LogContradiction, inconclusive, kind, marker, text);
        }
        if let Some(Doubt::Unended(driver)) = doubt {
            let text = format!(
                "{} reported success (`{}`), but {driver}, which ran it, reported no result; no exit code was given.",
                success.what,
                success.line.trim()
            );
            let (inconclusive, marker) = (Verdict::Inconclusive, KnownFrom::Marker);
            return decision(VerdictRow::LogUnended, inconclusive, CrashType::Unknown, marker, text);
        }
        if let Some(line) = &case.tests.without_total {
            let text = format!(
                "{} reported success (`{}`), but no total follows the test results `{line}`.",
                success.what,
                success.line.trim()
            );
            let (inconclusive, marker) = (Verdict::Inconclusive, KnownFrom::Marker);
            return decision(VerdictRow::LogWithoutTotal, inconclusive, CrashType::Unknown, marker, text);
        }
        if let (true, Some((source, _))) = (says_tested(case), case.tests.none()) {
            let text = format!(
                "{} reported success (`{}`), but no tests ran, by {source}.",
                success.what,
                success.line.trim()
            );
            let (inconclusive, marker) = (Verdict::Inconclusive, KnownFrom::Marker);
            return decision(VerdictRow::LogNoTests, inconclusive, CrashType::Unknown, marker, text);
        }
        if let Some(action) = &case.action_left {
            let text = format!(
                "{} reported success (`{}`), but the log has no result of `{action}`.",
                success.what,
                success.line.trim()
            );
            let (inconclusive, marker) = (Verdict::Inconclusive, KnownFrom::Marker);
            return decision(VerdictRow::LogActionLeft, inconclusive, CrashType::Unknown, marker, text);
        }
        if let Some(unread) = case.errors.unread {
            let text = format!("{} reported success, but a report could not be read: {unread}", success.what);
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
