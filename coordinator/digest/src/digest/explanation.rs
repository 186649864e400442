//! Lists the evidence behind a verdict.

use crate::answer_text::counted;
use crate::attempt_facts::Facts;
use crate::verdict::{Decision, VerdictInput};
use buildpool_protocol::outcome::{EndReason, Ending};
use buildpool_protocol::output::Stream;
use std::fmt::Display;

/// The rule, the line and the evidence behind a verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// VerdictRow of the table in `docs/endings.md`.
    pub rule: &'static str,
    /// Line of the log that decided the verdict, if one did.
    pub line: Option<String>,
    /// Evidence that was considered, one sentence each.
    pub evidence: Vec<String>,
}

/// Lists the evidence that the verdict used.
pub(super) fn explanation(decision: &Decision, input: &VerdictInput<'_>, facts: &Facts) -> Explanation {
    let mut evidence = Vec::new();
    evidence.push(match &facts.ending {
        None => "no wait status: only a log".to_owned(),
        Some(Ending::Exited { code }) => format!("wait status: exited with {code}"),
        Some(Ending::Signaled { name, core_dump, .. }) => {
            format!("wait status: died of {name}{}", if *core_dump { ", core dumped" } else { "" })
        }
        Some(Ending::NotStarted(_)) => "the command was not started".to_owned(),
        Some(Ending::Unobserved { reason }) => format!("no wait status: {reason}"),
    });
    if let Some(acted) = &facts.acted {
        evidence.push(format!("the pool acted: {}", acted_word(acted)));
    }
    let said = |what: &dyn Display, line: &str, stream: Stream, from: u64| {
        format!("{what} at {stream} byte {from}: {}", line.trim())
    };
    for (seen, word) in [(input.log.success(), "success"), (input.log.failure(), "failure")] {
        let seen = seen.iter();
        evidence.extend(seen.map(|seen| {
            said(&format_args!("{} said {word}", seen.what), &seen.line, seen.stream, seen.from)
        }));
    }
    evidence.extend(input.crashes.iter().map(|seen| {
        said(&format_args!("crash indicator {:?}", seen.what), &seen.line, seen.stream, seen.from)
    }));
    if let Some(tests) = &input.tests.counts {
        evidence.push(format!(
            "tests: {} passed, {} failed, {} skipped, {}, from {}",
            tests.passed,
            tests.failed,
            tests.skipped,
            counted(tests.expected_failures, "expected failure"),
            tests.source
        ));
    }
    if input.tests.unfinished > 0 {
        let unfinished = input.tests.unfinished;
        evidence.push(format!("tests that began or were announced and never ended: {unfinished}"));
    }
    if let Some((now, before)) = input.tests.collapsed {
        evidence.push(format!("{}, {before} in the last good run", counted(now, "test")));
    }
    for report in &facts.evidence.crash_reports {
        evidence.push(format!("crash report of {}: {}", report.process_name, report.file_path));
    }
    if let Some(absence) = &facts.evidence.crash_report_absence {
        evidence.push(format!("no crash report: {absence}"));
    }
    if let Some(memory) = input.out_of_memory() {
        evidence.push(format!("killed for memory: {memory}"));
    }
    Explanation { rule: decision.rule.name(), line: decision.line.clone(), evidence }
}

const fn acted_word(acted: &EndReason) -> &'static str {
    match acted {
        EndReason::Timeout { .. } => "timeout",
        EndReason::IdleTimeout { .. } => "idle timeout",
        EndReason::Cancelled { .. } => "cancelled",
        EndReason::Drained => "drained",
        EndReason::CutOff => "cut off from the coordinator",
        EndReason::Fenced => "a newer attempt was granted",
        EndReason::DiskLimit { .. } => "the limit on disk space",
        EndReason::OutputLimit { .. } => "the output's limit",
    }
}
