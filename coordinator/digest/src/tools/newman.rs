//! Output of newman.

use crate::rules::{Act, Draft, ERROR, Kind, Next, Rule, Sign, TOTAL, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("newman") };

/// The column of details.
fn details(so_far: &[String], line: &str) -> Next {
    if line.starts_with("          ") && !line.trim().is_empty() && so_far.len() < 20 {
        Next::Part
    } else {
        Next::Beyond
    }
}

fn reason(draft: &mut Draft) {
    draft.head = Some(1).filter(|_| draft.lines.len() > 1);
}

const RULES: &[Rule] = &[
    Rule {
        name: "newman.failure",
        pattern: r"^ *\d+\. {2,}[A-Z]\w*(?:Error|Exception) {2,}(?P<t>\S.*?) *$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 93).follow(details).owning().refine(reason))],
    },
    Rule {
        name: "newman.assertions",
        pattern: r"^\xe2\x94\x82 +assertions \xe2\x94\x82 +(?P<n>\d+) \xe2\x94\x82 +(?P<failed>\d+) \xe2\x94\x82$",
        acts: &[Act::Session(ToolId::Newman), Act::Counts(ToolId::Newman, TOTAL), Act::Summary],
    },
    Rule {
        name: "newman.broken",
        pattern: r"^\xe2\x94\x82 +(?:requests|test-scripts|prerequest-scripts) \xe2\x94\x82 +\d+ \xe2\x94\x82 +[1-9]\d* \xe2\x94\x82$",
        acts: &[Act::Sign(Sign::Failure(ToolId::Newman))],
    },
];
