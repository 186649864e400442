//! Output of jshint.

use crate::rules::{ERROR, Effect, Kind, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { lints: true, rules: RULES, ..Tool::named("jshint") };

const RULES: &[Rule] = &[Rule {
    name: "jshint.remark",
    pattern: r"^(?P<f>\S+\.\w+): line (?P<l>\d+), col (?P<c>\d+), (?P<m>\S.*)",
    effects: &[Effect::Problem(problem(ERROR, Kind::Lint, 88))],
}];
