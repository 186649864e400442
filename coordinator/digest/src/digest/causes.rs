//! Ranks the findings as causes, and adds lines of the log that no recognizer matched if there is no better cause.

use crate::attempt_facts::Facts;
use crate::findings::{Findings, RawFinding};
use crate::keyword_lines::KeywordLines;
use crate::markers::{MarkerLine, Markers};
use crate::ranking::Ranking;
use crate::rules::{Kind, Role};
use crate::verdict::{Decision, VerdictRow};
use buildpool_protocol::report::Severity;

/// Ranks the findings. A failed run without a likely cause gets the lines with a word of failure.
pub(super) fn causes(
    findings: Findings,
    keyword_lines: KeywordLines,
    markers: &Markers,
    facts: &Facts,
) -> Ranking {
    let ranking = Ranking::new(findings);
    let reports_failure = || facts.ending.is_none() && markers.standing_failure(false).is_some();
    if ranking.has_cause() || !facts.ended_badly() && !reports_failure() {
        return ranking;
    }
    let ranking = ranking.with(keyword_lines.into_found());
    let above = above_consequence(&ranking.findings);
    ranking.with(above)
}

/// Adds the runner's message about missing tests if it is the cause. The runner's own error is the finding, if it printed
/// one.
pub(super) fn with_missing_tests(ranking: Ranking, decision: &Decision, markers: &Markers) -> Ranking {
    let is_missing = match decision.rule {
        VerdictRow::CodeNoTests => ranking.findings.errors.is_empty(),
        VerdictRow::CodeNoneSelected => true,
        _ => false,
    };
    match &markers.no_tests {
        Some(seen) if is_missing => ranking.with([no_tests(seen)]),
        _ => ranking,
    }
}

/// Certainty, in percent, of a line above a line that only reports a failure.
const ABOVE_SURE: u8 = 70;

/// Returns the lines above the first line that only reports a failure. The last of them is likely
/// to contain the reason.
fn above_consequence(findings: &Findings) -> Option<RawFinding> {
    let follows = findings.errors.iter().find(|found| found.kind == Kind::Consequence)?;
    let only =
        findings.errors.iter().all(|found| found.kind == Kind::Consequence || found.role == Role::Unknown);
    let line = follows.pre.last().filter(|_| only)?;
    let known = findings.errors.iter().any(|found| found.lines.iter().any(|known| known == line));
    let from = follows.from.saturating_sub(line.len() as u64 + 1);
    (!known).then(|| RawFinding {
        lines: follows.pre.clone(),
        head: follows.pre.len() - 1,
        stream: follows.stream,
        from,
        to: follows.from,
        order: follows.order.saturating_sub(1),
        ..RawFinding::new("generic.above", Kind::Runtime, Severity::Error, ABOVE_SURE)
    })
}

/// Certainty, in percent, of a runner's message that it found no tests.
const NO_TESTS_SURE: u8 = 88;

/// Finding for a run that failed because it had no tests.
fn no_tests(seen: &MarkerLine<()>) -> RawFinding {
    RawFinding {
        lines: vec![seen.line.clone()],
        stream: Some(seen.stream),
        from: seen.from,
        to: seen.from + seen.line.len() as u64,
        order: seen.order,
        ..RawFinding::new("runner.no_tests", Kind::Test, Severity::Error, NO_TESTS_SURE)
    }
}
