//! Output of Julia.

use super::compiler::DIED;
use crate::rules::{ERROR, Effect, Indicator, Kind, Marker, Rule, indented, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Julia") };

const RULES: &[Rule] = &[
    Rule {
        name: "julia.signal",
        pattern: r"^(?:\[\d+\] )?signal (?:\((?P<sig>\d+)(?:\.\d+)?\)|\d+ \([\d-]+\)): [A-Z]",
        effects: &[
            Effect::Problem(DIED.follow(crate::rules::one_more)),
            Effect::Marker(Marker::Crash(Indicator::Died(""))),
        ],
    },
    Rule {
        name: "julia.failed",
        pattern: r"^(?P<t>\S.*): (?:Test Failed|Error During Test) at (?P<f>\S+):(?P<l>\d+)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 93).follow(indented))],
    },
];
