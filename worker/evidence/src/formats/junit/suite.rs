//! An open suite: what it says of itself, and what it lists.

use super::Case;
use super::repeats::Counts;
use super::xml::number;
use crate::text;
use quick_xml::events::BytesStart;
use std::sync::Arc;

/// An open `<testsuite>`, or the root around all of them.
#[derive(Default)]
pub(super) struct Suite {
    pub(super) name: String,
    pub(super) is_root: bool,
    /// The names of those around it and its own, and its file: what tells its tests from others of their name.
    pub(super) path: Arc<str>,
    /// Tests that it says it has.
    pub(super) declared_tests: Option<u64>,
    /// Cases that it lists, with those of the suites inside.
    pub(super) cases_listed: u64,
    /// Failures and errors that it says it has.
    pub(super) declared: Option<u64>,
    /// Failures and errors that it lists, with those of the suites inside.
    pub(super) listed: u64,
    /// Runs that failed and after which the test ran again, as far as they stand within its case; surefire counts each run.
    pub(super) earlier: u64,
    /// What is in the suites inside.
    pub(super) inner: Counts,
    /// Its own cases: only when all are known is it known which of them are attempts at one test.
    pub(super) cases: Vec<Case>,
}

impl Suite {
    /// What it declares and does not list, where that may be a failure.
    pub(super) fn left_out(&self) -> Option<String> {
        let which = match self.is_root {
            true => "the report".to_owned(),
            false => format!("suite {}", text::name(&self.name)),
        };
        match (self.declared, self.declared_tests) {
            (Some(declared), _) if declared > self.listed.saturating_add(self.earlier) => {
                let failures = text::counted(declared, "failure or error", "failures and errors");
                Some(format!("{which} declares {failures} and lists {}", self.listed))
            }
            // Nothing says that the others did not fail.
            (None, Some(tests)) if tests > self.cases_listed.saturating_add(self.earlier) => {
                let tests = text::counted(tests, "test", "tests");
                Some(format!(
                    "{which} declares {tests} without counting failures and lists {}",
                    self.cases_listed
                ))
            }
            _ => None,
        }
    }
}

/// A suite with nothing but what it says about itself.
pub(super) fn declared(start: &BytesStart<'_>) -> Suite {
    let declared = match (number(start, "failures"), number(start, "errors")) {
        (None, None) => None,
        (failures, errors) => Some(failures.unwrap_or(0).saturating_add(errors.unwrap_or(0))),
    };
    Suite { declared_tests: number(start, "tests"), declared, ..Suite::default() }
}
