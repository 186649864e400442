//! Output of make check.

use crate::rules::{Effect, Rule, SORTS};
use crate::tool::{Announced, Tool, ToolId};

pub(super) const TOOL: Tool = Tool {
    program: Some(ToolId::Make),
    announces: Some(Announced::ByHeading),
    totals_begin: true,
    rules: RULES,
    ..Tool::named("make check")
};

const RULES: &[Rule] = &[
    Rule {
        name: "automake.heading",
        pattern: r"^Testsuite summary(?: for (?P<t>.*))?$",
        effects: &[Effect::Heading, Effect::Own(|line| line.part())],
    },
    Rule {
        // The log of all tests, which may be printed too, begins with the same numbers.
        name: "automake.total",
        pattern: r"^# TOTAL: +\d+$",
        effects: &[Effect::Partial(SORTS)],
    },
    Rule {
        name: "automake.sorts",
        pattern: r"^# (?:PASS: +(?P<passed>\d+)|(?:FAIL|XPASS|ERROR): +(?P<failed>\d+)|SKIP: +(?P<skipped>\d+)|XFAIL: +(?P<expected>\d+))$",
        effects: &[Effect::Adds(SORTS), Effect::Summary],
    },
];
