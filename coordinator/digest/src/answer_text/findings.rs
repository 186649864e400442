//! Findings of an answer: in full, as one line each, or as pointers into a complete log.

use super::page::{TextPage, place};
use buildpool_protocol::report::{Finding, HIDDEN_TESTS_HEADING, JobResult};

/// Maximum number of characters next to a complete log. Further pointers are left out, because the
/// log contains the lines.
const BESIDE_WHOLE_LOG_CHARS: usize = 190;

/// Minimum number of lines of a log with pointers.
const POINTED_LINES_MIN: usize = 12;

/// Adds findings next to a complete log: those from reports, and pointers into the log if space
/// remains.
pub(super) fn pointers(page: &mut TextPage, result: &JobResult) {
    let is_in_log = |finding: &&Finding| finding.stream.is_some();
    let (in_log, unseen): (Vec<_>, Vec<_>) = result.tier_1_findings.iter().partition(is_in_log);
    with_hidden_tests_last(page, &unseen, result);
    let rows = result.filtered_output.as_deref().unwrap_or_default().lines().count();
    if rows < POINTED_LINES_MIN {
        return;
    }
    for finding in in_log {
        let title = finding.location.as_ref().map(place).unwrap_or_default();
        let message = finding.message.lines().next().unwrap_or_default();
        let is_named = title.is_empty() || message.contains(&title);
        let line = if is_named { message.to_owned() } else { format!("{title}: {message}") };
        if page.chars() + rows + line.chars().count() + 3 > BESIDE_WHOLE_LOG_CHARS {
            return;
        }
        page.quote_after("-", &line);
    }
}

/// Adds the findings of an answer without a complete log.
pub(super) fn findings(page: &mut TextPage, result: &JobResult) {
    with_hidden_tests_last(page, &result.tier_1_findings.iter().collect::<Vec<_>>(), result);
    result.other_findings.iter().for_each(|finding| page.finding_line(finding, &result.job_id));
    page.quoted("failed tests:", &result.failed_tests);
}

/// Adds these findings. The tests that only a report names come last, below their heading.
fn with_hidden_tests_last(page: &mut TextPage, findings: &[&Finding], result: &JobResult) {
    let (hidden, shown): (Vec<&Finding>, Vec<&Finding>) =
        findings.iter().partition(|finding| finding.is_hidden_test());
    shown.iter().for_each(|finding| page.finding(finding, &result.job_id));
    if !hidden.is_empty() {
        page.line(HIDDEN_TESTS_HEADING);
    }
    hidden.iter().for_each(|finding| page.finding(finding, &result.job_id));
}
