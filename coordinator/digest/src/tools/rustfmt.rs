//! Output of rustfmt.

use crate::rules::{ERROR, Effect, Kind, Next, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("rustfmt") };

/// Lines of a difference.
fn difference(so_far: &[String], line: &str) -> Next {
    let part = line.is_empty() || line.starts_with([' ', '+', '-']);
    if part && so_far.len() < 40 { Next::Part } else { Next::Beyond }
}

const RULES: &[Rule] = &[Rule {
    name: "rustfmt.difference",
    pattern: r"^Diff in (?P<f>\S+?)(?::(?P<l>\d+)| at line (?P<l2>\d+)):$",
    effects: &[Effect::Problem(problem(ERROR, Kind::Lint, 90).follow(difference).owning())],
}];
