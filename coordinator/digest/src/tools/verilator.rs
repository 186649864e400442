//! Output of Verilator.

use crate::rules::{Act, Kind, Level, Rule, Sign, indented, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Verilator") };

const RULES: &[Rule] = &[
    Rule {
        name: "verilator.total",
        pattern: r"^%Error: (?:Exiting due to [1-9]|Command Failed )",
        acts: &[Act::Sign(Sign::Failure(ToolId::Verilator)), Act::Summary, Act::Harmless],
    },
    Rule {
        name: "verilator",
        pattern: r"^%(?P<s>Error|Warning)(?:-\w+)?: (?P<f>[^\s:]+):(?P<l>\d+)(?::(?P<c>\d+))?: (?P<m>.*)",
        acts: &[Act::Problem(problem(Level::Word, Kind::Build, 92).follow(indented))],
    },
];
