//! Output of tox.

use crate::rules::{Act, ERROR, Kind, Rule, Sign, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("tox") };

const RULES: &[Rule] = &[Rule {
    name: "tox.failed",
    pattern: r"^\s+(?P<t>\S+): FAIL(?: code \d+)? \(.*",
    acts: &[Act::Problem(problem(ERROR, Kind::Consequence, 70)), Act::Sign(Sign::Failure(ToolId::Tox))],
}];
