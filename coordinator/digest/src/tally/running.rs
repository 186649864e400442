//! Tests that began and have not ended.

use super::Family;
use crate::limits::RUNNING_TESTS_MAX;
use std::collections::BTreeMap;

/// Start count of each running test, by family and name; bounded by [`RUNNING_TESTS_MAX`].
#[derive(Debug, Default)]
pub(super) struct Running {
    tests: BTreeMap<Family, BTreeMap<String, u32>>,
    /// Number of distinct tests.
    count: usize,
    /// The test that started last.
    latest: Option<(Family, String)>,
}

impl Running {
    /// Whether further starts are ignored.
    pub(super) const fn is_full(&self) -> bool {
        self.count >= RUNNING_TESTS_MAX
    }

    pub(super) fn contains(&self, family: Family, test: &str) -> bool {
        self.tests.get(&family).is_some_and(|tests| tests.contains_key(test))
    }

    pub(super) fn begin(&mut self, family: Family, test: &str) {
        if self.is_full() {
            return;
        }
        let tests = self.tests.entry(family).or_default();
        match tests.get_mut(test) {
            Some(times) => *times += 1,
            None => {
                tests.insert(test.to_owned(), 1);
                self.count += 1;
            }
        }
        let (of, name) = self.latest.get_or_insert_with(|| (family, String::new()));
        *of = family;
        name.clear();
        name.push_str(test);
    }

    pub(super) fn end(&mut self, family: Family, test: &str) {
        let Some(tests) = self.tests.get_mut(&family) else { return };
        let Some(times) = tests.get_mut(test) else { return };
        *times -= 1;
        if *times == 0 {
            tests.remove(test);
            self.count -= 1;
        }
    }

    /// Takes a family's first test, however often it began.
    pub(super) fn take_first(&mut self, family: Family) -> Option<String> {
        let (test, _) = self.tests.get_mut(&family)?.pop_first()?;
        self.count -= 1;
        Some(test)
    }

    /// Number of unfinished starts of a family's tests.
    pub(super) fn times(&self, family: Family) -> u64 {
        let tests = self.tests.get(&family).into_iter().flat_map(BTreeMap::values);
        tests.copied().map(u64::from).sum()
    }

    /// The test that began last, unless it ended.
    pub(super) fn latest(&self) -> Option<(Family, &str)> {
        let (family, test) = self.latest.as_ref()?;
        self.contains(*family, test).then_some((*family, test))
    }

    /// Each family's tests and how often they began.
    pub(super) fn of_families(&self) -> impl Iterator<Item = (Family, &BTreeMap<String, u32>)> {
        self.tests.iter().map(|(family, tests)| (*family, tests))
    }
}
