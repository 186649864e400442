//! Output of yarn.

use crate::rules::{ERROR, Effect, Kind, Rule, indented, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("yarn") };

const RULES: &[Rule] = &[Rule {
    name: "yarn.error",
    pattern: r"^(?:error (?P<m>(?:An unexpected error|Command failed|Command \x22|Couldn't find|Your lockfile|Failed to|Integrity|Package|Found incompatible).*)|\xe2\x9e\xa4 YN\d{4}: .*(?:Failed|Error|error).*)",
    effects: &[Effect::Problem(problem(ERROR, Kind::Build, 85).follow(indented)), Effect::Failure],
}];
