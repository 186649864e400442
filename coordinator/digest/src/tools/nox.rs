//! Output of nox.

use crate::rules::{ERROR, Effect, Kind, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("nox") };

const RULES: &[Rule] = &[Rule {
    name: "nox.failed",
    pattern: r"^nox > Session \S+ (?:failed|aborted|raised exception .*)\.$",
    effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 60)), Effect::Failure, Effect::Summary],
}];
