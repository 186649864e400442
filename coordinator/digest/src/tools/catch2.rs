//! Output of Catch2.

use super::gtest::gtest_lines;
use crate::rules::{
    Diagnostic, ERROR, Effect, FAILS_WITHOUT_TESTS, Indicator, Kind, Next, RUNS, Rule, SORTS, indented,
    problem,
};
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

/// The message is below the heading.
fn usage(diagnostic: &mut Diagnostic) {
    diagnostic.head = (diagnostic.lines.len() > 1).then_some(1);
}

/// The content of an element, and its end.
fn xml_lines(so_far: &[String], line: &str) -> Next {
    let text = line.trim();
    if text.starts_with("</Expression") || text.starts_with("</Exception") || text.starts_with("</FatalError")
    {
        Next::Last
    } else if so_far.len() < 10 {
        Next::Part
    } else {
        Next::Beyond
    }
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
        // The next line names the signal. It follows the message of the failure.
        name: "catch2.died",
        pattern: r"^  (?P<sig>SIG[A-Z]+) - .* signal$",
        effects: &[Effect::IfKnown(ToolId::Catch2), Effect::Crash(Indicator::ChildDied(""))],
    },
    Rule {
        name: "catch2.begins",
        pattern: r"^\S+ is a Catch2? v[\d.]+ host application\.$",
        effects: &[RUNS],
    },
    Rule {
        name: "catch2.none",
        pattern: r"^(?:No tests ran\.?$|No test cases matched ')",
        effects: &[FAILS_WITHOUT_TESTS],
    },
    Rule {
        name: "catch2.usage",
        pattern: r"^Error\(s\) in input:$",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Runtime, 88).follow(indented).refine(usage)),
            Effect::Failure,
        ],
    },
    Rule {
        // Of the reporter `xml`.
        name: "catch2.xml_total",
        pattern: r"^ {2}<OverallResultsCases successes=\x22(?P<passed>\d+)\x22 failures=\x22(?P<failed>\d+)\x22 expectedFailures=\x22(?P<expected>\d+)\x22(?: skips=\x22(?P<skipped>\d+)\x22)?/>",
        effects: &[Effect::Session, Effect::Counts(SORTS), Effect::Summary],
    },
    Rule {
        name: "catch2.xml_failed",
        pattern: r"^\s*<Expression success=\x22false\x22 type=\x22\w+\x22 filename=\x22(?P<f>[^\x22]+)\x22 line=\x22(?P<l>\d+)\x22",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 93).follow(xml_lines))],
    },
    Rule {
        name: "catch2.xml_exception",
        pattern: r"^\s*<(?:Exception|FatalErrorCondition) filename=\x22(?P<f>[^\x22]+)\x22 line=\x22(?P<l>\d+)\x22",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 93).follow(xml_lines))],
    },
    Rule {
        name: "catch2.passed",
        pattern: r"^All tests passed \(\d+ assertions? in (?P<passed>\d+) test cases?\)",
        effects: &[Effect::Session, Effect::Counts(SORTS), Effect::Summary],
    },
    Rule {
        name: "catch2.summary",
        pattern: r"^test cases: +\d+(?: *\| *(?:(?P<passed>\d+) passed|(?P<expected>\d+) failed as expected|(?P<failed>\d+) failed|(?P<skipped>\d+) skipped))+ *$",
        effects: &[Effect::Session, Effect::Counts(SORTS), Effect::Summary],
    },
    Rule {
        // The number of passed tests is missing.
        name: "catch2.compact_failed",
        pattern: r"^Failed (?:both |all )?(?P<failed>[1-9]\d*) test cases?, failed (?:both |all )?\d+ assertions?\.$",
        effects: &[Effect::Session, Effect::Counts(SORTS), Effect::Summary],
    },
    Rule {
        name: "catch2.compact_passed",
        pattern: r"^Passed (?:both |all )?(?P<passed>\d+) test cases? (?:with \d+ assertions?|\(no assertions\))\.$",
        effects: &[Effect::Session, Effect::Counts(SORTS), Effect::Summary],
    },
];
