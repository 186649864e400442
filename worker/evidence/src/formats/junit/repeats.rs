//! Decides if test cases of one suite with the same name are attempts at one test or separate
//! tests.

use super::{Case, Suite};
use crate::text;
use buildpool_protocol::evidence::TestStatus;
use std::collections::HashMap;
use std::sync::Arc;

/// Limit on the test names in a note.
const NAMES_SHOWN: usize = 5;

/// Key of a test within a suite: name, arguments and place.
type Key = (String, Option<String>, String);

/// Number of tests in a suite, and number of tests that failed in their last run.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) tests: u64,
    pub(super) failed: u64,
    /// Failures and errors of runs that were followed by another run of the same test.
    pub(super) taken_back: u64,
}

/// Cases with the same key, as indexes in the order of the report.
struct Group {
    cases: Vec<usize>,
    /// True if each case is marked as one of several runs.
    is_explicit: bool,
}

/// Sets `within` for cases that are separate tests, and counts the tests. The note lists tests that
/// could also be attempts with a later pass.
pub(super) fn distinguish(cases: &mut [Case], suite: &Suite) -> (Counts, Option<String>) {
    let groups = groups(cases);
    let (attempts, apart) = (counts(cases, &groups, true), counts(cases, &groups, false));
    let are_attempts = attempts.tests == apart.tests || counts_attempts(suite, attempts, apart);
    let ambiguous = if are_attempts { Vec::new() } else { ambiguous(cases, &groups) };
    number(cases, &groups, are_attempts, suite);
    (if are_attempts { attempts } else { apart }, remark(&ambiguous, suite))
}

/// Numbers the tests that share name and arguments.
fn number(cases: &mut [Case], groups: &[Group], are_attempts: bool, suite: &Suite) {
    let mut tests: HashMap<(String, Option<String>), Vec<&[usize]>> = HashMap::new();
    for group in groups {
        let Some(first) = group.cases.first() else { continue };
        let run = &cases[*first].run;
        let of_name = tests.entry((run.name.clone(), run.arguments.clone())).or_default();
        match are_attempts || group.is_explicit {
            true => of_name.push(&group.cases),
            false => of_name.extend(group.cases.chunks(1)),
        }
    }
    for of_name in tests.into_values().filter(|of_name| of_name.len() > 1) {
        for (test, number) in of_name.into_iter().zip(1..) {
            test.iter().for_each(|at| cases[*at].run.within = apart_within(&suite.path, number));
        }
    }
}

/// Returns the names for which some cases failed and some did not.
fn ambiguous(cases: &[Case], groups: &[Group]) -> Vec<String> {
    let shared = groups.iter().filter(|group| !group.is_explicit && group.cases.len() > 1);
    let names = shared.filter_map(|group| {
        let failed = group.cases.iter().filter(|at| cases[**at].has_failed()).count();
        let name = &cases[*group.cases.first()?].run.name;
        (failed > 0 && failed < group.cases.len())
            .then(|| format!("{name} ({failed} of {} failed)", group.cases.len()))
    });
    names.collect()
}

/// Returns the `within` text for one of several tests with the same name.
pub(super) fn apart_within(path: &str, number: u64) -> Arc<str> {
    let path = if path.is_empty() { String::new() } else { format!("{path}, ") };
    format!("{path}test {number}").into()
}

/// Decides from the counts that the suite declares. The cases are attempts if two conditions hold.
/// The suite declares as many tests as there are names. It declares no more failures than remain
/// when only the last run counts. Any other rule could hide a failed test.
fn counts_attempts(suite: &Suite, attempts: Counts, apart: Counts) -> bool {
    let (Some(tests), Some(failures)) = (suite.declared_tests, suite.declared) else { return false };
    let names = attempts.tests.saturating_add(suite.inner.tests);
    let failed = attempts.failed.saturating_add(suite.inner.failed);
    tests == names && tests != apart.tests && failures <= failed
}

fn groups(cases: &[Case]) -> Vec<Group> {
    let mut index: HashMap<Key, usize> = HashMap::with_capacity(cases.len());
    let mut groups: Vec<Group> = Vec::with_capacity(cases.len());
    for (at, case) in cases.iter().enumerate() {
        let key = (case.run.name.clone(), case.run.arguments.clone(), case.place.clone());
        let group = *index.entry(key).or_insert(groups.len());
        match groups.get_mut(group) {
            Some(known) => {
                known.cases.push(at);
                known.is_explicit &= case.is_repetition;
            }
            None => groups.push(Group { cases: vec![at], is_explicit: case.is_repetition }),
        }
    }
    groups
}

fn counts(cases: &[Case], groups: &[Group], attempts: bool) -> Counts {
    let mut counts = Counts::default();
    for group in groups {
        let from = if attempts || group.is_explicit { group.cases.len().saturating_sub(1) } else { 0 };
        let counted = group.cases.get(from..).unwrap_or_default();
        let earlier = group.cases.get(..from).unwrap_or_default();
        counts.taken_back += earlier.iter().map(|at| cases[*at].listed()).sum::<u64>();
        counts.tests += counted.len() as u64;
        counts.failed += counted.iter().filter(|at| cases[**at].has_failed()).count() as u64;
    }
    counts
}

fn remark(ambiguous: &[String], suite: &Suite) -> Option<String> {
    let shown = ambiguous.get(..NAMES_SHOWN.min(ambiguous.len()))?.join(", ");
    let more = match ambiguous.len().saturating_sub(NAMES_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let which =
        if suite.name.is_empty() { String::new() } else { format!("suite {}: ", text::name(&suite.name)) };
    (!ambiguous.is_empty()).then(|| {
        format!("{which}tests that share a name count as different tests, because nothing marks them as attempts at one test: {shown}{more}")
    })
}

impl Case {
    /// Returns the number of failures and errors that the case lists.
    pub(super) fn listed(&self) -> u64 {
        self.failures.max(u64::from(self.run.status == TestStatus::Failed))
    }

    /// Returns true if this case is a failed teardown of `test`. pytest writes it as a separate
    /// case.
    pub(super) fn is_teardown_of(&self, test: &Self) -> bool {
        let is_teardown =
            self.run.messages.first().is_some_and(|message| message.starts_with("failed on teardown with "));
        let is_same = self.run.name == test.run.name && self.place == test.place;
        is_teardown && is_same && test.failures > 0
    }

    /// Returns true if the suite counts this case as failed. Node also counts `todo` tests.
    fn has_failed(&self) -> bool {
        self.failures > 0 || self.run.status == TestStatus::Failed
    }
}
