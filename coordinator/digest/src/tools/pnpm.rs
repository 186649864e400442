//! Output of pnpm.

use crate::rules::{ERROR, Effect, Kind, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("pnpm") };

const RULES: &[Rule] = &[
    Rule {
        name: "pnpm.error",
        pattern: r"^\s?(?:\xe2\x80\x89)?ERR_PNPM_\w+(?:\xe2\x80\x89)?\s+(?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 90)), Effect::Failure],
    },
    Rule {
        name: "pnpm.script",
        pattern: r"^\s?(?:\xe2\x80\x89)?ELIFECYCLE(?:\xe2\x80\x89)?\s+Command failed with exit code \d+\.$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 60)), Effect::Failure],
    },
];
