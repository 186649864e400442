//! Output of munit.

use crate::rules::{ERROR, Effect, Kind, Rule, indented, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("munit") };

const RULES: &[Rule] = &[Rule {
    name: "munit.failed",
    pattern: r"^==> X (?P<t>\S.*?) +[\d.]+m?s(?: (?P<m>.*))?$",
    effects: &[Effect::Problem(problem(ERROR, Kind::Test, 93).follow(indented))],
}];
