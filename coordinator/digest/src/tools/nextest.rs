//! Output of cargo nextest.

use super::compiler::CHILD_DIED;
use super::libtest::panicked;
use crate::rules::{
    Diagnostic, ERROR, Effect, FAILS_WITHOUT_TESTS, Kind, Next, Rule, SORTS, TestEvent, problem,
};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool {
    runs_tests: true,
    panics_are_failed_tests: true,
    program: Some(ToolId::Cargo),
    hosts: Some(ToolId::CargoTest),
    rules: RULES,
    ..Tool::named("cargo nextest")
};

/// nextest's heading above a test's output, which it indents.
fn is_nextest_heading(line: &str) -> bool {
    ["  stdout ─", "  stderr ─", "  output ─"].iter().any(|heading| line.starts_with(heading))
}

/// A failed test's output below nextest's own line.
fn nextest_output(so_far: &[String], line: &str) -> Next {
    let is_own = line.trim_start().starts_with(|c: char| c.is_ascii_uppercase()) && line.contains("s] ");
    if is_nextest_heading(line) {
        Next::Part
    } else if !so_far.iter().any(|line| is_nextest_heading(line)) {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else if line.starts_with("    ") && !is_own {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// Of the output the panic, without its trace.
fn nextest_words(diagnostic: &mut Diagnostic) {
    panicked(diagnostic);
    let Some(from) = diagnostic
        .lines
        .iter()
        .position(|line| line.contains("' panicked at ") || line.contains(") panicked at "))
    else {
        diagnostic.lines.truncate(1);
        return;
    };
    diagnostic.lines.drain(1..from);
    let is_trace = |line: &String| {
        let line = line.trim_start();
        line.starts_with("note: ") || line.starts_with("stack backtrace:") || line.is_empty()
    };
    let until = diagnostic.lines.iter().position(is_trace).unwrap_or(diagnostic.lines.len());
    diagnostic.lines.truncate(until);
    diagnostic.bare = false;
}

const RULES: &[Rule] = &[
    Rule {
        name: "nextest.died",
        pattern: r"^\s+(?:TRY \d+ )?(?P<sig>SIG[A-Z]+) \[\s*[\d.]+s\]\s",
        effects: &[CHILD_DIED],
    },
    Rule {
        name: "nextest.session",
        pattern: r"^(?: Nextest run ID |\s+Starting (?P<n>\d+) tests? across )",
        effects: &[Effect::Session, Effect::Announces],
    },
    Rule {
        name: "nextest.passed",
        pattern: r"^\s+(?:TRY \d+ )?(?:PASS|LEAK) \[[ >]*[\d.]+s\]\s+(?:\((?:\s*\d+/\d+|(?:\xe2\x94\x80)+)\) )?(?P<t>.+)$",
        effects: &[Effect::Test(TestEvent::Passed)],
    },
    Rule {
        name: "nextest.failed",
        pattern: r"^\s+(?:TRY \d+ )?(?:FAIL|TIMEOUT|ABORT|SIG[A-Z]+|LEAK-FAIL) \[\s*[\d.]+s\]\s+(?:\((?:\s*\d+/\d+|(?:\xe2\x94\x80)+)\) )?(?P<t>.+)$",
        effects: &[
            Effect::Test(TestEvent::Failed),
            Effect::Problem(
                problem(ERROR, Kind::Test, 92).bare().follow(nextest_output).refine(nextest_words),
            ),
        ],
    },
    Rule {
        name: "nextest.none",
        pattern: r"^error: no tests to run$",
        effects: &[Effect::Harmless, FAILS_WITHOUT_TESTS, Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "nextest.summary",
        pattern: r"^\s+Summary \[\s*[\d.]+s\]\s+\d+(?:/\d+)? tests? run: (?P<passed>\d+) passed(?: \([^)]*\))?(?:, (?P<failed>\d+) failed)?(?:, (?P<failed2>\d+) timed out)?(?:, (?P<skipped>\d+) skipped)?",
        effects: &[Effect::Counts(SORTS), Effect::Summary],
    },
];
