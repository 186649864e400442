//! Decides how much of the cause an answer shows, because other lines of the answer may contain it.

use crate::verdict::{CHILD_CRASHED, NO_TEST_RAN};
use buildpool_protocol::report::{Cause, JobResult, KnownFrom, Verdict};

/// Text of a cause without the exit code, which the first line has, and without its quoted line, if
/// the complete log has that line.
pub(super) fn unquoted<'a>(cause: &'a Cause, result: &JobResult) -> &'a str {
    let code = result.exit_code.map(|code| format!("The command exited with code {code}. "));
    if let Some(rest) = code.and_then(|code| cause.text.strip_prefix(&code)) {
        return rest;
    }
    let quoted = log_lines(result).filter(|line| cause.text.ends_with(line)).max_by_key(|line| line.len());
    let head = quoted.and_then(|line| cause.text.strip_suffix(line)?.strip_suffix(": "));
    head.unwrap_or(&cause.text)
}

/// Shown lines of the log, in the form in which a cause quotes them: without the mark that pytest
/// puts before the lines of an error.
fn log_lines(result: &JobResult) -> impl Iterator<Item = &str> {
    let log = result.filtered_output.as_deref().unwrap_or_default();
    log.lines().map(|line| line.strip_prefix("E  ").unwrap_or(line).trim()).filter(|line| !line.is_empty())
}

/// Returns true if the answer already contains the cause: in its first line, in a finding, or in
/// the shown lines of the log.
pub(super) fn is_repeated(cause: &Cause, result: &JobResult) -> bool {
    if matches!(cause.known_from, KnownFrom::Pool | KnownFrom::ShellConvention | KnownFrom::CrashReport)
        || cause.text.contains(" while `")
        || cause.text.starts_with(NO_TEST_RAN)
        || result.exit_code == Some(0)
    {
        return false;
    }
    if result.verdict == Some(Verdict::Crashed) {
        // The first line has the type of the crash, and the log has the line.
        return cause.text.starts_with(CHILD_CRASHED)
            && log_lines(result).any(|line| cause.text.ends_with(line));
    }
    if result.verdict != Some(Verdict::Failed) {
        return false;
    }
    // The location of the finding stands behind the line.
    let location = result.tier_1_findings.first().and_then(|finding| finding.location.as_ref());
    let without_place = location.and_then(|location| {
        let (line, place) = cause.text.rsplit_once(" (")?;
        (result.complete_log && place.contains(&location.file)).then_some(line)
    });
    let said = without_place.unwrap_or(&cause.text);
    let ends_with = |line: &str| said.ends_with(line);
    let is_count = result.tests.as_ref().is_some_and(|tests| tests.failed > 0)
        && cause.text.ends_with(&format!("; exit code {}.", result.exit_code.unwrap_or_default()))
        && matches!(cause.known_from, KnownFrom::Marker | KnownFrom::Report);
    let first = result.tier_1_findings.first().and_then(|finding| finding.message.lines().next());
    let is_in_log = log_lines(result).any(ends_with);
    is_count || is_in_log || first.is_some_and(|line| !line.is_empty() && ends_with(line.trim()))
}
