//! Marks problems in a report that are caused by the infrastructure.

use buildpool_protocol::evidence::ReportIssue;
use buildpool_protocol::infrastructure::advice;

/// Sets category and advice of an infrastructure problem. A problem with a source location counts
/// as a problem of the code.
pub(crate) fn label(issue: &mut ReportIssue) {
    if issue.location.is_none()
        && let Some(advice) = advice(&issue.message)
    {
        issue.category = Some("infrastructure".to_owned());
        issue.advice = Some(advice.to_owned());
    }
}
