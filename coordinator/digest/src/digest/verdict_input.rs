//! Collects the input of the verdict from all facts about an attempt.

use crate::attempt_facts::Facts;
use crate::findings::{Findings, RawFinding};
use crate::markers::{MarkerLine, Markers};
use crate::ranking::Ranked;
use crate::reports;
use crate::rules::{Indicator, Kind, Role};
use crate::tally::Tally;
use crate::tool::ToolId;
use crate::verdict::VerdictInput;
use buildpool_protocol::outcome::Ending;
use buildpool_protocol::report::{KnownFrom, Severity, TestCounts};

/// The rule for a line that begins with a mark. Programs other than test runners print such lines too.
const MARK: &str = "generic.bullet";

/// Owner of the data that a [`VerdictInput`] borrows.
pub(super) struct OwnedCase {
    pub(super) out_of_memory: Option<String>,
    success_is_last: bool,
    contradiction: Option<String>,
    pub(super) crashes: Vec<MarkerLine<Indicator>>,
    failures_are_past: bool,
    tests_failed: u64,
    report: Option<String>,
    unfinished: u64,
    running_test: Option<String>,
    pub(super) collapsed: Option<(u64, u64)>,
    tests_missed: Option<String>,
    first_error: Option<String>,
    standing_error: Option<String>,
    has_pipe: bool,
    without_total: Option<String>,
    action_left: Option<&'static str>,
    first_remark: Option<String>,
    first_warning: Option<String>,
    last_line: Option<String>,
    error_in_report: bool,
    pub(super) no_tests: Option<(String, KnownFrom)>,
    is_test_run: bool,
    selects_tests: bool,
    all_skipped: Option<u64>,
    report_problem: Option<(String, bool)>,
    build_errors: bool,
    test_errors: bool,
    infrastructure: bool,
    panics_are_tests: bool,
    xcodebuild: bool,
}

pub(super) struct CaseParts<'a> {
    pub(super) facts: &'a Facts,
    pub(super) tally: &'a Tally,
    pub(super) findings: &'a Findings,
    pub(super) ranked: &'a [Ranked],
    pub(super) markers: &'a Markers,
    pub(super) tests: Option<&'a TestCounts>,
    pub(super) report: Option<&'a str>,
    pub(super) unfinished: u64,
    pub(super) running_test: Option<String>,
    pub(super) standing_error: Option<String>,
    pub(super) has_pipe: bool,
    pub(super) without_total: Option<&'a str>,
    pub(super) action_left: Option<&'static str>,
    pub(super) collapsed: Option<(u64, u64)>,
    pub(super) tests_missed: Option<String>,
    pub(super) failures_are_past: bool,
    pub(super) last_line: Option<String>,
    pub(super) is_test_run: bool,
    pub(super) selects_tests: bool,
}

/// Returns the failure marker that no success cancels, otherwise the last one.
pub(super) fn failure_of<'s>(markers: &'s Markers, facts: &Facts) -> Option<&'s MarkerLine<ToolId>> {
    markers.standing_failure(facts.ending.is_some()).or(markers.runs.last())
}

