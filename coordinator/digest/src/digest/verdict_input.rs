//! Collects the input of the verdict from the values of the stages before it.

use super::classified::Classified;
use crate::attempt_facts::Facts;
use crate::command::Command;
use crate::findings::{Findings, RawFinding};
use crate::load_failures;
use crate::markers::{MarkerLine, Markers};
use crate::ranking::{RankedFinding, Ranking};
use crate::reports;
use crate::rules::{Indicator, Kind, Role};
use crate::standing_error::standing_error;
use crate::tally::Tally;
use crate::tool::ToolId;
use crate::verdict::{Doubt, ErrorEvidence, FirstFinding, LogResult, ReportProblem, TestEvidence, TestRun};
use buildpool_protocol::report::{KnownFrom, Severity, TestCounts};

/// Returns the result of the run by the markers in the log.
pub(super) fn log_result<'a>(
    markers: &'a Markers,
    crashes: &[MarkerLine<Indicator>],
    facts: &Facts,
) -> LogResult<'a> {
    let standing = markers.standing_failure(facts.ending.is_some());
    let failure = standing.or(markers.runs.last());
    match (&markers.success, failure) {
        (None, None) => LogResult::Silent,
        (None, Some(failure)) => LogResult::Failed(failure),
        (Some(success), _) if standing.is_none() && crashes.iter().all(|seen| success.order > seen.last) => {
            let line = markers.contradiction().map(Doubt::Line);
            let doubt = line.or_else(|| markers.runs.unended().map(Doubt::Unended));
            LogResult::Succeeded { success, before: failure, doubt }
        }
        (Some(success), failure) => LogResult::Contradicts { success, failure },
    }
}

/// Returns the evidence about tests, from report files or the log.
pub(super) fn test_evidence(
    classified: &Classified,
    tally: &Tally,
    markers: &Markers,
    without_total: Option<&str>,
    command: &Command,
    is_test_job: bool,
    facts: &Facts,
) -> TestEvidence {
    let (counts, report) = reports::believed_tests(tally, facts);
    // A report already excludes files that could not be loaded.
    let files = if report.is_none() { classified.load_failures } else { 0 };
    let counts = counts.and_then(|counts| load_failures::without(counts, files));
    let selects = command.selects_tests() || is_test_job && command.names_files();
    let has_no_tests = counts.as_ref().is_none_or(|counts| counts.total == 0);
    let missed = ToolId::all().filter(|tool| has_no_tests && tally.has_parts_without_tests(*tool));
    let unfinished = reports::unfinished(tally, facts);
    let running = || tally.latest_running().map(str::to_owned).or_else(|| reports::first_unfinished(facts));
    let running = if unfinished > 0 { running() } else { None };
    TestEvidence {
        run: match (is_test_job || command.runs_tests(), selects) {
            (false, _) => TestRun::No,
            (true, false) => TestRun::Tests,
            (true, true) => TestRun::SelectedTests,
        },
        collapsed: collapsed(counts.as_ref(), facts),
        counts,
        failures_are_past: tally.failures_are_past(),
        report,
        unfinished,
        running: running.or_else(|| hung_test(&classified.findings, facts)),
        missed: { missed }.find_map(|tool| (tool.optional_selection)(command)).map(str::to_owned),
        without_total: without_total.map(str::to_owned),
        none: reports::no_tests(tally, facts, markers),
        fails_without: markers.fails_without_tests,
        only_in_test_runs: !command.only_reads()
            && tally
                .counting_tools()
                .any(|tool| !tool.counts_in_builds && !command.names_any(tool.runs_no_tests)),
        panics_are_tests: reports::panics_are_tests(tally, facts),
    }
}

/// Returns the number of tests now and before, if there are far fewer than in the last good run:
/// less than half, and at least ten fewer.
fn collapsed(tests: Option<&TestCounts>, facts: &Facts) -> Option<(u64, u64)> {
    let before = facts.history.last_good_tests?;
    let now = tests.map_or(0, |tests| tests.total);
    (now.saturating_mul(2) < before && before - now >= 10).then_some((now, before))
}

/// Returns the evidence about errors other than failed tests.
pub(super) fn error_evidence<'a>(
    ranking: &Ranking,
    tests: &TestEvidence,
    markers: &Markers,
    facts: &'a Facts,
    command: &Command,
    ends: (u64, u64),
) -> ErrorEvidence<'a> {
    let errors = || {
        let errors = ranking.findings.errors.iter();
        errors.filter(|found| !found.remark && found.severity <= Severity::Error)
    };
    let is_test_failure = |found: &RawFinding| {
        found.kind == Kind::Test
            && (found.role != Role::Mark || tests.run != TestRun::No || tests.counts.is_some())
    };
    let is_problem = |ranked: &&RankedFinding| {
        ranked.found.role == Role::ReportIssue && ranked.found.severity <= Severity::Error
    };
    let problem = |ranked: &RankedFinding| ReportProblem {
        line: ranked.headline(),
        is_infrastructure: ranked.found.kind == Kind::Infrastructure,
    };
    let standing = || standing_error(ranking, markers, command, ends);
    ErrorEvidence {
        first: ranking.ranked.first().map_or(FirstFinding::None, first_finding),
        build: errors().any(|found| found.kind == Kind::Build && !found.probe),
        test: errors().any(is_test_failure),
        standing: facts.exited_zero().then(standing).flatten(),
        report_problem: ranking.ranked.iter().find(is_problem).map(problem),
        unread: reports::unread(facts),
    }
}

fn first_finding(first: &RankedFinding) -> FirstFinding {
    let found = &first.found;
    if found.severity <= Severity::Error && !found.remark {
        FirstFinding::Error {
            line: first.headline(),
            source: if found.report.is_some() { KnownFrom::Report } else { KnownFrom::Marker },
            is_infrastructure: found.kind == Kind::Infrastructure,
        }
    } else if found.remark || found.kind == Kind::Lint {
        FirstFinding::Remark(first.headline())
    } else if found.severity == Severity::Warning {
        FirstFinding::Warning(first.headline())
    } else {
        FirstFinding::None
    }
}

/// The test in a stack that a process printed because the pool asked for it.
fn hung_test(findings: &Findings, facts: &Facts) -> Option<String> {
    facts.acted.as_ref()?;
    let mut stacks = findings.errors.iter().filter(|found| found.role == Role::Stacks);
    stacks.find_map(|found| found.test.clone())
}
