//! Problems of a report that are the machine's fault.

use buildpool_protocol::evidence::ReportIssue;
use buildpool_protocol::infrastructure::advice;

/// Marks a problem of a report. A place in a source file speaks for the code.
pub(crate) fn label(issue: &mut ReportIssue) {
    if issue.location.is_none()
        && let Some(advice) = advice(&issue.message)
    {
        issue.category = Some("infrastructure".to_owned());
        issue.advice = Some(advice.to_owned());
    }
}
