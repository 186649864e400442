//! Output of Verilator.

use crate::rules::{Effect, Kind, Level, Rule, indented, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Verilator") };

const RULES: &[Rule] = &[
    Rule {
        name: "verilator.total",
        pattern: r"^%Error: (?:Exiting due to [1-9]|Command Failed )",
        effects: &[Effect::Failure, Effect::Summary, Effect::Harmless],
    },
    Rule {
        name: "verilator",
        pattern: r"^%(?P<s>Error|Warning)(?:-\w+)?: (?P<f>[^\s:]+):(?P<l>\d+)(?::(?P<c>\d+))?: (?P<m>.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Build, 92).follow(indented))],
    },
];
