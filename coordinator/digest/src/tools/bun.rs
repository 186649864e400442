//! Output of bun test.

use crate::rules::{Act, ERROR, Kind, Rule, SORTS, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("bun test") };

const RULES: &[Rule] = &[
    Rule {
        name: "bun.counts",
        pattern: r"^ (?:(?P<passed>\d+) pass|(?P<failed>\d+) fail|(?P<skipped>\d+) (?:skip|todo))$",
        acts: &[Act::Adds(ToolId::Bun, SORTS), Act::Summary],
    },
    Rule {
        name: "bun.failed",
        pattern: r"^\(fail\) (?P<t>.*?)(?: \[[\d.]+ ?m?s\])?$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 88))],
    },
];
