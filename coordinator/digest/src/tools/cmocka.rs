//! Output of cmocka.

use crate::rules::{ERROR, Effect, Kind, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("cmocka") };

/// cmocka's message is above the line with its location.
fn cmocka_lead(line: &str) -> bool {
    line.starts_with("[  ERROR   ] --- ")
}

const RULES: &[Rule] = &[Rule {
    name: "cmocka.place",
    pattern: r"^\[   LINE   \] --- (?P<f>[^\s:]+):(?P<l>\d+): error: .*$",
    effects: &[Effect::Problem(problem(ERROR, Kind::Test, 95).lead(cmocka_lead))],
}];
