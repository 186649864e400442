//! Output of formatter.

use crate::rules::{ERROR, Effect, Kind, Rule, problem};
use crate::tool::{Apart, Tool};

pub(super) const TOOL: Tool = Tool {
    apart: Apart::Always,
    commands: &["black"],
    lints: true,
    rules: RULES,
    ..Tool::named("formatter")
};

const RULES: &[Rule] = &[
    Rule {
        name: "formatter.would",
        pattern: r"^[Ww]ould reformat:? (?P<f>\S.*)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Lint, 88))],
    },
    Rule {
        name: "formatter.count",
        pattern: r"^\d+ files? would (?:be reformatted|fail to reformat)",
        effects: &[Effect::Failure, Effect::Summary],
    },
];
