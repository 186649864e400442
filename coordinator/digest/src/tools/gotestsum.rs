//! Output of gotestsum.

use crate::rules::{ERROR, Effect, Kind, Next, Rule, TOTAL, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { runs_tests: true, rules: RULES, ..Tool::named("gotestsum") };

pub(super) fn text_lines(so_far: &[String], line: &str) -> Next {
    if line.trim().is_empty() || so_far.len() > 30 { Next::Beyond } else { Next::Part }
}

const RULES: &[Rule] = &[
    Rule {
        name: "gotestsum.failed",
        pattern: r"^=== FAIL: (?P<p>\S+) (?P<t>\S+) \([\d.]+s\)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 93).follow(text_lines).refine(super::go::log_place),
        )],
    },
    Rule {
        name: "gotestsum.summary",
        pattern: r"^DONE (?P<n>\d+) tests?(?:, (?P<skipped>\d+) skipped)?(?:, (?P<failed>\d+) failures?)?(?:, (?P<errors>\d+) errors?)? in [\d.]+s$",
        effects: &[Effect::Of(ToolId::GoTest, &[Effect::Counts(TOTAL)]), Effect::Summary],
    },
];
