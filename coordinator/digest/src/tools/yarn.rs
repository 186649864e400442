//! Output of yarn.

use crate::rules::{Act, ERROR, Kind, Rule, Sign, indented, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("yarn") };

const RULES: &[Rule] = &[Rule {
    name: "yarn.error",
    pattern: r"^(?:error (?P<m>(?:An unexpected error|Command failed|Couldn't find|Your lockfile|Failed to|Integrity|Package|Found incompatible).*)|\xe2\x9e\xa4 YN\d{4}: .*(?:Failed|Error|error).*)",
    acts: &[
        Act::Problem(problem(ERROR, Kind::Build, 85).follow(indented)),
        Act::Sign(Sign::Failure(ToolId::Yarn)),
    ],
}];
