//! Output of GoogleTest.

use crate::rules::{ERROR, Effect, FAILS_WITHOUT_TESTS, Kind, Next, Rule, SORTS, TestEvent, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool {
    begins_each: true,
    runs_them_itself: true,
    totals_begin: true,
    names_failed_in_brief: true,
    rules: RULES,
    ..Tool::named("GoogleTest")
};

/// A GoogleTest failure's lines: up to the next bracketed line.
pub(super) fn gtest_lines(so_far: &[String], line: &str) -> Next {
    // `ctest -V` puts the test's number before each line.
    let digits = line.chars().take_while(char::is_ascii_digit).count();
    let line = line[digits..].strip_prefix(": ").filter(|_| digits > 0).unwrap_or(line);
    if line.starts_with('[') || line.contains(": Failure") || line.trim().is_empty() || so_far.len() > 40 {
        Next::Beyond
    } else {
        Next::Part
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "gtest.session",
        pattern: r"^(?:\d+: )?\[==========\] (?:(?P<t>\S.*): )?Running (?P<n>\d+) test(?:s? from |\(s\)\.$)",
        effects: &[Effect::Session, Effect::Own(|line| line.part()), Effect::Announces],
    },
    Rule {
        name: "gtest.run",
        pattern: r"^.*\[ RUN      \] (?P<t>\S+)$",
        effects: &[Effect::Test(TestEvent::Started)],
    },
    Rule {
        name: "gtest.ok",
        pattern: r"^.*\[       OK \] (?P<t>[^\s,]+)(?:, where .*)?(?: \(\d+ ms\))?$",
        effects: &[Effect::Test(TestEvent::Passed)],
    },
    Rule {
        name: "gtest.skipped",
        pattern: r"^.*\[  SKIPPED \] (?P<t>[^\s,]+)(?:, where .*)?(?: \(\d+ ms\))?$",
        effects: &[Effect::Test(TestEvent::Skipped)],
    },
    Rule {
        name: "gtest.failed",
        pattern: r"^.*\[  FAILED  \] (?P<t>[^\s,]+)(?:, where .*)?(?: \(\d+ ms\))?$",
        effects: &[Effect::Test(TestEvent::Failed), Effect::Problem(problem(ERROR, Kind::Test, 90).bare())],
    },
    Rule {
        name: "gtest.place",
        pattern: r"^(?:\d+: )?(?P<f>[^\s:]+):(?P<l>\d+): Failure$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 95).follow(gtest_lines))],
    },
    Rule {
        name: "gtest.exception",
        pattern: r"^(?:\d+: )?(?:unknown file: Failure|C\+\+ exception with description)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 92).follow(gtest_lines))],
    },
    Rule {
        name: "gtest.passed",
        pattern: r"^(?:\d+: )?\[  PASSED  \] (?P<passed>\d+) test(?:s|\(s\))?\.",
        effects: &[Effect::Counts(SORTS), Effect::Summary],
    },
    Rule {
        name: "gtest.none",
        pattern: r"^(?:\d+: )?\[==========\] 0 tests from 0 test (?:suites|cases) ran\.",
        effects: &[FAILS_WITHOUT_TESTS],
    },
    Rule {
        // A failure outside of tests: printed only after a failure. Other runners end with this line without one.
        name: "gtest.failed_outside",
        pattern: r"^(?:\d+: )?\s+0 FAILED TESTS$",
        effects: &[Effect::Summary, Effect::IfKnown(ToolId::GoogleTest), Effect::Failure],
    },
    Rule {
        name: "gtest.failures",
        pattern: r"^(?:\d+: )?\s*(?P<failed>[1-9]\d*) FAILED TEST(?:S|\(S\))?$",
        effects: &[Effect::Adds(SORTS), Effect::Summary],
    },
    Rule {
        name: "gtest.skips",
        pattern: r"^(?:\d+: )?\[  SKIPPED \] (?:\S.*: )?(?P<skipped>\d+) test(?:s|\(s\))?, listed below:$",
        effects: &[Effect::Adds(SORTS)],
    },
];