pub(super) fn build_case(parts: &CaseParts<'_>) -> OwnedCase {
    let markers = parts.markers;
    let success = markers.success.as_ref().map_or(0, |seen| seen.order);
    let stands = success > 0 && markers.standing_failure(parts.facts.ending.is_some()).is_none();
    let crashes = markers.standing_crashes(parts.facts.ending == Some(Ending::Exited { code: 0 }));
    let is = |found: &RawFinding, kind: Kind| {
        found.kind == kind && !found.remark && found.severity <= Severity::Error
    };
    let first = parts
        .ranked
        .first()
        .filter(|ranked| ranked.found.severity <= Severity::Error && !ranked.found.remark);
    let is_warning = |ranked: &&Ranked| ranked.found.severity == Severity::Warning;
    let is_remark = |ranked: &&Ranked| ranked.found.remark || ranked.found.kind == Kind::Lint;
    OwnedCase {
        out_of_memory: parts
            .facts
            .evidence
            .memory
            .as_ref()
            .filter(|memory| memory.oom_killed)
            .map(reports::memory_words),
        success_is_last: stands && crashes.iter().all(|seen| success > seen.last),
        crashes,
        contradiction: markers.contradiction().map(str::to_owned),
        failures_are_past: parts.failures_are_past,
        tests_failed: parts.tests.map_or(0, |tests| tests.failed),
        report: parts.report.map(str::to_owned),
        unfinished: parts.unfinished,
        running_test: parts
            .running_test
            .clone()
            .filter(|_| parts.unfinished > 0)
            .or_else(|| hung_test(parts)),
        collapsed: parts.collapsed,
        tests_missed: parts.tests_missed.clone(),
        first_error: first.map(|ranked| ranked.headline()),
        standing_error: parts.standing_error.clone(),
        has_pipe: parts.has_pipe,
        without_total: parts.without_total.map(str::to_owned),
        action_left: parts.action_left,
        first_remark: parts.ranked.first().filter(is_remark).map(|ranked| ranked.headline()),
        first_warning: parts.ranked.first().filter(is_warning).map(Ranked::headline),
        last_line: parts.last_line.clone(),
        error_in_report: first.is_some_and(|ranked| ranked.found.report.is_some()),
        no_tests: reports::no_tests(parts.tally, parts.facts, markers),
        is_test_run: parts.is_test_run,
        selects_tests: parts.is_test_run && parts.selects_tests,
        all_skipped: parts
            .tests
            .filter(|tests| tests.skipped > 0 && tests.skipped == tests.total)
            .map(|tests| tests.skipped),
        report_problem: parts
            .ranked
            .iter()
            .find(|ranked| ranked.found.role == Role::ReportIssue && ranked.found.severity <= Severity::Error)
            .map(|ranked| (ranked.headline(), ranked.found.kind == Kind::Infrastructure)),
        build_errors: parts.findings.errors.iter().any(|found| is(found, Kind::Build) && !found.probe),
        test_errors: parts.findings.errors.iter().any(|found| {
            is(found, Kind::Test) && (found.rule != MARK || parts.is_test_run || parts.tests.is_some())
        }),
        infrastructure: first.is_some_and(|ranked| ranked.found.kind == Kind::Infrastructure),
        panics_are_tests: reports::panics_are_tests(parts.tally, parts.facts),
        xcodebuild: markers.tools.contains(&ToolId::Xcodebuild),
    }
}

/// The test in a stack that a process printed because the pool asked for it.
fn hung_test(parts: &CaseParts<'_>) -> Option<String> {
    parts.facts.acted.as_ref()?;
    let stacks = parts.findings.errors.iter().filter(|found| found.role == Role::Stacks);
    stacks.filter_map(|found| found.test.clone()).next()
}

impl OwnedCase {
    pub(super) fn as_case<'a>(&'a self, facts: &'a Facts, markers: &'a Markers) -> VerdictInput<'a> {
        VerdictInput {
            ending: facts.ending.as_ref(),
            acted: facts.acted.as_ref(),
            failed_setup: facts.failed_setup.as_ref(),
            out_of_memory: self.out_of_memory.clone(),
            memory: facts.evidence.memory.as_ref(),
            crash_report: facts.evidence.crash_reports.first(),
            crashes: &self.crashes,
            success: markers.success.as_ref(),
            failure: failure_of(markers, facts),
            contradiction: self.contradiction.as_deref(),
            unended: markers.runs.unended(),
            success_is_last: self.success_is_last,
            failures_are_past: self.failures_are_past,
            tests_failed: self.tests_failed,
            report: self.report.as_deref(),
            unfinished: self.unfinished,
            running_test: self.running_test.as_deref(),
            collapsed: self.collapsed,
            tests_missed: self.tests_missed.as_deref(),
            first_error: self.first_error.clone(),
            standing_error: self.standing_error.as_deref(),
            has_pipe: self.has_pipe,
            without_total: self.without_total.as_deref(),
            action_left: self.action_left,
            first_remark: self.first_remark.as_deref(),
            first_warning: self.first_warning.as_deref(),
            last_line: self.last_line.as_deref(),
            error_in_report: self.error_in_report,
            no_tests: self.no_tests.as_ref().map(|(source, from)| (source.as_str(), *from)),
            is_test_run: self.is_test_run,
            selects_tests: self.selects_tests,
            all_skipped: self.all_skipped,
            unread: reports::unread(facts),
            report_problem: self.report_problem.as_ref().map(|(problem, _)| problem.as_str()),
            problem_is_machines: self.report_problem.as_ref().is_some_and(|(_, machines)| *machines),
            build_errors: self.build_errors,
            test_errors: self.test_errors,
            infrastructure: self.infrastructure,
            panics_are_tests: self.panics_are_tests,
            xcodebuild: self.xcodebuild,
        }
    }
}
