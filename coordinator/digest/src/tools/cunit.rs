//! Output of CUnit.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Rule, SORTS, indented, place, problem};
use crate::tool::{Announced, Tool};

pub(super) const TOOL: Tool =
    Tool { announces: Some(Announced::ByHeading), rules: RULES, ..Tool::named("CUnit") };

/// The first assertion below a test's name: `    1. a.c:3  - 1==2`.
fn first_assertion(diagnostic: &mut Diagnostic) {
    let place = diagnostic.lines.iter().skip(1).find_map(|line| {
        let (number, rest) = line.trim_start().split_once(". ")?;
        number.parse::<u32>().ok()?;
        place(rest.split("  - ").next()?)
    });
    if let Some((file, line, column)) = place {
        (diagnostic.file, diagnostic.line, diagnostic.column) = (file, line, column);
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "cunit.summary",
        pattern: r"^(?:--)?Run Summary: +Type +Total +Ran +Passed +Failed",
        effects: &[Effect::Session, Effect::Heading],
    },
    Rule {
        name: "cunit.tests",
        pattern: r"^ +tests +\d+ +\d+ +(?P<passed>\d+) +(?P<failed>\d+)(?: +(?P<skipped>\d+))?$",
        effects: &[Effect::Counts(SORTS), Effect::Summary],
    },
    Rule {
        name: "cunit.failed",
        pattern: r"^  Test: (?P<t>\S.*?) \.\.\. ?FAILED$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 93).follow(indented).refine(first_assertion))],
    },
    Rule {
        name: "cunit.had_failures",
        pattern: r"^Suite \S.*, Test (?P<t>\S.*) had failures:$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 93).follow(indented).refine(first_assertion))],
    },
];
