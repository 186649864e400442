//! Output of isort.

use crate::rules::{Act, ERROR, Kind, Rule, Sign, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("isort") };

const RULES: &[Rule] = &[Rule {
    name: "isort.unsorted",
    pattern: r"^ERROR: (?P<f>\S+\.\w+) Imports are incorrectly sorted.*",
    acts: &[Act::Problem(problem(ERROR, Kind::Lint, 90)), Act::Sign(Sign::Failure(ToolId::Formatter))],
}];
