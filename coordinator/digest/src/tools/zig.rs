//! Output of Zig.

use super::gotestsum::text_lines;
use crate::rules::{Act, ERROR, Kind, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Zig") };

const RULES: &[Rule] = &[Rule {
    name: "zig.failed",
    pattern: r"^\d+/\d+ (?P<t>\S+?)\.{3} ?FAIL \((?P<m>.*)\)$",
    acts: &[Act::Problem(problem(ERROR, Kind::Test, 93).follow(text_lines))],
}];
