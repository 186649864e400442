//! What tests logged while they ran, where the line that tells how one ended stands elsewhere.

use std::collections::BTreeMap;

/// Tests of which it is kept.
const TESTS_MAX: usize = 256;
/// Lines of each.
const LINES_MAX: usize = 20;

/// Lines by test.
#[derive(Debug, Default)]
pub(super) struct Logs {
    /// The test that speaks.
    test: String,
    said: BTreeMap<String, Vec<String>>,
}

impl Logs {
    /// What is logged from here on is of this test.
    pub(super) fn speaks(&mut self, test: &str) {
        test.clone_into(&mut self.test);
    }

    /// The test that speaks says this.
    pub(super) fn says(&mut self, line: &str) {
        if self.test.is_empty() || self.said.len() == TESTS_MAX && !self.said.contains_key(&self.test) {
            return;
        }
        let lines = self.said.entry(self.test.clone()).or_default();
        if lines.len() < LINES_MAX {
            lines.push(line.to_owned());
        }
    }

    /// What a test said, once.
    pub(super) fn take(&mut self, test: &str) -> Vec<String> {
        self.said.remove(test).unwrap_or_default()
    }
}
