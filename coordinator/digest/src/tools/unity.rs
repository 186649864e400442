//! Output of Unity.

use crate::rules::{ERROR, Effect, Kind, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Unity") };

const RULES: &[Rule] = &[Rule {
    name: "unity.failed",
    pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+):(?P<t>\w+):FAIL(?::(?P<m>.*))?$",
    effects: &[Effect::Problem(problem(ERROR, Kind::Test, 93))],
}];
