//! Output of Clojure.

use crate::rules::{ERROR, Effect, Kind, Rule, one_more, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Clojure") };

const RULES: &[Rule] = &[Rule {
    name: "clojure.error",
    pattern: r"^(?:Syntax|Execution) error .*\((?P<f>[^\s():]+):(?P<l>\d+)(?::(?P<c>\d+))?\)\.$",
    effects: &[Effect::Problem(problem(ERROR, Kind::Build, 92).follow(one_more))],
}];
