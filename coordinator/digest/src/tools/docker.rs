//! Output of docker build.

use crate::rules::{ERROR, Effect, Kind, Marker, Rule, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("docker build") };

const RULES: &[Rule] = &[
    Rule {
        name: "docker.daemon",
        pattern: r"^(?:(?:docker: )?Error response from daemon: (?P<m>.*)|(?:(?:docker|ERROR): )?Cannot connect to the Docker daemon at .*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Infrastructure, 90))],
    },
    Rule {
        name: "docker.build",
        pattern: r"^(?:ERROR: failed to (?:solve|build)|failed to solve): (?P<m>.*)",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Build, 92)),
            Effect::Marker(Marker::Failure(ToolId::Docker)),
        ],
    },
];
