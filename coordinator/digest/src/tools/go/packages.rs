//! Packages of `go test` that failed, and the tests by name with which a later run clears their failure.

use crate::hashing::hashed;
use crate::limits::RUNNING_TESTS_MAX;
use crate::machines::MatchedLine;
use crate::tally::FailedByPart;
use crate::tool::ToolId;
use std::collections::BTreeSet;

/// Tests by the hashes of their names. The tally can't separate equal names of two packages in runs of different packages.
#[derive(Debug, Default)]
struct NamedTests {
    failed: FailedByPart<u64>,
    /// Those that passed in the package under way, while a failed package awaits them.
    passed: BTreeSet<u64>,
    /// The line with which the program of the tests ended: `FAIL`. Without it, tests may be missing.
    ended: Option<u64>,
}

impl NamedTests {
    fn of<'m>(line: &'m mut MatchedLine<'_>) -> &'m mut Self {
        if line.machines.get::<Self>().is_none() {
            line.machines.set(Self::default());
        }
        line.machines.get_mut().expect("it was just set")
    }
}

/// A test or a benchmark failed, named in group `t`.
pub(super) fn named_failed(line: &mut MatchedLine<'_>) {
    let test = hashed(line.text("t"));
    NamedTests::of(line).failed.failed(test);
}

/// A test passed, named in group `t`. Only tests that failed before are of interest.
pub(super) fn named_passed(line: &mut MatchedLine<'_>) {
    let awaits = |tests: &NamedTests| !tests.failed.is_empty() && tests.passed.len() < RUNNING_TESTS_MAX;
    if line.machines.get::<NamedTests>().is_some_and(awaits) {
        let test = hashed(line.text("t"));
        NamedTests::of(line).passed.insert(test);
    }
}

/// Most lines between that `FAIL` and the line of the package: its exit status.
const PACKAGE_LINES_MAX: u64 = 2;

/// The package in group `u` failed.
pub(super) fn package_failed(line: &mut MatchedLine<'_>) {
    line.over(false);
    let (package, order) = (line.text("u"), line.order);
    let tests = NamedTests::of(line);
    let has_ended = tests.ended.take().is_some_and(|ended| order - ended <= PACKAGE_LINES_MAX);
    tests.passed.clear();
    if tests.failed.part_failed(&package) && has_ended {
        line.markers.runs.tests_failed(ToolId::GoTest, &package);
    }
    line.tally.part_ended(ToolId::GoTest, &package, false);
    line.markers.runs.fails_at(ToolId::GoTest, &package);
}

/// The package in group `u` passed.
pub(super) fn package_passed(line: &mut MatchedLine<'_>) {
    line.over(true);
    let package = line.text("u");
    if !line.body.ends_with(b"[no tests to run]") {
        line.tally.part_ended(ToolId::GoTest, &package, true);
    }
    line.markers.runs.works_on(ToolId::GoTest, &package);
    let Some(tests) = line.machines.get_mut::<NamedTests>() else { return };
    tests.ended = None;
    let passed = std::mem::take(&mut tests.passed);
    if tests.failed.part_passed(&package, |failed| failed.is_subset(&passed)).is_some() {
        line.markers.runs.tests_passed(ToolId::GoTest, &package);
    }
}

/// The program of the tests ended with `FAIL`.
pub(super) fn tests_ended(line: &mut MatchedLine<'_>) {
    let order = line.order;
    NamedTests::of(line).ended = Some(order);
}
