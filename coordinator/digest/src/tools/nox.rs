//! Output of nox.

use crate::rules::{Act, ERROR, Kind, Rule, Sign, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("nox") };

const RULES: &[Rule] = &[Rule {
    name: "nox.failed",
    pattern: r"^nox > Session \S+ (?:failed|aborted|raised exception .*)\.$",
    acts: &[
        Act::Problem(problem(ERROR, Kind::Consequence, 60)),
        Act::Sign(Sign::Failure(ToolId::Nox)),
        Act::Summary,
    ],
}];
