//! Names of tests with a result, for the history of tests, and their keys.

use crate::hashing::FastHasher;
use crate::limits::{NAMED_TEST_BYTES_MAX, NAMED_TESTS_MAX};
use crate::rules::TestEvent;
use crate::tool::ToolId;
use buildpool_protocol::evidence::TestStatus;

/// Returns the key of a test, of a part of a run if tests of several parts share names.
pub(super) fn test_key(tool: ToolId, part: Option<u64>, name: &str) -> u64 {
    let mut hasher = FastHasher::default();
    hasher.number(tool as u64);
    part.into_iter().for_each(|part| hasher.number(part));
    hasher.text(name);
    hasher.0
}

/// Returns the result that an event states.
pub(super) const fn status(event: TestEvent) -> Option<TestStatus> {
    match event {
        TestEvent::Passed => Some(TestStatus::Passed),
        TestEvent::Failed => Some(TestStatus::Failed),
        TestEvent::Skipped => Some(TestStatus::Skipped),
        TestEvent::ExpectedFailure => Some(TestStatus::ExpectedFailure),
        TestEvent::Started | TestEvent::Ended => None,
    }
}

/// Names of tests, each with the key of its last result, in the order of their first results.
#[derive(Debug, Default)]
pub(super) struct TestNames {
    tests: Vec<(u64, ToolId, Box<str>)>,
}

impl TestNames {
    /// Adds a test that has its first result. Long names, and names above the limit, are dropped.
    pub(super) fn add(&mut self, id: u64, tool: ToolId, test: &str) {
        if self.tests.len() < NAMED_TESTS_MAX && test.len() <= NAMED_TEST_BYTES_MAX {
            self.tests.push((id, tool, test.into()));
        }
    }

    /// Returns the names, oldest first.
    pub(super) fn tests(&self) -> impl Iterator<Item = (u64, ToolId, &str)> {
        self.tests.iter().map(|(id, tool, test)| (*id, *tool, &**test))
    }
}
