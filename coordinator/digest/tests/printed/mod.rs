//! Complete runs of tools, passed and failed, and the expected result of each.

#[allow(dead_code, reason = "only the test `runs` reads this module")]
#[rustfmt::skip]
pub(crate) mod broken;
#[rustfmt::skip]
mod runners;
#[rustfmt::skip]
mod unknown;
#[rustfmt::skip]
mod announced;
#[rustfmt::skip]
mod unended;
#[rustfmt::skip]
mod alarms;
#[rustfmt::skip]
mod records;
#[rustfmt::skip]
mod outside;
#[rustfmt::skip]
mod jvm;
#[rustfmt::skip]
mod frameworks;
#[rustfmt::skip]
mod closing;
mod several;
#[rustfmt::skip]
mod javascript;
#[rustfmt::skip]
mod common_words;
#[rustfmt::skip]
mod taken_back;
mod consequences;
mod invocations;
mod once;

pub(crate) use alarms::*;
pub(crate) use announced::*;
use buildpool_digest::Digest;
use buildpool_protocol::report::Verdict::{self, Crashed, Failed, Inconclusive, Passed};
pub(crate) use closing::*;
pub(crate) use common_words::*;
pub(crate) use consequences::*;
pub(crate) use frameworks::*;
pub(crate) use invocations::*;
pub(crate) use javascript::*;
pub(crate) use jvm::*;
pub(crate) use once::*;
pub(crate) use outside::*;
pub(crate) use records::*;
pub(crate) use runners::*;
pub(crate) use several::*;
pub(crate) use taken_back::*;
pub(crate) use unended::*;
pub(crate) use unknown::*;

/// A run and its expected result.
pub(crate) struct Run {
    pub(crate) what: &'static str,
    pub(crate) log: &'static str,
    pub(crate) code: i32,
    /// Verdict with the exit code, and from the log alone.
    verdicts: [Verdict; 2],
    /// Passed, failed, skipped and expected failures. None if no tool counts tests.
    tests: Option<[u64; 4]>,
    /// Expected parts of messages in the first tier. Parts joined by ` & ` are in one message.
    pub(crate) told: &'static [&'static str],
    /// Texts that no finding contains.
    untold: &'static [&'static str],
}

/// A good run without further expectations.
const RUN: Run =
    Run { what: "", log: "", code: 0, verdicts: [Passed, Passed], tests: None, told: &[], untold: &[] };
/// A run that failed.
const RUN_FAILED: Run = Run { code: 1, verdicts: [Failed, Failed], ..RUN };

impl Run {
    /// Differences from the expected digest. `known` is true if the digest was made with the exit
    /// code.
    pub(crate) fn faults(&self, digest: &Digest, known: bool) -> Vec<String> {
        let mut wrong = Vec::new();
        if digest.verdict != self.verdicts[usize::from(!known)] {
            wrong.push(format!("exit code known {known}: {:?}, {:?}", digest.verdict, digest.cause));
        }
        if !known {
            return wrong;
        }
        let tests = digest.tests.as_ref();
        let tests = tests.map(|tests| [tests.passed, tests.failed, tests.skipped, tests.expected_failures]);
        if tests != self.tests {
            wrong.push(format!("counted {tests:?}"));
        }
        let all: Vec<_> = digest.findings.iter().map(|found| (found.tier, &found.message)).collect();
        for told in self.told {
            // Lines without a matching recognizer are never in the first tier.
            let first = digest.findings.iter().map(|found| found.tier).min().unwrap_or(1);
            if !digest.findings.iter().any(|found| found.tier == first && says(&found.message, told)) {
                wrong.push(format!("no cause says {told:?}: {all:#?}"));
            }
        }
        for untold in self.untold {
            if digest.findings.iter().any(|found| found.message.contains(untold)) {
                wrong.push(format!("a finding says {untold:?}: {all:#?}"));
            }
        }
        wrong
    }
}

/// Returns true if a message contains all parts of `told`.
pub(crate) fn says(message: &str, told: &str) -> bool {
    told.split(" & ").all(|part| message.contains(part))
}

/// All runs.
pub(crate) fn runs() -> impl Iterator<Item = &'static Run> {
    let groups = [
        GOOD_WITH_WORDS,
        GLUED,
        CUT_SHORT,
        FAILING_WITH_WORDS,
        EACH_FAILURE,
        PRINTED_TOTALS,
        TASKS,
        UNKNOWN_TOOLS,
        WHOLE_MESSAGES,
        NO_CAUSES,
        REMARKS,
        REASONS,
        UNENDED,
        HIDDEN,
        HARMLESS,
        AFTER_MARKS,
        ALARMS,
        AFTER_ANOTHER,
        RECORDS,
        OUTSIDE,
        JVM,
        FRAMEWORKS,
        CLOSING,
        SEVERAL,
        JAVASCRIPT,
        COMMON_WORDS,
        TAKEN_BACK,
        NIM,
        INVOCATIONS,
        ONCE,
    ];
    groups.into_iter().flatten().chain(ANNOUNCED.iter().chain(CONSEQUENCES).map(|(run, _)| run))
}
