//! Output of bun test.

use crate::rules::{ERROR, Effect, Kind, Marker, Rule, SORTS, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("bun test") };

const RULES: &[Rule] = &[
    Rule {
        name: "bun.counts",
        pattern: r"^ (?:(?P<passed>\d+) pass|(?P<failed>\d+) fail|(?P<skipped>\d+) (?:skip|todo))$",
        effects: &[Effect::Adds(ToolId::Bun, SORTS), Effect::Summary],
    },
    Rule {
        name: "bun.failed",
        pattern: r"^\(fail\) (?P<t>.*?)(?: \[[\d.]+ ?m?s\])?$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 88))],
    },
    Rule {
        name: "bun.none",
        pattern: r"^(?:error: regex .* matched 0 tests\.|The following filters did not match any test files:$)",
        effects: &[Effect::Harmless, Effect::Marker(Marker::FailsWithoutTests), Effect::Summary],
    },
];
