//! Output of docker build.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Marker, Rule, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("docker build") };

/// The program that the build ran has printed the reason itself.
fn of_process(diagnostic: &mut Diagnostic) {
    if diagnostic.first().contains("did not complete successfully: exit code: ") {
        diagnostic.kind = Some(Kind::Consequence);
    }
}

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
            Effect::Problem(problem(ERROR, Kind::Build, 92).refine(of_process)),
            Effect::Marker(Marker::Failure(ToolId::Docker)),
        ],
    },
];
