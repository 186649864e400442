//! Corrects the findings of a log once the whole log is known.

use crate::attempt_facts::Facts;
use crate::findings::{Findings, RawFinding};
use crate::load_failures;
use crate::machine_faults;
use crate::markers::Markers;
use crate::ranking;
use crate::rules::{Kind, Role};
use crate::tally::Tally;
use std::collections::BTreeSet;

/// Certainty, in percent, of a test failure if the test passed in the end.
const FLAKY_SURE: u8 = 50;

/// Findings of the log and of report files.
pub(super) struct Classified {
    pub(super) findings: Findings,
    /// Number of test files that could not be loaded and that runners count as failed tests.
    pub(super) load_failures: u64,
}

/// Corrects the findings of the log, in this order, and adds those of report files.
pub(super) fn classified(
    mut findings: Findings,
    markers: &Markers,
    tally: &Tally,
    facts: &Facts,
) -> Classified {
    if facts.exited_zero() || !markers.runs.build_failed() {
        findings.take_back_build_errors();
    }
    let findings = with_lists_merged(findings);
    let findings = if facts.acted.is_some() { without_echo_of_stacks(findings) } else { findings };
    let findings = machine_faults::attributed(findings);
    let (mut findings, load_failures) = load_failures::attributed(findings);
    findings.take_back_words(0, markers.failed_total);
    let findings = with_flaky_tests(findings, |test| tally.is_flaky(test));
    Classified { findings: ranking::with_reports(findings, &facts.evidence), load_failures }
}

/// Removes the shell's line about a process that printed its stacks at the pool's signal.
fn without_echo_of_stacks(mut findings: Findings) -> Findings {
    if findings.errors.iter().any(|found| found.role == Role::Stacks) {
        findings.errors.retain(|found| found.role != Role::AbortEcho);
    }
    findings
}

/// Lowers the certainty of failures of flaky tests, because a test that passed in the end is not a
/// cause.
fn with_flaky_tests(mut findings: Findings, is_flaky: impl Fn(&str) -> bool) -> Findings {
    for found in &mut findings.errors {
        if found.kind == Kind::Test && found.test.as_deref().is_some_and(&is_flaky) {
            found.sure = found.sure.min(FLAKY_SURE);
        }
    }
    findings
}

/// Removes list entries of a failed test if the test's own message exists under its full name.
/// Lines of Maven's list are appended to that message.
fn with_lists_merged(mut findings: Findings) -> Findings {
    let (listed, mut told): (Vec<RawFinding>, Vec<RawFinding>) = std::mem::take(&mut findings.errors)
        .into_iter()
        .partition(|found| found.bare && found.kind == Kind::Test && found.test.is_some());
    let mut added = BTreeSet::new();
    for found in listed {
        let name = found.test.as_deref().unwrap_or_default();
        let tells = |other: &RawFinding| {
            !other.bare && other.test.as_deref().is_some_and(|test| is_named_in_full(test, name))
        };
        let full: Vec<usize> =
            told.iter().enumerate().filter(|(_, other)| tells(other)).map(|(at, _)| at).collect();
        let Some(first) = full.first().copied() else {
            told.push(found);
            continue;
        };
        findings.errors_total -= 1;
        if told[first].location.is_none() {
            told[first].location.clone_from(&found.location);
        }
        if found.role == Role::Listed {
            let at = full.into_iter().find(|at| !added.contains(at)).unwrap_or(first);
            added.insert(at);
            told[at].lines.extend(found.lines);
        }
    }
    told.sort_by_key(|found| found.order);
    findings.errors = told;
    findings
}

/// Returns true if `name` from a list is the test's name. Lists omit the enclosing names and the
/// arguments of parameterized tests.
fn is_named_in_full(test: &str, name: &str) -> bool {
    let bare = test.find(['[', '{']).map_or(test, |at| &test[..at]);
    [test, bare].iter().any(|test| {
        let rest = test.strip_suffix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with(" > ") || rest.ends_with('.'))
    })
}
