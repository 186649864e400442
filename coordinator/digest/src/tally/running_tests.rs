//! Tests that began and have not ended.

use super::ToolId;
use crate::limits::RUNNING_TESTS_MAX;
use std::collections::BTreeMap;

/// A tool, and a part of its run if parts run at the same time: a hash of its name, else 0.
pub(super) type TestPlace = (ToolId, u64);

/// Start count of each running test, by place and name; bounded by [`RUNNING_TESTS_MAX`].
#[derive(Debug, Default)]
pub(super) struct RunningTests {
    tests: BTreeMap<TestPlace, BTreeMap<String, u32>>,
    /// Number of distinct tests.
    count: usize,
    /// The test that started last.
    latest: Option<(TestPlace, String)>,
}

impl RunningTests {
    /// Whether further starts are ignored.
    pub(super) const fn is_full(&self) -> bool {
        self.count >= RUNNING_TESTS_MAX
    }

    pub(super) fn contains(&self, place: TestPlace, test: &str) -> bool {
        self.tests.get(&place).is_some_and(|tests| tests.contains_key(test))
    }

    pub(super) fn begin(&mut self, place: TestPlace, test: &str) {
        if self.is_full() {
            return;
        }
        let tests = self.tests.entry(place).or_default();
        match tests.get_mut(test) {
            Some(times) => *times += 1,
            None => {
                tests.insert(test.to_owned(), 1);
                self.count += 1;
            }
        }
        let (of, name) = self.latest.get_or_insert_with(|| (place, String::new()));
        *of = place;
        name.clear();
        name.push_str(test);
    }

    pub(super) fn end(&mut self, place: TestPlace, test: &str) {
        let Some(tests) = self.tests.get_mut(&place) else { return };
        let Some(times) = tests.get_mut(test) else { return };
        *times -= 1;
        if *times == 0 {
            tests.remove(test);
            self.count -= 1;
        }
    }

    /// Returns true if tests of a tool run.
    pub(super) fn has_any(&self, tool: ToolId) -> bool {
        let mut places = self.tests.range((tool, 0)..=(tool, u64::MAX));
        places.any(|(_, tests)| !tests.is_empty())
    }

    /// Takes the first test of a place, however often it began.
    pub(super) fn take_first(&mut self, place: TestPlace) -> Option<String> {
        let (test, _) = self.tests.get_mut(&place)?.pop_first()?;
        self.count -= 1;
        Some(test)
    }

    /// Number of unfinished starts of a place's tests.
    pub(super) fn times(&self, place: TestPlace) -> u64 {
        let tests = self.tests.get(&place).into_iter().flat_map(BTreeMap::values);
        tests.copied().map(u64::from).sum()
    }

    /// The test that began last, unless it ended.
    pub(super) fn latest(&self) -> Option<(TestPlace, &str)> {
        let (place, test) = self.latest.as_ref()?;
        self.contains(*place, test).then_some((*place, test))
    }

    /// Each tool's tests and how often they began.
    pub(super) fn of_families(&self) -> impl Iterator<Item = (ToolId, &BTreeMap<String, u32>)> {
        self.tests.iter().map(|((tool, _), tests)| (*tool, tests))
    }
}
