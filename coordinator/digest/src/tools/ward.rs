//! Output of ward.

use crate::rules::{ERROR, Effect, Kind, Rule, SORTS, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool =
    Tool { runs_tests: true, totals_begin: true, rules: RULES, ..Tool::named("ward") };

const RULES: &[Rule] = &[
    Rule {
        // Else it looks like a file of jest or vitest.
        name: "ward.failed",
        pattern: r"^ FAIL  \S+:\d+ (?P<t>\S.*?) +\d+%$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 88).bare())],
    },
    Rule {
        name: "ward.encountered",
        pattern: r"^\xe2\x94\x82 +\d+ +Tests? Encountered +\xe2\x94\x82$",
        effects: &[Effect::Session, Effect::Partial(SORTS)],
    },
    Rule {
        name: "ward.sorts",
        pattern: r"^\xe2\x94\x82 +(?:(?P<passed>\d+) +Pass(?:es)?|(?P<failed>\d+) +(?:Failures?|Unexpected Pass(?:es)?)|(?P<skipped>\d+) +Skips?|(?P<expected>\d+) +Expected Failures?) +\([\d.]+%\) +\xe2\x94\x82$",
        effects: &[Effect::Adds(SORTS), Effect::Summary, Effect::Harmless],
    },
];
