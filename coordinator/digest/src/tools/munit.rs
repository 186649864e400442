//! Output of munit.

use crate::rules::{Act, ERROR, Kind, Rule, indented, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("munit") };

const RULES: &[Rule] = &[Rule {
    name: "munit.failed",
    pattern: r"^==> X (?P<t>\S.*?) +[\d.]+m?s(?: (?P<m>.*))?$",
    acts: &[Act::Problem(problem(ERROR, Kind::Test, 93).follow(indented))],
}];
