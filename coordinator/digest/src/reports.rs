//! Test counts of report files and the log, and notes about their differences.

use crate::answer_text::counted;
use crate::attempt_facts::Facts;
use crate::limits::NAMED_TESTS_MAX;
use crate::markers::Markers;
use crate::ranking::last_name;
use crate::tally::Tally;
use crate::text::clip_chars;
use crate::tool::ToolId;
use buildpool_protocol::evidence::{MemoryEvidence, TestCase, TestReport, TestStatus};
use buildpool_protocol::limits::LIST_MAX;
use buildpool_protocol::report::{KnownFrom, Survivor, TestCounts, Verdict};
use std::collections::BTreeSet;

/// Maximum number of tests or processes in a note.
const NAMES_SHOWN: usize = 5;
/// Maximum length of a test message or a process name in a note, in characters.
const SAID_CHARS_MAX: usize = 80;

/// Returns the authoritative counts and the name of the report. Report files have priority over the
/// log.
pub(crate) fn believed_tests(tally: &Tally, facts: &Facts) -> (Option<TestCounts>, Option<String>) {
    let reports: Vec<_> = believed_reports(facts)
        .filter(|report| report.passed + report.failed + report.skipped + report.expected_failures > 0)
        .collect();
    if reports.is_empty() {
        return (tally.counts(), None);
    }
    let sum = |count: fn(&TestReport) -> u64| {
        reports.iter().map(|report| count(report)).fold(0, u64::saturating_add)
    };
    let (passed, failed) = (sum(|report| report.passed), sum(|report| report.failed));
    let (skipped, expected_failures) = (sum(|report| report.skipped), sum(|report| report.expected_failures));
    let source = match reports.as_slice() {
        [report] => report.path.clone(),
        [report, rest @ ..] => {
            format!("{} (and {})", report.path, counted(rest.len() as u64, "more report"))
        }
        [] => String::new(),
    };
    let total = passed.saturating_add(failed).saturating_add(skipped).saturating_add(expected_failures);
    (
        Some(TestCounts { passed, failed, skipped, expected_failures, total, source: source.clone() }),
        Some(source),
    )
}

/// Notes about differences between report and log, missing tests, memory, leaked processes and
/// missing crash reports. Flaky and skipped tests come last. `is_built` is false for tests that
/// failed to build: then each report is missing or from an earlier run, as expected.
pub(crate) fn notes(
    tally: &Tally,
    believed: Option<&TestCounts>,
    facts: &Facts,
    verdict: Verdict,
    no_tests: Option<&str>,
    is_built: bool,
) -> Vec<String> {
    let evidence = &facts.evidence;
    let no_tests = no_tests.map(|source| format!("no tests ran, by {source}"));
    let first =
        [differing_note(tally, believed), no_tests, memory_note(facts, verdict), leaked_note(&facts.leaked)];
    let last = [flaky_note(facts), skipped_note(facts)];
    first
        .into_iter()
        .flatten()
        .chain(evidence.crash_report_absence.clone())
        .chain(evidence.notes.iter().filter(|_| is_built).cloned())
        .chain(last.into_iter().flatten())
        .collect()
}

/// Result of a test, for the history of tests.
#[derive(Clone, PartialEq, Debug)]
pub struct TestResult {
    /// Name used by the tool.
    pub name: String,
    /// Last result.
    pub status: TestStatus,
    /// True if it passed only after a failure.
    pub flaky: bool,
    /// Duration of the last run, in seconds, if a report has it.
    pub duration_secs: Option<f64>,
}

/// Returns the results of the tests that are known by name: those of reports, or those of the log if no report has any.
pub(crate) fn results(tally: &Tally, facts: &Facts) -> Vec<TestResult> {
    let listed = believed_reports(facts).flat_map(|report| {
        let cases = report.cases.iter().map(|case| TestResult {
            name: case.name.clone(),
            status: case.status,
            flaky: case.flaky,
            duration_secs: case.duration_secs,
        });
        cases.chain(report.passed_tests.iter().map(|test| TestResult {
            name: test.name.clone(),
            status: TestStatus::Passed,
            flaky: false,
            duration_secs: test.duration_secs,
        }))
    });
    let of_reports: Vec<TestResult> = listed.take(NAMED_TESTS_MAX).collect();
    if !of_reports.is_empty() {
        return of_reports;
    }
    let of_log = tally.results().map(|(name, status)| TestResult {
        name: name.to_owned(),
        status,
        flaky: status == TestStatus::Passed && tally.is_flaky(name),
        duration_secs: None,
    });
    of_log.collect()
}

