//! Output of pylint.

use crate::rules::{Effect, Fails, Kind, Level, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { lints: true, rules: RULES, ..Tool::named("pylint") };

const RULES: &[Rule] = &[Rule {
    name: "pylint.code",
    pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+):(?P<c>\d+): (?P<s>[CRWEF])\d{4}: (?P<m>.*)",
    effects: &[Effect::Problem(problem(Level::Word, Kind::Lint, 85).fails(Fails::Always))],
}];
