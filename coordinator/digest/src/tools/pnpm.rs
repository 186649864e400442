//! Output of pnpm.

use crate::rules::{ERROR, Effect, Kind, Marker, Rule, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("pnpm") };

const RULES: &[Rule] = &[Rule {
    name: "pnpm.error",
    pattern: r"^\s?(?:\xe2\x80\x89)?ERR_PNPM_\w+(?:\xe2\x80\x89)?\s+(?P<m>.*)",
    effects: &[
        Effect::Problem(problem(ERROR, Kind::Build, 90)),
        Effect::Marker(Marker::Failure(ToolId::Pnpm)),
    ],
}];
