//! Output of newman.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Rule, TOTAL, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("newman") };

/// The column of details.
fn details(so_far: &[String], line: &str) -> Next {
    if line.starts_with("          ") && !line.trim().is_empty() && so_far.len() < 20 {
        Next::Part
    } else {
        Next::Beyond
    }
}

fn reason(diagnostic: &mut Diagnostic) {
    diagnostic.head = Some(1).filter(|_| diagnostic.lines.len() > 1);
}

const RULES: &[Rule] = &[
    Rule {
        name: "newman.failure",
        pattern: r"^ *\d+\. {2,}[A-Z]\w*(?:Error|Exception) {2,}(?P<t>\S.*?) *$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 93).follow(details).owning().refine(reason))],
    },
    Rule {
        name: "newman.assertions",
        pattern: r"^\xe2\x94\x82 +assertions \xe2\x94\x82 +(?P<n>\d+) \xe2\x94\x82 +(?P<failed>\d+) \xe2\x94\x82$",
        effects: &[Effect::Session, Effect::Counts(TOTAL), Effect::Summary],
    },
    Rule {
        name: "newman.broken",
        pattern: r"^\xe2\x94\x82 +(?:requests|test-scripts|prerequest-scripts) \xe2\x94\x82 +\d+ \xe2\x94\x82 +[1-9]\d* \xe2\x94\x82$",
        effects: &[Effect::Failure],
    },
];
