//! Output of Criterion, a test framework for C.

use crate::rules::{ERROR, Effect, Fails, Kind, Next, Rule, SORTS, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { runs_tests: true, rules: RULES, ..Tool::named("Criterion") };

/// More lines of the message: `[----]   …`.
fn message(so_far: &[String], line: &str) -> Next {
    if line.starts_with("[----]  ") && so_far.len() < 20 { Next::Part } else { Next::Beyond }
}

const RULES: &[Rule] = &[
    Rule {
        name: "criterion.assertion",
        pattern: r"^\[----\] (?P<f>[^\s:]+):(?P<l>\d+): (?P<m>.*)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 94).follow(message).owning().fails(Fails::Always),
        )],
    },
    Rule {
        name: "criterion.failed",
        pattern: r"^\[FAIL\] (?P<t>\w+::\w+): (?P<m>.*)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 92).fails(Fails::Always))],
    },
    Rule {
        name: "criterion.total",
        pattern: r"^\[====\] Synthesis: Tested: \d+ \| Passing: (?P<passed>\d+) \| Failing: (?P<failed>\d+) \| Crashing: (?P<errors>\d+)",
        effects: &[Effect::Session, Effect::Counts(SORTS), Effect::Summary],
    },
];
