//! Treats test files that failed to load or compile as build errors, because no test in them ran.

use crate::findings::{Findings, RawFinding};
use crate::rules::{Kind, Role};
use buildpool_protocol::report::TestCounts;

/// Texts of such a failure, and whether the runner counts it as a failed test.
const SIGNS: &[(&str, bool)] = &[
    ("ERROR collecting ", true),
    ("unittest.loader._FailedTest", true),
    ("An error occurred while loading ", true),
    ("Test suite failed to run", false),
];
/// Sets the kind of such failures to `Build`. Also returns how many of them the runners count as failed
/// tests.
pub(crate) fn attributed(mut findings: Findings) -> (Findings, u64) {
    let mut counted = 0;
    for found in &mut findings.errors {
        if let Some(is_counted) = sign(found) {
            found.kind = Kind::Build;
            counted += u64::from(is_counted);
        }
    }
    (findings, counted)
}

fn sign(found: &RawFinding) -> Option<bool> {
    if !matches!(found.kind, Kind::Test | Kind::Runtime) {
        return None;
    }
    let says = |text: &str| found.lines.iter().any(|line| line.contains(text));
    if found.role == Role::Loading && found.location.is_some() {
        return Some(false);
    }
    SIGNS.iter().find(|(text, _)| says(text)).map(|(_, is_counted)| *is_counted)
}

/// Subtracts files that were counted as tests. Returns None if no test is left.
pub(crate) fn without(counts: TestCounts, files: u64) -> Option<TestCounts> {
    let files = files.min(counts.failed);
    let counts = TestCounts { failed: counts.failed - files, total: counts.total - files, ..counts };
    (files == 0 || counts.total > 0).then_some(counts)
}
