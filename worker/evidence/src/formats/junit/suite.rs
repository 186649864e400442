//! An open suite: its declared counts, and the cases it lists.

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
    /// Names of the surrounding suites, its own name and its file. It separates tests with the same
    /// name.
    pub(super) path: Arc<str>,
    /// Number of tests that the suite declares.
    pub(super) declared_tests: Option<u64>,
    /// Number of listed cases, including inner suites.
    pub(super) cases_listed: u64,
    /// Number of failures and errors that the suite declares.
    pub(super) declared: Option<u64>,
    /// Number of listed failures and errors, including inner suites.
    pub(super) listed: u64,
    /// Failed runs listed inside the case of a test that ran again. surefire counts each run.
    pub(super) earlier: u64,
    /// Counts of the inner suites.
    pub(super) inner: Counts,
    /// Its own cases. They are kept until the end, because only then attempts and separate tests
    /// can be distinguished.
    pub(super) cases: Vec<Case>,
}

impl Suite {
    /// Returns a message if the suite declares more than it lists and the difference may hide a
    /// failure.
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
            // Without a count of failures, the missing tests may have failed.
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

/// Creates a suite with only its declared counts.
pub(super) fn declared(start: &BytesStart<'_>) -> Suite {
    let declared = match (number(start, "failures"), number(start, "errors")) {
        (None, None) => None,
        (failures, errors) => Some(failures.unwrap_or(0).saturating_add(errors.unwrap_or(0))),
    };
    Suite { declared_tests: number(start, "tests"), declared, ..Suite::default() }
}
