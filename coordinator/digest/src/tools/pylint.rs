//! Output of pylint.

use crate::rules::{Act, Kind, Level, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { lints: true, rules: RULES, ..Tool::named("pylint") };

const RULES: &[Rule] = &[Rule {
    name: "pylint.code",
    pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+):(?P<c>\d+): (?P<s>[CRWEF])\d{4}: (?P<m>.*)",
    acts: &[Act::Problem(problem(Level::Word, Kind::Lint, 85))],
}];
