//! Output of ScalaTest.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Rule, SORTS, problem, set_place};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("ScalaTest") };

/// Lines that sbt marks as the failure's own: deeper than the test's name.
fn scalatest_lines(_: &[String], line: &str) -> Next {
    let body = line.strip_prefix("[info] ").unwrap_or(line);
    if body.starts_with("  ") && !body.trim_start().starts_with("- ") { Next::Part } else { Next::Beyond }
}

/// The last place in brackets: `4 did not equal 3 (MathSpec.scala:12)`.
fn in_brackets(diagnostic: &mut Diagnostic) {
    let places: Vec<String> = diagnostic
        .lines
        .iter()
        .filter_map(|line| Some(line.trim_end().strip_suffix(')')?.rsplit_once('(')?.1.to_owned()))
        .collect();
    let _found = places.iter().any(|place| set_place(diagnostic, place));
}

const RULES: &[Rule] = &[
    Rule {
        name: "scalatest.failed",
        pattern: r"^(?:\[info\] )?\s*- (?P<t>.*?) \*\*\* FAILED \*\*\*.*",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 93).follow(scalatest_lines).refine(in_brackets),
        )],
    },
    Rule {
        name: "scalatest.summary",
        pattern: r"^(?:\[info\] )?Tests: succeeded (?P<passed>\d+), failed (?P<failed>\d+), canceled \d+, ignored (?P<skipped>\d+), pending",
        effects: &[Effect::Session, Effect::Counts(SORTS), Effect::Summary],
    },
];
