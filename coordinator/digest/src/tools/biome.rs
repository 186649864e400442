//! Output of biome.

use crate::rules::{ERROR, Effect, Kind, Rule, indented_or_blank, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("biome") };

const RULES: &[Rule] = &[Rule {
    name: "biome",
    pattern: r"^(?P<f>[^\s:]+\.\w+)(?::(?P<l>\d+):(?P<c>\d+))? (?P<m>(?:lint|parse|syntax|assist|suppressions|format|organizeImports|check)\b\S*).* (?:\xe2\x94\x81)+$",
    effects: &[Effect::Problem(problem(ERROR, Kind::Lint, 90).follow(indented_or_blank).owning())],
}];
