//! Output of meson test.

use crate::rules::{ERROR, Effect, Kind, Marker, Rule, SORTS, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool =
    Tool { selects_tests, totals_begin: true, rules: RULES, ..Tool::named("meson test") };

/// Names of tests are arguments without an option.
fn selects_tests(words: &[String]) -> bool {
    let program = words.iter().position(|word| word.rsplit('/').next() == Some("meson"));
    let arguments = program.map_or(&[][..], |at| &words[at..]);
    let is_name = |pair: &[String]| pair[0] != "-C" && !pair[1].starts_with('-') && pair[1] != "test";
    arguments.iter().any(|word| word == "test") && arguments.windows(2).any(is_name)
}

const RULES: &[Rule] = &[
    Rule {
        name: "meson.none",
        pattern: r"^ERROR: \S.* test name does not match any test$",
        effects: &[Effect::Harmless, Effect::Marker(Marker::FailsWithoutTests), Effect::Summary],
    },
    Rule {
        name: "meson.failed",
        pattern: r"^ *\d+/\d+ (?P<t>\S.*?) +(?:FAIL|TIMEOUT|ERROR|INTERRUPT|UNEXPECTEDPASS) +[\d.]+ ?s(?: .*)?$",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Test, 90)),
            Effect::Marker(Marker::Failure(ToolId::Meson)),
        ],
    },
    Rule {
        name: "meson.ok",
        pattern: r"^Ok: +(?P<passed>\d+) *$",
        effects: &[Effect::Session(ToolId::Meson), Effect::Counts(ToolId::Meson, SORTS), Effect::Summary],
    },
    Rule {
        name: "meson.others",
        pattern: r"^(?:Expected Fail: +(?P<expected>\d+)|(?:Fail|Unexpected Pass|Timeout): +(?P<failed>\d+)|Skipped: +(?P<skipped>\d+)) *$",
        effects: &[Effect::Adds(ToolId::Meson, SORTS), Effect::Harmless],
    },
];
