//! The tests that failed in each part of a run, such as a package, until the part passes.

use crate::hashing::hashed;
use crate::limits::RUNNING_TESTS_MAX;
use std::collections::{BTreeMap, BTreeSet};

/// Failed tests by part, at most [`RUNNING_TESTS_MAX`] of them. Further ones are not kept. Parts are kept as hashes of
/// their names, and only those with tests.
#[derive(Debug)]
pub(crate) struct FailedByPart<T> {
    /// Those of the part under way.
    open: BTreeSet<T>,
    /// Those of each part that ended.
    ended: BTreeMap<u64, BTreeSet<T>>,
    /// Number of tests in both.
    count: usize,
    /// True if a test was not kept.
    lacks_some: bool,
}

impl<T> Default for FailedByPart<T> {
    fn default() -> Self {
        Self { open: BTreeSet::new(), ended: BTreeMap::new(), count: 0, lacks_some: false }
    }
}

impl<T: Ord> FailedByPart<T> {
    pub(crate) fn failed(&mut self, test: T) {
        if self.count >= RUNNING_TESTS_MAX {
            self.lacks_some = true;
        } else if self.open.insert(test) {
            self.count += 1;
        }
    }

    /// The part under way failed. Returns true if all its failed tests are known, and there are any.
    pub(crate) fn part_failed(&mut self, name: &str) -> bool {
        let mut open = std::mem::take(&mut self.open);
        if open.is_empty() {
            return false;
        }
        let held = self.ended.entry(hashed(name)).or_default();
        self.count -= open.len() + held.len();
        held.append(&mut open);
        self.count += held.len();
        !self.lacks_some
    }

    /// The part under way passed. Takes the tests that failed in it before, if they fulfil the condition.
    pub(crate) fn part_passed(
        &mut self,
        name: &str,
        is_met: impl FnOnce(&BTreeSet<T>) -> bool,
    ) -> Option<BTreeSet<T>> {
        self.count -= std::mem::take(&mut self.open).len();
        let part = hashed(name);
        let tests = if is_met(self.ended.get(&part)?) { self.ended.remove(&part) } else { None }?;
        self.count -= tests.len();
        Some(tests)
    }

    /// Returns true if no part that ended awaits a run in which it passes.
    pub(crate) fn is_empty(&self) -> bool {
        self.ended.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{FailedByPart, RUNNING_TESTS_MAX};
    use std::collections::BTreeSet;

    #[test]
    fn a_part_keeps_its_failed_tests_until_it_passes() {
        let mut tests = FailedByPart::default();
        for _ in 0..2 * RUNNING_TESTS_MAX {
            tests.failed(1);
            assert!(tests.part_failed("a"), "a repeated test takes no further room");
        }
        tests.failed(2);
        assert!(tests.part_failed("b"));
        tests.failed(3);
        assert_eq!(tests.part_passed("a", |_| false), None);
        assert_eq!(tests.part_passed("a", |_| true), Some(BTreeSet::from([1])));
        assert_eq!(tests.part_passed("a", |_| true), None);
        assert_eq!((tests.count, tests.is_empty()), (1, false));
        assert_eq!(tests.part_passed("b", |_| true), Some(BTreeSet::from([2])));
        assert_eq!((tests.count, tests.is_empty()), (0, true));
    }

    #[test]
    fn parts_and_tests_without_limit_are_not_kept() {
        let mut tests = FailedByPart::default();
        for part in 0..2 * RUNNING_TESTS_MAX {
            assert!(!tests.part_failed(&part.to_string()), "it names no test");
        }
        assert!(tests.is_empty());
        for part in 0..2 * RUNNING_TESTS_MAX {
            tests.failed(part);
            assert_eq!(tests.part_failed(&part.to_string()), part < RUNNING_TESTS_MAX);
        }
        assert_eq!((tests.count, tests.ended.len()), (RUNNING_TESTS_MAX, RUNNING_TESTS_MAX));
    }
}
