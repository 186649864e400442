//! Output of ward.

use crate::rules::{Act, ERROR, Kind, Rule, SORTS, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { totals_begin: true, rules: RULES, ..Tool::named("ward") };

const RULES: &[Rule] = &[
    Rule {
        // Else it looks like a file of jest or vitest.
        name: "ward.failed",
        pattern: r"^ FAIL  \S+:\d+ (?P<t>\S.*?) +\d+%$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 88).bare())],
    },
    Rule {
        name: "ward.encountered",
        pattern: r"^\xe2\x94\x82 +\d+ +Tests? Encountered +\xe2\x94\x82$",
        acts: &[Act::Session(ToolId::Ward), Act::Partial(ToolId::Ward, SORTS)],
    },
    Rule {
        name: "ward.sorts",
        pattern: r"^\xe2\x94\x82 +(?:(?P<passed>\d+) +Pass(?:es)?|(?P<failed>\d+) +(?:Failures?|Unexpected Pass(?:es)?)|(?P<skipped>\d+) +Skips?|(?P<expected>\d+) +Expected Failures?) +\([\d.]+%\) +\xe2\x94\x82$",
        acts: &[Act::Adds(ToolId::Ward, SORTS), Act::Summary, Act::Harmless],
    },
];
