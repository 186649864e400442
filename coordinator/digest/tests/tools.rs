//! What tools print when something fails, a short excerpt each in the tool's own layout: the facts that a reader needs are
//! in a finding, at the right place, and nothing about it looks like success.

use buildpool_digest::{Digest, Digester, Facts, Options, text};
use buildpool_protocol::outcome::Ending;
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::{JobResult, Verdict};
use buildpool_protocol::spec::Verbosity;

/// A tool's words and what must be found in them.
struct Case {
    tool: &'static str,
    log: &'static str,
    /// A part of a finding's message, with the file and line that the finding names.
    facts: &'static [(&'static str, &'static str, u32)],
    /// Passed, failed, skipped; all 0 when the tool counts no tests.
    tests: [u64; 3],
}

/// No place.
const NOWHERE: &str = "";
const NO_TESTS: [u64; 3] = [0, 0, 0];

include!("tools/compilers.rs");
include!("tools/linters.rs");
include!("tools/runners.rs");
include!("tools/machine.rs");

fn digest(log: &str, code: Option<i32>) -> Digest {
    let mut digester = Digester::new(Options::default());
    digester.push(Stream::Stdout, log.as_bytes());
    digester.finish(&Facts { ending: code.map(|code| Ending::Exited { code }), ..Facts::default() })
}

fn cases() -> impl Iterator<Item = &'static Case> {
    COMPILERS.iter().chain(LINTERS).chain(RUNNERS).chain(MACHINE)
}

#[test]
fn each_tool_is_heard() {
    let mut wrong = Vec::new();
    for case in cases() {
        let digest = digest(case.log, Some(1));
        if !matches!(digest.verdict, Verdict::Failed | Verdict::Crashed) {
            wrong.push(format!("{}: {} for exit code 1", case.tool, digest.verdict));
        }
        for (fact, file, line) in case.facts {
            let found = digest.findings.iter().find(|finding| finding.message.contains(fact));
            let Some(found) = found else {
                let all: Vec<_> = digest.findings.iter().map(|finding| &finding.message).collect();
                wrong.push(format!("{}: no finding says {fact:?}: {all:?}", case.tool));
                continue;
            };
            let place = found.location.as_ref();
            let fits = file.is_empty()
                || place.is_some_and(|place| place.file == *file && place.line.unwrap_or(0) == *line);
            if !fits {
                wrong.push(format!("{}: {fact:?} is at {place:?}", case.tool));
            }
        }
        let counted =
            digest.tests.as_ref().map_or([0; 3], |tests| [tests.passed, tests.failed, tests.skipped]);
        if case.tests != counted {
            wrong.push(format!("{}: counted {counted:?}", case.tool));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn without_an_exit_code_no_failure_looks_like_success() {
    let passed: Vec<_> = cases()
        .filter(|case| digest(case.log, None).verdict == Verdict::Passed)
        .map(|case| case.tool)
        .collect();
    assert!(passed.is_empty(), "{passed:?}");
}

#[test]
fn every_fact_is_in_the_shortest_answer() {
    let mut missing = Vec::new();
    for case in cases() {
        let mut result = JobResult::default();
        digest(case.log, Some(1)).render(Verbosity::Minimal, None, None, &mut result);
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let shown = words(&text(&result));
        for (fact, ..) in case.facts {
            if !shown.contains(&words(fact)) {
                missing.push(format!("{}: {fact}", case.tool));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn what_tools_say_when_all_is_well_is_no_finding() {
    let mut wrong = Vec::new();
    for (tool, log) in FINE {
        for code in [None, Some(0)] {
            let digest = digest(log, code);
            let fine = match digest.verdict {
                Verdict::Passed => true,
                Verdict::Inconclusive => code.is_none(),
                _ => false,
            };
            if !fine || !digest.findings.is_empty() {
                let first = digest.findings.first().map(|finding| &finding.message);
                wrong.push(format!("{tool} {code:?}: {} {first:?}", digest.verdict));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
