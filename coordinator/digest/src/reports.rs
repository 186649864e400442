//! What report files and the log count, and where the two differ.

use crate::facts::Facts;
use crate::tally::Tally;
use crate::tier::last_name;
use buildpool_protocol::evidence::TestReport;
use buildpool_protocol::report::TestCounts;
use std::collections::BTreeSet;

/// The counts that are believed: those of report files before those of the log. Also the name of the report.
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
        [report, rest @ ..] => format!("{} and {} more reports", report.path, rest.len()),
        [] => String::new(),
    };
    let total = passed.saturating_add(failed).saturating_add(skipped).saturating_add(expected_failures);
    (
        Some(TestCounts { passed, failed, skipped, expected_failures, total, source: source.clone() }),
        Some(source),
    )
}

/// What the collector remarked, where report and log differ, and why there is no crash report.
pub(crate) fn notes(tally: &Tally, believed: Option<&TestCounts>, facts: &Facts) -> Vec<String> {
    let differing = believed.zip(tally.counts()).filter(|(report, log)| report.failed != log.failed);
    let differing = differing.map(|(report, log)| {
        format!(
            "the log counts {} of {} as failed ({}), and {} says {} of {}: the report is believed",
            log.failed,
            tests(log.total),
            log.source,
            report.source,
            report.failed,
            tests(report.total)
        )
    });
    let evidence = &facts.evidence;
    differing.into_iter().chain(evidence.crash_report_absence.clone()).chain(evidence.notes.clone()).collect()
}

fn tests(count: u64) -> String {
    format!("{count} {}", if count == 1 { "test" } else { "tests" })
}

/// Reports whose counts are added: the same tests, told twice, count once.
fn believed_reports(facts: &Facts) -> impl Iterator<Item = &TestReport> {
    facts.evidence.test_reports.iter().filter(|report| report.superseded_by.is_none())
}

/// Tests that began and never ended, each once where log and report both name it.
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

/// Whether the tests are cargo's, in which a panic is a failed test. A report beside them changes nothing about that.
pub(crate) fn panics_are_tests(tally: &Tally, facts: &Facts) -> bool {
    tally.counts().is_some_and(|tests| tests.source.contains("cargo"))
        || believed_reports(facts).any(|report| report.format == "cargo_json")
}
