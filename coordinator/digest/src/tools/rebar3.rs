//! Output of rebar3.

use crate::rules::{Act, ERROR, Kind, Rule, Sign, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("rebar3") };

const RULES: &[Rule] = &[Rule {
    name: "rebar3.failed",
    pattern: r"^===> (?:Error running tests$|Failures occurred running tests: |Compiling \S+ failed$)",
    acts: &[
        Act::Problem(problem(ERROR, Kind::Consequence, 40)),
        Act::Sign(Sign::Failure(ToolId::Rebar3)),
        Act::Summary,
    ],
}];
