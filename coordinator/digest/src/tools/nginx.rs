//! What nginx prints about its configuration and its start.

use super::places::located;
use crate::rules::{ERROR, Effect, Fails, Kind, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("nginx") };

const RULES: &[Rule] = &[Rule {
    name: "nginx.emergency",
    pattern: r"^(?:\S+ nginx\[\d+\]: )?nginx: \[(?:emerg|alert|crit)\] (?P<m>.*)",
    effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 88).refine(located).fails(Fails::Always))],
}];