fn differing_note(tally: &Tally, believed: Option<&TestCounts>) -> Option<String> {
    let (report, log) = believed.zip(tally.counts())?;
    (report.failed != log.failed || far_fewer(report, &log)).then(|| {
        format!(
            "the log counts {} of {} as failed ({}), and {} says {} of {}: the report is believed",
            log.failed,
            tests(log.total),
            log.source,
            report.source,
            report.failed,
            tests(report.total)
        )
    })
}

/// Returns true if a report covers only a part of the run: less than half of the log's tests, and
/// at least ten fewer.
const fn far_fewer(report: &TestCounts, log: &TestCounts) -> bool {
    report.total.saturating_mul(2) < log.total && log.total - report.total >= 10
}

/// Note about processes that outlived the command.
fn leaked_note(leaked: &[Survivor]) -> Option<String> {
    let named: Vec<String> = leaked
        .iter()
        .take(NAMES_SHOWN)
        .map(|one| format!("{} (pid {})", clip_chars(&one.command, SAID_CHARS_MAX), one.pid))
        .collect();
    let what = match leaked.len() {
        0 => return None,
        1 => "1 process outlived the command and was ended".to_owned(),
        LIST_MAX.. => format!("{LIST_MAX} processes or more outlived the command and were ended"),
        count => format!("{count} processes outlived the command and were ended"),
    };
    Some(format!("{what}{}", list(&named, leaked.len() as u64)))
}

/// Number of tests that passed only after a failure.
pub(crate) fn flaky(tally: &Tally, facts: &Facts) -> u64 {
    tally.flaky().max(believed_reports(facts).map(|report| report.flaky).sum())
}

fn flaky_note(facts: &Facts) -> Option<String> {
    let count = believed_reports(facts).map(|report| report.flaky).sum();
    let cases = believed_reports(facts).flat_map(|report| &report.cases).filter(|case| case.flaky);
    let named: Vec<String> = cases.take(NAMES_SHOWN).map(case_words).collect();
    (count > 0).then(|| format!("{} passed only after failing{}", tests(count), list(&named, count)))
}

fn skipped_note(facts: &Facts) -> Option<String> {
    let cases = believed_reports(facts).flat_map(|report| &report.cases);
    let with_reason: Vec<&TestCase> =
        cases.filter(|case| case.status == TestStatus::Skipped && !case.messages.is_empty()).collect();
    let named: Vec<String> = with_reason.iter().take(NAMES_SHOWN).map(|case| case_words(case)).collect();
    let count = with_reason.len() as u64;
    (count > 0).then(|| format!("{} skipped with a reason{}", tests(count), list(&named, count)))
}

/// Name of a test and the first line of its message.
fn case_words(case: &TestCase) -> String {
    let said = case.messages.first().and_then(|message| message.lines().find(|line| !line.trim().is_empty()));
    let said = said.map_or(String::new(), |line| format!(": {}", clip_chars(line.trim(), SAID_CHARS_MAX)));
    let runs = if case.runs > 1 { format!(" in {} runs", case.runs) } else { String::new() };
    format!("{}{runs}{said}", case.name)
}

/// Text for the named ones of `count` items.
fn list(named: &[String], count: u64) -> String {
    let more = count.saturating_sub(named.len() as u64);
    match (named, more) {
        ([], _) => String::new(),
        (_, 0) => format!(": {}", named.join("; ")),
        _ => format!(": {}; and {more} more", named.join("; ")),
    }
}

