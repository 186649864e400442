//! Output of swiftlint.

use crate::rules::{Effect, Kind, Level, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { lints: true, rules: RULES, ..Tool::named("swiftlint") };

const RULES: &[Rule] = &[Rule {
    name: "swiftlint",
    pattern: r"^(?P<f>/[^:]+):(?P<l>\d+)(?::(?P<c>\d+))?: (?P<s>error|warning): (?P<m>.* \([a-z_]+\))$",
    effects: &[Effect::Problem(problem(Level::Word, Kind::Lint, 90))],
}];
