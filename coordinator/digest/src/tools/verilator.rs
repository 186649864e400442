//! Output of Verilator.

use crate::rules::{Act, Kind, Level, Rule, indented, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Verilator") };

const RULES: &[Rule] = &[Rule {
    name: "verilator",
    pattern: r"^%(?P<s>Error|Warning)(?:-\w+)?: (?P<f>[^\s:]+):(?P<l>\d+)(?::(?P<c>\d+))?: (?P<m>.*)",
    acts: &[Act::Problem(problem(Level::Word, Kind::Build, 92).follow(indented))],
}];
