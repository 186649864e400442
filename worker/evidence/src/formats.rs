//! Parsers for machine-readable test reports. They parse bytes and do no I/O.

pub(crate) mod cargo_json;
pub(crate) mod go_json;
mod json_lines;
pub(crate) mod junit;
pub(crate) mod tap;

use crate::text;
use buildpool_protocol::evidence::ReportIssue;
use buildpool_protocol::report::Severity;
use std::path::Path;

/// Lowercase substrings that mark a problem as a build problem.
const OF_BUILDS: &[&str] =
    &["compil", "build failed", "cannot find symbol", "syntaxerror", "undefined reference", "linker command"];

/// Creates an issue that a test runner reports outside its tests: tests did not run, or not all of
/// them.
fn runner_problem(message: &str, root: Option<&Path>) -> ReportIssue {
    let words = message.to_ascii_lowercase();
    let is_of_build = OF_BUILDS.iter().any(|word| words.contains(word));
    ReportIssue {
        path: String::new(),
        severity: Severity::Error,
        message: text::message(message),
        location: text::place_in(message, root),
        category: (!is_of_build).then(|| "tests".to_owned()),
        advice: None,
    }
}
