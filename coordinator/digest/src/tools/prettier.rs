//! Output of prettier.

use crate::rules::{Act, ERROR, Kind, Rule, Sign, WARNING, problem};
use crate::tool::{Apart, Tool, ToolId};

pub(super) const TOOL: Tool = Tool { apart: Apart::Always, rules: RULES, ..Tool::named("prettier") };

const RULES: &[Rule] = &[
    Rule {
        name: "prettier.found",
        pattern: r"^\[(?:warn|error)\] (?P<m>Code style issues .*|\S+: SyntaxError.*|No files matching.*)",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Lint, 88).refine(super::places::located)),
            Act::Sign(Sign::Failure(ToolId::Prettier)),
        ],
    },
    Rule {
        name: "prettier.file",
        pattern: r"^\[warn\] (?P<f>\S+\.\w+)$",
        acts: &[Act::Problem(problem(WARNING, Kind::Lint, 60))],
    },
];
