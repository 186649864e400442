//! Output of meson test.

use crate::rules::{ERROR, Effect, FAILS_WITHOUT_TESTS, FATAL, Indicator, Kind, Rule, SORTS, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool =
    Tool { runs_tests: true, selects_tests, totals_begin: true, rules: RULES, ..Tool::named("meson test") };

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
        pattern: r"^(?:ERROR: \S.* test name does not match any test|No suitable tests defined\.)$",
        effects: &[Effect::Harmless, FAILS_WITHOUT_TESTS, Effect::Summary],
    },
    Rule {
        // The scissors around the output of a failed test.
        name: "meson.scissors",
        pattern: r"^(?:\xe2\x80\x95)+ \xe2\x9c\x80  (?:\xe2\x80\x95)+$",
        effects: &[Effect::Harmless, Effect::Alone],
    },
    Rule {
        name: "meson.died",
        pattern: r"^ *\d+/\d+ (?P<t>\S.*?) +FAIL +[\d.]+ ?s +killed by signal \d+ (?P<sig>SIG\w+)$",
        effects: &[Effect::Problem(problem(FATAL, Kind::Crash, 93)), Effect::Crash(Indicator::ChildDied(""))],
    },
    Rule {
        name: "meson.failed",
        pattern: r"^ *\d+/\d+ (?P<t>\S.*?) +(?:FAIL|TIMEOUT|ERROR|INTERRUPT|UNEXPECTEDPASS) +[\d.]+ ?s(?: .*)?$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 90)), Effect::Failure],
    },
    Rule {
        name: "meson.ok",
        pattern: r"^Ok: +(?P<passed>\d+) *$",
        effects: &[Effect::Session, Effect::Counts(SORTS), Effect::Summary],
    },
    Rule {
        name: "meson.others",
        pattern: r"^(?:Expected Fail: +(?P<expected>\d+)|(?:Fail|Unexpected Pass|Timeout): +(?P<failed>\d+)|Skipped: +(?P<skipped>\d+)) *$",
        effects: &[Effect::Adds(SORTS), Effect::Harmless],
    },
    Rule {
        name: "meson.some_failed",
        pattern: r"^(?:Fail|Unexpected Pass|Timeout): {2,}[1-9]\d* *$",
        effects: &[Effect::Failure],
    },
];