/// Returns the source that reports a run without tests, if there is one.
pub(crate) fn no_tests(tally: &Tally, facts: &Facts, markers: &Markers) -> Option<(String, KnownFrom)> {
    if unfinished(tally, facts) > 0 {
        return None;
    }
    if let (Some(counts), _) = believed_tests(tally, facts) {
        return (counts.total == 0).then_some((counts.source, KnownFrom::Marker));
    }
    let mut reports = believed_reports(facts);
    let empty = reports.find(|report| ToolId::of_build_report(&report.format).is_none());
    let empty = empty.map(|report| (report.path.clone(), KnownFrom::Report));
    let seen = markers.no_tests.as_ref().filter(|_| !markers.has_tests);
    empty.or_else(|| Some((format!("the line `{}`", seen?.line), KnownFrom::Marker)))
}

/// Note about a child that the kernel killed for memory although the command exited 0.
fn memory_note(facts: &Facts, verdict: Verdict) -> Option<String> {
    let memory = facts.evidence.memory.as_ref().filter(|memory| memory.oom_killed)?;
    let victim = memory.victim.as_deref().unwrap_or("a process of the job");
    (verdict == Verdict::Passed).then(|| {
        format!(
            "the kernel ended {victim} for its memory ({}), although the command exited 0",
            memory_words(memory)
        )
    })
}

/// Limit and peak as text: `memory limit 512 MiB; peak 511 MiB`.
pub(crate) fn memory_words(memory: &MemoryEvidence) -> String {
    let mebibytes = |bytes: u64| format!("{} MiB", bytes >> 20);
    let scope = if memory.source == "rlimit" { " for each process" } else { "" };
    let limit = memory.limit_bytes.map(|limit| format!("memory limit {}{scope}", mebibytes(limit)));
    let peak = memory.peak_bytes.map(|peak| format!("peak {}", mebibytes(peak)));
    match (limit, peak) {
        (None, None) => format!("known from {}", memory.source),
        (limit, peak) => limit.into_iter().chain(peak).collect::<Vec<_>>().join("; "),
    }
}

/// Reason why a report could not be read, or only in part.
pub(crate) fn unread(facts: &Facts) -> Option<&str> {
    let cut = || {
        let reports = facts.evidence.test_reports.iter();
        reports.filter(|report| !is_made_up_for(report, facts)).find_map(|report| report.cut.as_deref())
    };
    facts.evidence.unread.as_deref().or_else(cut)
}

/// Returns true if a result bundle covers the same tests. Another report of the same rank may cover
/// a different run.
fn is_made_up_for(report: &TestReport, facts: &Facts) -> bool {
    let has_priority = |report: &TestReport| {
        let tool = ToolId::of_build_report(&report.format);
        tool.is_some_and(|tool| tool.build_report.as_ref().is_some_and(|format| format.has_priority))
    };
    let by = |path: &String| facts.evidence.test_reports.iter().find(|other| other.path == *path);
    !has_priority(report) && report.superseded_by.as_ref().and_then(by).is_some_and(has_priority)
}

fn tests(count: u64) -> String {
    counted(count, "test")
}

/// Reports whose counts are added. Superseded reports are left out, so that each test counts once.
fn believed_reports(facts: &Facts) -> impl Iterator<Item = &TestReport> {
    facts.evidence.test_reports.iter().filter(|report| report.superseded_by.is_none())
}

/// Number of tests that started and never ended. A test in both log and report counts once.
pub(crate) fn unfinished(tally: &Tally, facts: &Facts) -> u64 {
    let names: BTreeSet<&str> =
        believed_reports(facts).flat_map(|report| &report.unfinished).map(|name| last_name(name)).collect();
    let told: u64 = believed_reports(facts).map(|report| report.unfinished.len() as u64).sum();
    let again = tally.running().filter(|test| names.contains(last_name(test))).count() as u64;
    told + tally.unfinished().saturating_sub(again)
}

pub(crate) fn first_unfinished(facts: &Facts) -> Option<String> {
    believed_reports(facts).flat_map(|report| report.unfinished.first()).next().cloned()
}

/// Returns true if a panic is a failed test, by the tool that ran the tests or the format of a report. Other reports
/// don't change this.
pub(crate) fn panics_are_tests(tally: &Tally, facts: &Facts) -> bool {
    let of_reports = believed_reports(facts).filter_map(|report| ToolId::of_build_report(&report.format));
    tally.counting_tools().chain(of_reports).any(|tool| tool.panics_are_failed_tests)
}
