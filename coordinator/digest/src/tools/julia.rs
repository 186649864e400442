//! Output of Julia.

use super::compiler::DIED;
use crate::rules::{Act, ERROR, Indicator, Kind, Rule, Sign, indented, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Julia") };

const RULES: &[Rule] = &[
    Rule {
        name: "julia.signal",
        pattern: r"^(?:\[\d+\] )?signal (?:\((?P<sig>\d+)(?:\.\d+)?\)|\d+ \([\d-]+\)): [A-Z]",
        acts: &[
            Act::Problem(DIED.follow(crate::rules::one_more)),
            Act::Sign(Sign::Crash(Indicator::Died(""))),
        ],
    },
    Rule {
        name: "julia.failed",
        pattern: r"^(?P<t>\S.*): (?:Test Failed|Error During Test) at (?P<f>\S+):(?P<l>\d+)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 93).follow(indented))],
    },
];
