//! Output of pre-commit.

use crate::rules::{Act, ERROR, Kind, Next, Rule, Sign, problem};
use crate::tool::{Apart, Tool, ToolId};

pub(super) const TOOL: Tool = Tool { apart: Apart::Always, rules: RULES, ..Tool::named("pre-commit") };

fn hook_lines(_: &[String], line: &str) -> Next {
    if line.starts_with("- ") { Next::Part } else { Next::Beyond }
}

const RULES: &[Rule] = &[Rule {
    name: "pre_commit.failed",
    pattern: r"^(?P<m>\S.*?)\.{3,}Failed$",
    acts: &[
        Act::Problem(problem(ERROR, Kind::Lint, 86).follow(hook_lines)),
        Act::Sign(Sign::Failure(ToolId::PreCommit)),
    ],
}];
