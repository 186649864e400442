//! Output of pre-commit.

use crate::rules::{ERROR, Effect, Kind, Next, Rule, problem};
use crate::tool::{Apart, Tool};

pub(super) const TOOL: Tool = Tool { apart: Apart::Always, rules: RULES, ..Tool::named("pre-commit") };

fn hook_lines(_: &[String], line: &str) -> Next {
    if line.starts_with("- ") { Next::Part } else { Next::Beyond }
}

const RULES: &[Rule] = &[
    Rule {
        name: "pre_commit.failed",
        pattern: r"^(?P<m>\S.*?)\.{3,}Failed$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Lint, 86).follow(hook_lines)), Effect::Failure],
    },
    Rule {
        name: "pre_commit.modified",
        pattern: r"^- files were modified by this hook$",
        effects: &[Effect::Failure],
    },
];
