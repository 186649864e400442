//! Finds errors that contradict exit code 0: located errors of compilers, linters and interpreters.

use crate::command::Command;
use crate::findings::{Findings, RawFinding};
use crate::ranking::Ranked;
use crate::rules::Kind;
use crate::runs::Runs;
use crate::text::front_length;
use buildpool_protocol::report::Severity;

/// Headline of the most likely error that no later success cancels.
pub(crate) fn standing_error(
    findings: &Findings,
    ranked: &[Ranked],
    runs: &Runs,
    command: &Command,
) -> Option<String> {
    let stands = |found: &RawFinding| {
        is_evidence(found)
            && !runs.contains(found.order)
            && !runs.is_past(found.order)
            && !command.forgives(&[found.rule.split('.').next().unwrap_or_default()])
    };
    let orders: Vec<u64> =
        findings.errors.iter().filter(|found| stands(found)).map(|found| found.order).collect();
    let first = ranked.iter().find(|ranked| orders.contains(&ranked.found.order))?;
    Some(first.headline())
}

/// Returns true if only a failed program prints such an error.
fn is_evidence(found: &RawFinding) -> bool {
    if found.remark || found.probe || found.in_test || found.severity > Severity::Error {
        return false;
    }
    let first = own_text(found);
    if first.starts_with("# ") || is_of_cppcheck(first) {
        return false;
    }
    match found.kind {
        Kind::Build | Kind::Lint => found.location.as_ref().is_some_and(|place| place.line.is_some()),
        Kind::Runtime => found.ended,
        _ => false,
    }
}

/// First line without its time stamp and the name of its task.
fn own_text(found: &RawFinding) -> &str {
    let line = found.lines.first().map_or("", String::as_str);
    line.get(front_length(line.as_bytes())..).unwrap_or(line)
}

/// Returns true if the line ends like a cppcheck remark: `[nullPointer]`. cppcheck exits with 0
/// after its remarks.
fn is_of_cppcheck(line: &str) -> bool {
    let id = line.trim_end().strip_suffix(']').and_then(|line| line.rsplit_once(" [")).map(|(_, id)| id);
    id.is_some_and(|id| {
        id.len() > 6
            && id.starts_with(|c: char| c.is_ascii_lowercase())
            && id.bytes().all(|byte| byte.is_ascii_alphabetic())
    })
}
