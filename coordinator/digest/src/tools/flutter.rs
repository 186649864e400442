//! Output of flutter test.

use crate::rules::{ERROR, Effect, Kind, Marker, Next, Rule, SORTS, indented_or_blank, problem, up_to_rule};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("flutter test") };

/// Up to the rule that closes a report.
fn in_rules(so_far: &[String], line: &str) -> Next {
    up_to_rule("════════", so_far, line)
}

const RULES: &[Rule] = &[
    Rule {
        name: "flutter.counts",
        pattern: r"^\d\d:\d\d \+(?P<passed>\d+)(?: ~(?P<skipped>\d+))?(?: -(?P<failed>\d+))?: ",
        effects: &[Effect::Partial(ToolId::Flutter, SORTS)],
    },
    Rule {
        name: "flutter.exception",
        pattern: r"^(?:\xe2\x95\x90){2}\xe2\x95\xa1 EXCEPTION CAUGHT BY .*",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 94).follow(in_rules).owning())],
    },
    Rule {
        name: "flutter.failed",
        pattern: r"^\d\d:\d\d \+\d+(?: ~\d+)? -\d+: (?P<t>.*) \[E\]$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 93).follow(indented_or_blank))],
    },
    Rule {
        name: "flutter.bad",
        pattern: r"^\d\d:\d\d \+\d+(?: ~\d+)?(?: -\d+)?: Some tests failed\.",
        effects: &[Effect::Marker(Marker::Failure(ToolId::Flutter)), Effect::Summary],
    },
    Rule {
        name: "flutter.good",
        pattern: r"^\d\d:\d\d \+[1-9]\d*(?: ~\d+)?: All (?:other )?tests passed!",
        effects: &[Effect::Marker(Marker::Success(ToolId::Flutter)), Effect::Summary],
    },
];
