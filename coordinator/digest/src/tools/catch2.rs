//! Output of Catch2.

use super::gtest::gtest_lines;
use crate::rules::{Diagnostic, ERROR, Effect, Kind, Rule, SORTS, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Catch2") };

/// Lines above a failure of Catch2: the heading with the names of the test case and its sections.
fn catch2_lead(line: &str) -> bool {
    !line.starts_with("~~~~") && !line.starts_with("====")
}

/// Reads the test's name from the heading between two rules, and removes the lines above it.
fn catch2_name(diagnostic: &mut Diagnostic) {
    let Some(head) = diagnostic.lines.iter().position(|line| line.ends_with(": FAILED:")) else { return };
    let is_rule = |line: &String| line.len() > 40 && line.bytes().all(|byte| byte == b'-');
    let mut names = Vec::new();
    let mut rules = diagnostic.lines[..head].iter().enumerate().rev().filter(|(_, line)| is_rule(line));
    if let (Some((end, _)), Some((start, _))) = (rules.next(), rules.next()) {
        names = diagnostic.lines[start + 1..end].to_vec();
    }
    if !names.is_empty() {
        diagnostic.test = Some(names.iter().map(|name| name.trim()).collect::<Vec<_>>().join(" / "));
    }
    diagnostic.head = Some(names.len());
    diagnostic.lines.splice(..head, names);
}

const RULES: &[Rule] = &[
    Rule {
        name: "catch2.place",
        pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+): FAILED:",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 94).lead(catch2_lead).follow(gtest_lines).refine(catch2_name),
        )],
    },
    Rule {
        name: "catch2.passed",
        pattern: r"^All tests passed \(\d+ assertions? in (?P<passed>\d+) test cases?\)",
        effects: &[Effect::Session(ToolId::Catch2), Effect::Counts(ToolId::Catch2, SORTS), Effect::Summary],
    },
    Rule {
        name: "catch2.summary",
        pattern: r"^(?:\[doctest\] )?test cases: +\d+(?: *\| *(?:(?P<passed>\d+) passed|(?P<expected>\d+) failed as expected|(?P<failed>\d+) failed|(?P<skipped>\d+) skipped))+ *$",
        effects: &[Effect::Session(ToolId::Catch2), Effect::Counts(ToolId::Catch2, SORTS), Effect::Summary],
    },
    Rule {
        // The number of passed tests is missing.
        name: "catch2.compact_failed",
        pattern: r"^Failed (?:both |all )?(?P<failed>[1-9]\d*) test cases?, failed (?:both |all )?\d+ assertions?\.$",
        effects: &[Effect::Session(ToolId::Catch2), Effect::Counts(ToolId::Catch2, SORTS), Effect::Summary],
    },
    Rule {
        name: "catch2.compact_passed",
        pattern: r"^Passed (?:both |all )?(?P<passed>\d+) test cases? (?:with \d+ assertions?|\(no assertions\))\.$",
        effects: &[Effect::Session(ToolId::Catch2), Effect::Counts(ToolId::Catch2, SORTS), Effect::Summary],
    },
];
