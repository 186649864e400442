//! Names the line of the log that claims success although other evidence contradicts it.

use crate::markers::Markers;
use crate::text::clip_chars;
use crate::verdict::Decision;
use buildpool_protocol::evidence::{Evidence, ReportIssue};
use buildpool_protocol::report::{Severity, TestCounts, Verdict};

/// Maximum length of the line, in characters.
const CLAIM_CHARS_MAX: usize = 160;

/// Returns a note about the last claim of success in the log, if a report counts more failures than the log, or the verdict
/// contradicts a good end.
pub(crate) fn contradicted_claim(
    markers: &Markers,
    decision: &Decision,
    report: Option<&TestCounts>,
    log: Option<&TestCounts>,
    evidence: &Evidence,
) -> Option<String> {
    let is_hidden = report.is_some_and(|report| report.failed > log.map_or(0, |log| log.failed));
    let is_contradicted = decision.verdict != Verdict::Passed
        && (decision.rule.contradicts_success() || tells_of_failure(evidence));
    if !is_hidden && !is_contradicted {
        return None;
    }
    let last = markers.success.as_ref().map(|seen| seen.line.as_str());
    let claim = last.or(markers.count_line.as_deref())?;
    let claim = clip_chars(claim.trim(), CLAIM_CHARS_MAX);
    Some(format!("other evidence contradicts this success in the log: `{claim}`"))
}

/// Returns true if the evidence files contain a crash report or an error.
fn tells_of_failure(evidence: &Evidence) -> bool {
    let is_error = |issue: &ReportIssue| issue.severity <= Severity::Error;
    !evidence.crash_reports.is_empty() || evidence.issues.iter().any(is_error)
}
