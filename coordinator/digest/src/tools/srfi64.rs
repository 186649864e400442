//! Output of SRFI 64.

use crate::rules::{ERROR, Effect, Kind, Rule, SORTS, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("SRFI 64") };

const RULES: &[Rule] = &[
    Rule {
        name: "srfi64.failed",
        pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+): (?:FAIL|XPASS) (?P<t>\S.*)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 85))],
    },
    Rule {
        name: "srfi64.sorts",
        pattern: r"^# of (?:expected passes {6}(?P<passed>\d+)|unexpected (?:failures {2}|successes )(?P<failed>\d+)|expected failures {4}(?P<expected>\d+)|skipped tests {8}(?P<skipped>\d+))$",
        effects: &[Effect::Adds(SORTS), Effect::Summary, Effect::Harmless],
    },
];
