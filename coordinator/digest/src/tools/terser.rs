//! Output of terser.

use crate::rules::{ERROR, Effect, Kind, Rule, paragraph, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("terser") };

const RULES: &[Rule] = &[Rule {
    name: "terser.error",
    pattern: r"^Parse error at (?P<f>[^\s:]+):(?P<l>\d+),(?P<c>\d+)$",
    effects: &[
        Effect::Problem(problem(ERROR, Kind::Build, 92).follow(paragraph).owning()),
        Effect::Of(ToolId::Bundler, &[Effect::Failure]),
    ],
}];
