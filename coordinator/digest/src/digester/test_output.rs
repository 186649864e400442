//! Log lines of tests, kept by test until the test's failure is found elsewhere in the log.

use super::shown;
use std::collections::BTreeMap;

/// Limit on tests whose lines are kept.
const TESTS_MAX: usize = 256;
/// Limit on lines of each test.
const LINES_MAX: usize = 20;

/// Log lines by test.
#[derive(Debug, Default)]
pub(crate) struct TestOutput {
    /// The test that the following lines belong to.
    test: String,
    said: BTreeMap<String, Vec<String>>,
}

impl TestOutput {
    /// Assigns the following lines to `test`.
    pub(crate) fn set_test(&mut self, test: &str) {
        test.clone_into(&mut self.test);
    }

    /// Adds a line to the current test. Drops it if there is no test or a limit is reached.
    pub(crate) fn add(&mut self, line: &[u8]) {
        if self.test.is_empty() || self.said.len() == TESTS_MAX && !self.said.contains_key(&self.test) {
            return;
        }
        let lines = self.said.entry(self.test.clone()).or_default();
        if lines.len() < LINES_MAX {
            lines.push(shown(line));
        }
    }

    /// Removes and returns the lines of a test.
    pub(crate) fn take(&mut self, test: &str) -> Vec<String> {
        self.said.remove(test).unwrap_or_default()
    }
}
