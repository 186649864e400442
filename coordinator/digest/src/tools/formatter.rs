//! Output of formatter.

use crate::rules::{Act, ERROR, Kind, Rule, Sign, problem};
use crate::tool::{Apart, Tool, ToolId};

pub(super) const TOOL: Tool = Tool { apart: Apart::Always, rules: RULES, ..Tool::named("formatter") };

const RULES: &[Rule] = &[
    Rule {
        name: "formatter.would",
        pattern: r"^[Ww]ould reformat:? (?P<f>\S.*)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Lint, 88))],
    },
    Rule {
        name: "formatter.count",
        pattern: r"^\d+ files? would (?:be reformatted|fail to reformat)",
        acts: &[Act::Sign(Sign::Failure(ToolId::Formatter)), Act::Summary],
    },
];
