//! Output of jshint.

use crate::rules::{Act, ERROR, Kind, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { lints: true, rules: RULES, ..Tool::named("jshint") };

const RULES: &[Rule] = &[Rule {
    name: "jshint.remark",
    pattern: r"^(?P<f>\S+\.\w+): line (?P<l>\d+), col (?P<c>\d+), (?P<m>\S.*)",
    acts: &[Act::Problem(problem(ERROR, Kind::Lint, 88))],
}];
