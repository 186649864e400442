//! Marks lines of the log that claim success although other evidence contradicts them.

use crate::markers::Markers;
use crate::text::{clip_chars, front_length};
use crate::verdict::Decision;
use buildpool_protocol::evidence::{Evidence, ReportIssue};
use buildpool_protocol::report::{Severity, TestCounts, Verdict};
use std::collections::BTreeSet;

/// Maximum length of a correction, in characters.
const CORRECTION_CHARS_MAX: usize = 160;
/// Returns true if the evidence files contain a crash report or an error.
fn tells_of_failure(evidence: &Evidence) -> bool {
    let is_error = |issue: &ReportIssue| issue.severity <= Severity::Error;
    !evidence.crash_reports.is_empty() || evidence.issues.iter().any(is_error)
}

/// Wrong lines of the log and the text that corrects them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Corrections {
    lines: BTreeSet<String>,
    correction: String,
}

impl Corrections {
    /// Collects the wrong lines. The result is empty unless a report counts more failures than the
    /// log, or the verdict contradicts a good end.
    pub(crate) fn new(
        markers: &Markers,
        decision: &Decision,
        report: Option<&TestCounts>,
        log: Option<&TestCounts>,
        evidence: &Evidence,
    ) -> Self {
        let hidden = report.filter(|report| report.failed > log.map_or(0, |log| log.failed));
        let correction = if let Some(report) = hidden {
            format!("{}: {} of {} failed", report.source, report.failed, report.total)
        } else if decision.verdict != Verdict::Passed
            && (decision.rule.contradicts_success() || tells_of_failure(evidence))
        {
            let text = decision.cause.as_ref().map_or("", |cause| cause.text.as_str());
            let text = text.split(" (The last result").next().unwrap_or(text);
            text.strip_prefix("The command exited 0, but ").unwrap_or(text).trim_end_matches('.').to_owned()
        } else {
            return Self::default();
        };
        let correction = clip_chars(&correction, CORRECTION_CHARS_MAX).into_owned();
        let lines = markers.success_lines.iter().chain(&markers.count_line).cloned().collect();
        Self { lines, correction }
    }

    /// Appends the correction to the shown line if `original`, the line of the log, is wrong.
    pub(crate) fn correct(&self, original: &str, shown: String) -> String {
        let stamp = front_length(original.as_bytes());
        let said = original.get(stamp..).unwrap_or(original).trim();
        if self.lines.is_empty() || !self.lines.contains(said) && !self.lines.contains(original.trim()) {
            return shown;
        }
        format!("{shown} [not so: {}]", self.correction)
    }
}
