//! Output of munit.

use super::places::worded;
use crate::rules::{ERROR, Effect, Kind, Next, Rule, indented, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("munit") };

/// The excerpt, the message and the difference, up to the frames of the stack.
fn up_to_frames(so_far: &[String], line: &str) -> Next {
    let is_next = ["==> ", "Test run ", "+ ", "- "].iter().any(|start| line.starts_with(start));
    match indented(so_far, line) {
        Next::Beyond if !is_next && !line.trim().is_empty() && so_far.len() < 24 => Next::Maybe,
        next => next,
    }
}

const RULES: &[Rule] = &[Rule {
    name: "munit.failed",
    pattern: r"^==> X (?P<t>\S.*?) +[\d.]+m?s(?: (?P<m>.*))?$",
    effects: &[Effect::Problem(problem(ERROR, Kind::Test, 93).follow(up_to_frames).refine(worded))],
}];
