//! Short excerpts of tool output, in each tool's own layout, and the expected findings.

mod compilers;
mod linters;
#[rustfmt::skip]
mod runners;
#[rustfmt::skip]
mod machine;
#[rustfmt::skip]
mod forms;
mod children;
#[rustfmt::skip]
mod tools;

use buildpool_digest::Digest;
use buildpool_protocol::report::Verdict;
pub(crate) use children::*;
pub(crate) use compilers::*;
pub(crate) use forms::*;
pub(crate) use linters::*;
pub(crate) use machine::*;
pub(crate) use runners::*;
pub(crate) use tools::*;

/// Output of a tool and the expected findings.
pub(crate) struct Case {
    pub(crate) tool: &'static str,
    pub(crate) log: &'static str,
    /// Part of a finding's message, with the finding's file and line.
    pub(crate) facts: &'static [(&'static str, &'static str, u32)],
    /// Passed, failed, skipped; all 0 when the tool counts no tests.
    pub(crate) tests: [u64; 3],
}

/// No location.
const NOWHERE: &str = "";
const NO_TESTS: [u64; 3] = [0, 0, 0];

/// All excerpts of failures.
pub(crate) fn cases() -> impl Iterator<Item = &'static Case> {
    let children = CHILDREN.iter().map(|(case, _)| case);
    COMPILERS.iter().chain(LINTERS).chain(RUNNERS).chain(MACHINE).chain(FORMS).chain(TOOLS).chain(children)
}

/// All excerpts without failures.
pub(crate) fn fine() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    FINE.iter().chain(FINE_FORMS)
}

impl Case {
    /// Differences from the expected digest for exit code 1.
    pub(crate) fn faults(&self, digest: &Digest) -> Vec<String> {
        let mut wrong = Vec::new();
        if !matches!(digest.verdict, Verdict::Failed | Verdict::Crashed) {
            wrong.push(format!("{}: {} for exit code 1", self.tool, digest.verdict));
        }
        for (fact, file, line) in self.facts {
            let found = digest.findings.iter().find(|finding| finding.message.contains(fact));
            let Some(found) = found else {
                let all: Vec<_> = digest.findings.iter().map(|finding| &finding.message).collect();
                wrong.push(format!("{}: no finding says {fact:?}: {all:?}", self.tool));
                continue;
            };
            let place = found.location.as_ref();
            let fits = file.is_empty()
                || place.is_some_and(|place| place.file == *file && place.line.unwrap_or(0) == *line);
            if !fits {
                wrong.push(format!("{}: {fact:?} is at {place:?}", self.tool));
            }
        }
        let counted =
            digest.tests.as_ref().map_or([0; 3], |tests| [tests.passed, tests.failed, tests.skipped]);
        if self.tests != counted {
            wrong.push(format!("{}: counted {counted:?}", self.tool));
        }
        wrong
    }
}

/// Differences from the expected digest of a good run. `known` is true if the exit code is
/// available.
pub(crate) fn faults_of_fine(tool: &str, digest: &Digest, known: bool) -> Vec<String> {
    let fine = match digest.verdict {
        Verdict::Passed => true,
        Verdict::Inconclusive => !known,
        _ => false,
    };
    if fine && digest.findings.is_empty() {
        return Vec::new();
    }
    let first = digest.findings.first().map(|finding| &finding.message);
    vec![format!("{tool}, exit code known {known}: {} {first:?}", digest.verdict)]
}
