//! Output of CppUTest.

use crate::rules::{ERROR, Effect, Kind, Rule, indented, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { runs_tests: true, rules: RULES, ..Tool::named("CppUTest") };

const RULES: &[Rule] = &[
    Rule {
        name: "cpputest.failed",
        pattern: r"^(?P<f>[^\s:(]+)[:(](?P<l>\d+)\)?: error: Failure in (?P<t>TEST\(.*\))$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 95).follow(indented).owning())],
    },
    Rule {
        name: "cpputest.bad",
        pattern: r"^Errors \((?:[1-9]\d* failures, )?\d+ tests, \d+ ran, ",
        effects: &[Effect::Failure, Effect::Summary],
    },
];
