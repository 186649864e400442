//! Output of prettier.

use crate::rules::{ERROR, Effect, Kind, Rule, WARNING, problem};
use crate::tool::{Apart, Tool};

pub(super) const TOOL: Tool = Tool { apart: Apart::Always, rules: RULES, ..Tool::named("prettier") };

const RULES: &[Rule] = &[
    Rule {
        name: "prettier.found",
        pattern: r"^\[(?:warn|error)\] (?P<m>Code style issues .*|\S+: SyntaxError.*|No files matching.*)",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Lint, 88).refine(super::places::located)),
            Effect::Failure,
        ],
    },
    Rule {
        name: "prettier.total",
        pattern: r"^(?:\[error\] )?Error occurred when checking code style in (?:the above file|\d+ files)\.$",
        effects: &[Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "prettier.file",
        pattern: r"^\[warn\] (?P<f>\S+\.\w+)$",
        effects: &[Effect::Problem(problem(WARNING, Kind::Lint, 60))],
    },
];
