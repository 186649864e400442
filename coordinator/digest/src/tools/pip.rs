//! Output of pip.

use crate::rules::{Act, ERROR, Kind, Role, Rule, Sign, indented, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("pip") };

const RULES: &[Rule] = &[
    Rule {
        name: "pip.error",
        pattern: r"^ERROR: (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 86).follow(indented).role(Role::Vague))],
    },
    Rule {
        name: "pip.installed",
        pattern: r"^Successfully installed ",
        acts: &[Act::Sign(Sign::Success(ToolId::Pip)), Act::Summary],
    },
];
