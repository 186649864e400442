//! Output of tox.

use crate::rules::{ERROR, Effect, Kind, Marker, Rule, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("tox") };

const RULES: &[Rule] = &[Rule {
    name: "tox.failed",
    pattern: r"^\s+(?P<t>\S+): FAIL(?: code \d+)? \(.*",
    effects: &[
        Effect::Problem(problem(ERROR, Kind::Consequence, 70)),
        Effect::Marker(Marker::Failure(ToolId::Tox)),
    ],
}];
