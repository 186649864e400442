//! Output of meson test.

use crate::rules::{Act, ERROR, Kind, Rule, SORTS, Sign, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { totals_begin: true, rules: RULES, ..Tool::named("meson test") };

const RULES: &[Rule] = &[
    Rule {
        name: "meson.none",
        pattern: r"^(?:ERROR: \S.* test name does not match any test$|No suitable tests defined\.)",
        acts: &[Act::Harmless, Act::Sign(Sign::NoTests), Act::Summary],
    },
    Rule {
        name: "meson.failed",
        pattern: r"^ *\d+/\d+ (?P<t>\S.*?) +(?:FAIL|TIMEOUT|ERROR|INTERRUPT|UNEXPECTEDPASS) +[\d.]+ ?s(?: .*)?$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 90)), Act::Sign(Sign::Failure(ToolId::Meson))],
    },
    Rule {
        name: "meson.ok",
        pattern: r"^Ok: +(?P<passed>\d+) *$",
        acts: &[Act::Session(ToolId::Meson), Act::Counts(ToolId::Meson, SORTS), Act::Summary],
    },
    Rule {
        name: "meson.others",
        pattern: r"^(?:Expected Fail: +(?P<expected>\d+)|(?:Fail|Unexpected Pass|Timeout): +(?P<failed>\d+)|Skipped: +(?P<skipped>\d+)) *$",
        acts: &[Act::Adds(ToolId::Meson, SORTS), Act::Harmless],
    },
];
