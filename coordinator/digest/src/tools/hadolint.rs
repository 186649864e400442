//! Output of hadolint.

use crate::rules::{Act, Kind, Level, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("hadolint") };

const RULES: &[Rule] = &[Rule {
    name: "hadolint",
    pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+) (?P<k>[A-Z]{2,4}\d{3,5}) (?P<s>error|warning|info|style): (?P<m>.*)",
    acts: &[Act::Problem(problem(Level::Word, Kind::Lint, 90))],
}];
