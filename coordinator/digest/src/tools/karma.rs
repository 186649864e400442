//! Output of karma.

use crate::rules::{ERROR, Effect, Kind, Level, Rule, SORTS, indented, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { runs_tests: true, rules: RULES, ..Tool::named("karma") };

const RULES: &[Rule] = &[
    Rule {
        // `Chrome Headless 120.0.0.0 (Linux x86_64) suite test FAILED`
        name: "karma.failed",
        pattern: r"^[A-Z]\w+(?: \w+)? [\d.]+ \([^)]+\) (?P<t>\S.*) FAILED$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 93).follow(indented).refine(super::mocha::js_place),
        )],
    },
    Rule {
        name: "karma.executed",
        pattern: r"^[A-Z]\w+(?: \w+)? [\d.]+ \([^)]+\): Executed \d+ of \d+ .*(?:\([1-9]\d* FAILED\)|ERROR|DISCONNECTED)",
        effects: &[Effect::Failure],
    },
    Rule {
        name: "karma.total",
        pattern: r"^TOTAL: (?:(?P<failed>\d+) FAILED, )?(?P<passed>\d+) SUCCESS$",
        effects: &[Effect::Session, Effect::Counts(SORTS), Effect::Summary],
    },
    Rule {
        name: "karma.logged",
        pattern: r"^\d\d \d\d \d{4} \d\d:\d\d:\d\d\.\d+:(?P<s>ERROR|WARN) \[[^\]]+\]: (?P<m>\S.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Runtime, 74).follow(indented))],
    },
];
