//! Output of nx, also below lerna, and of turbo.

use crate::rules::{Diagnostic, ERROR, Effect, Fails, Kind, Next, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { drives: true, rules: RULES, ..Tool::named("nx") };

pub(super) const TURBO: Tool =
    Tool { drives: true, commands: &["turbo"], rules: TURBO_RULES, ..Tool::named("turbo") };

/// The names of the failed tasks, below a blank line.
fn tasks(so_far: &[String], line: &str) -> Next {
    let text = line.trim_start();
    if text.is_empty() && so_far.len() == 1 {
        Next::Maybe
    } else if text.starts_with("- ") && so_far.len() < 40 {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// Other programs print such a heading too.
fn listed(diagnostic: &mut Diagnostic) {
    diagnostic.spurious = diagnostic.lines.len() == 1;
}

const RULES: &[Rule] = &[
    Rule {
        name: "nx.failed",
        pattern: r"^ *(?:> +)?(?:NX|Lerna \(powered by Nx\)) +Running targets? .* failed$",
        effects: &[Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "nx.tasks",
        pattern: r"^ *Failed tasks:$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Runtime, 58).follow(tasks).refine(listed).fails(Fails::Always),
        )],
    },
    Rule {
        name: "nx.targets",
        pattern: r"^ *\xe2\x9c\x96 +[1-9]\d*/\d+ (?:targets )?failed(?:, including the following:)?(?: \[.*\])?$",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Runtime, 58).follow(tasks).fails(Fails::Always)),
            Effect::Failure,
            Effect::Summary,
        ],
    },
];

const TURBO_RULES: &[Rule] = &[
    Rule {
        name: "turbo.task",
        pattern: r"^ *(?:ERROR +)?(?P<m>\S+#\S+: command .* exited \(\d+\))$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 58).fails(Fails::Always))],
    },
    Rule {
        name: "turbo.failed",
        pattern: r"^Failed: +\S+#\S+(?:, \S+#\S+)*$",
        effects: &[Effect::Failure, Effect::Summary],
    },
];
