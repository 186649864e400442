//! Output of docker build.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Rule, problem, set_place};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("docker build") };

/// A line of the excerpt above the error: `Dockerfile:11`, a rule, or a line of the file.
fn excerpt(line: &str) -> bool {
    line == "--------------------"
        || is_place(line)
        || line
            .split_once(" |")
            .is_some_and(|(number, _)| number.starts_with(' ') && number.trim().parse::<u32>().is_ok())
}

/// Whether a line is the place of a step.
fn is_place(line: &str) -> bool {
    !line.contains([' ', '/']) && crate::rules::place(line).is_some()
}

/// The program that the build ran has printed the reason itself. The place is above the excerpt.
fn of_process(diagnostic: &mut Diagnostic) {
    let place = diagnostic.lines.iter().find(|line| is_place(line)).cloned();
    let _placed = place.is_some_and(|place| set_place(diagnostic, &place));
    let says = ["ERROR: failed to ", "failed to solve: "];
    let head = diagnostic.lines.iter().position(|line| says.iter().any(|word| line.starts_with(word)));
    diagnostic.lines.rotate_left(head.unwrap_or(0));
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
            Effect::Problem(problem(ERROR, Kind::Build, 92).lead(excerpt).refine(of_process)),
            Effect::Failure,
        ],
    },
];
