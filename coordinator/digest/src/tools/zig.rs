//! Output of Zig.

use super::gotestsum::text_lines;
use crate::rules::{ERROR, Effect, Kind, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Zig") };

const RULES: &[Rule] = &[Rule {
    name: "zig.failed",
    pattern: r"^\d+/\d+ (?P<t>\S+?)\.{3} ?FAIL \((?P<m>.*)\)$",
    effects: &[Effect::Problem(problem(ERROR, Kind::Test, 93).follow(text_lines))],
}];
