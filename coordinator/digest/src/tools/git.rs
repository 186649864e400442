//! What git prints.

use crate::rules::{Act, ERROR, Kind, Rule, Sign, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("git") };

const RULES: &[Rule] = &[
    Rule {
        name: "git.conflict",
        pattern: r"^CONFLICT \(.*\): (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 92))],
    },
    Rule {
        name: "git.automatic",
        pattern: r"^Automatic merge failed",
        acts: &[Act::Sign(Sign::Failure(ToolId::Git)), Act::Summary],
    },
    Rule {
        name: "git.fatal",
        pattern: r"^fatal: (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 88))],
    },
];
