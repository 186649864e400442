//! Targets of Bazel that print their own tests. Each of these tests counts instead of the target.

use super::Counts;
use crate::limits::RUNNING_TESTS_MAX;
use std::collections::BTreeMap;

/// Targets whose output has tests.
#[derive(Debug, Default)]
pub(super) struct BazelTargets {
    /// The target whose output follows, and the counts before it.
    open: Option<(String, Counts)>,
    /// Whether tests of the target failed.
    closed: BTreeMap<String, bool>,
}

impl BazelTargets {
    /// Begins the output of a target.
    pub(super) fn open(&mut self, target: &str, counts: Counts) {
        self.open = Some((target.to_owned(), counts));
    }

    /// Ends the output of the target, if one is open.
    pub(super) fn close(&mut self, counts: Counts) {
        if let Some((target, before)) = self.open.take()
            && counts.total() > before.total()
            && self.closed.len() < RUNNING_TESTS_MAX
        {
            self.closed.insert(target, counts.failed > before.failed);
        }
    }

    /// Returns true if no target has printed tests and closed.
    pub(super) fn is_empty(&self) -> bool {
        self.closed.is_empty()
    }

    /// The targets with tests, and whether some of these failed.
    pub(super) fn of_tests(&self, counts: Counts) -> impl Iterator<Item = (&str, bool)> {
        let open = self.open.as_ref().filter(|(_, before)| counts.total() > before.total());
        let open = open.map(|(target, before)| (target.as_str(), counts.failed > before.failed));
        self.closed.iter().map(|(target, failed)| (target.as_str(), *failed)).chain(open)
    }
}
