//! Output of terser.

use crate::rules::{Act, ERROR, Kind, Rule, Sign, paragraph, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("terser") };

const RULES: &[Rule] = &[Rule {
    name: "terser.error",
    pattern: r"^Parse error at (?P<f>[^\s:]+):(?P<l>\d+),(?P<c>\d+)$",
    acts: &[
        Act::Problem(problem(ERROR, Kind::Build, 92).follow(paragraph).owning()),
        Act::Sign(Sign::Failure(ToolId::Bundler)),
    ],
}];
