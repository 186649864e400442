//! Output of rebar3.

use crate::rules::{ERROR, Effect, Kind, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("rebar3") };

const RULES: &[Rule] = &[Rule {
    name: "rebar3.failed",
    pattern: r"^===> (?:Error running tests$|Failures occurred running tests: |Compiling \S+ failed$)",
    effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 40)), Effect::Failure, Effect::Summary],
}];
