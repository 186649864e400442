//! Output of doctest, the test framework for C++.

use super::gtest::gtest_lines;
use crate::rules::{
    Diagnostic, ERROR, Effect, FAILS_WITHOUT_TESTS, FATAL, Indicator, Kind, Level, Problem, RUNS, Rule,
    SORTS, problem,
};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("doctest") };

/// Lines above a failure, down from the rule: the place and the names of the test case and its subcases.
fn heading(line: &str) -> bool {
    !line.starts_with("====") && !line.contains("ERROR: ")
}

/// Reads the test's name from the heading, and removes the other lines above the message.
fn named(diagnostic: &mut Diagnostic) {
    let Some(head) = diagnostic.lines.iter().position(|line| line.contains("ERROR: ")) else { return };
    let begin = diagnostic.lines[..head].iter().rposition(|line| is_name(line));
    let names = begin.map_or(&[][..], |begin| &diagnostic.lines[begin..head]);
    let names: Vec<&str> =
        names.iter().map(|line| without_title(line)).filter(|name| !name.is_empty()).collect();
    if !names.is_empty() {
        diagnostic.test = Some(names.join(" / "));
    }
    diagnostic.lines.drain(..head);
    diagnostic.head = Some(0);
}

fn is_name(line: &str) -> bool {
    line.starts_with("TEST CASE:  ") || line.starts_with("  Scenario: ")
}

fn without_title(line: &str) -> &str {
    line.strip_prefix("TEST CASE:  ").unwrap_or(line).trim()
}

const fn failure(level: Level, kind: Kind) -> Problem {
    problem(level, kind, 95).lead(heading).follow(gtest_lines).refine(named)
}

const RULES: &[Rule] = &[
    Rule {
        name: "doctest_cpp.died",
        pattern: r"^(?P<f>[^\s:(]+)(?::|\()(?P<l>\d+)\)?: FATAL ERROR: test case CRASHED: (?P<sig>SIG[A-Z]+) - ",
        effects: &[Effect::Problem(failure(FATAL, Kind::Crash)), Effect::Crash(Indicator::ChildDied(""))],
    },
    Rule {
        name: "doctest_cpp.failed",
        pattern: r"^(?P<f>[^\s:(]+)(?::|\()(?P<l>\d+)\)?: (?:FATAL )?ERROR: (?P<m>.*)",
        effects: &[Effect::IfKnown(ToolId::DoctestCpp), Effect::Problem(failure(ERROR, Kind::Test))],
    },
    Rule {
        name: "doctest_cpp.begins",
        pattern: r#"^\[doctest\] (?:doctest version is |run with "--help" for options)"#,
        effects: &[RUNS],
    },
    Rule {
        name: "doctest_cpp.summary",
        pattern: r"^\[doctest\] test cases: +\d+(?: *\| *(?:(?P<passed>\d+) passed|(?P<expected>\d+) failed as expected|(?P<failed>\d+) failed|\d+ skipped))+ *\|? *$",
        effects: &[Effect::Session, Effect::Counts(SORTS), Effect::Summary],
    },
    Rule {
        name: "doctest_cpp.none",
        pattern: r"^\[doctest\] test cases: +0 \|",
        effects: &[FAILS_WITHOUT_TESTS],
    },
    Rule {
        name: "doctest_cpp.failure",
        pattern: r"^\[doctest\] Status: FAILURE!$",
        effects: &[Effect::Failure, Effect::Summary],
    },
];
