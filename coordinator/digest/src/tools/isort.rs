//! Output of isort.

use crate::rules::{ERROR, Effect, Kind, Rule, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("isort") };

const RULES: &[Rule] = &[Rule {
    name: "isort.unsorted",
    pattern: r"^ERROR: (?P<f>\S+\.\w+) Imports are incorrectly sorted.*",
    effects: &[
        Effect::Problem(problem(ERROR, Kind::Lint, 90)),
        Effect::Of(ToolId::Formatter, &[Effect::Failure]),
    ],
}];
