//! Output of alcotest.

use crate::rules::{ERROR, Effect, Kind, Next, Rule, TOTAL, problem, up_to_rule};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("alcotest") };

/// alcotest's lines below the box with a test's name, up to a rule.
fn below_box(so_far: &[String], line: &str) -> Next {
    up_to_rule(" ───", so_far, line)
}

const RULES: &[Rule] = &[
    Rule {
        name: "alcotest.test",
        pattern: r"^\xe2\x94\x82 \[FAIL\] +(?P<t>\S.*?)\.? +\xe2\x94\x82$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 93).follow(below_box).owning())],
    },
    Rule {
        name: "alcotest.failed",
        pattern: r"^(?P<failed>\d+) (?:failure|error)s?! in [\d.]+s\. (?P<n>\d+) tests? run\.$",
        effects: &[Effect::Session, Effect::Counts(TOTAL), Effect::Summary],
    },
    Rule {
        name: "alcotest.good",
        pattern: r"^Test Successful in [\d.]+s\. (?P<n>\d+) tests? run\.$",
        effects: &[Effect::Session, Effect::Counts(TOTAL), Effect::Summary],
    },
];
