//! Output of docker build.

use crate::rules::{Act, ERROR, Kind, Rule, Sign, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("docker build") };

const RULES: &[Rule] = &[
    Rule {
        name: "docker.daemon",
        pattern: r"^(?:docker: )?Error response from daemon: (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Infrastructure, 90))],
    },
    Rule {
        name: "docker.build",
        pattern: r"^(?:ERROR: failed to (?:solve|build)|failed to solve): (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 92)), Act::Sign(Sign::Failure(ToolId::Docker))],
    },
];
