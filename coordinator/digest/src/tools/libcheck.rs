//! Output of Check.

use crate::rules::{ERROR, Effect, Kind, Rule, TOTAL, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Check") };

const RULES: &[Rule] = &[
    Rule {
        name: "check.total",
        pattern: r"^\d+%: Checks: (?P<n>\d+), Failures: (?P<failed>\d+), Errors: (?P<errors>\d+)$",
        effects: &[Effect::Session, Effect::Counts(TOTAL), Effect::Summary],
    },
    Rule {
        name: "check.failed",
        pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+):[FE]:[^:]*:(?P<t>[^:]+):-?\d+: (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 93))],
    },
];
