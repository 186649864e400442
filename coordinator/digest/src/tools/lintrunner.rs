//! Output of lintrunner.

use crate::rules::{ERROR, Effect, Kind, Rule, problem};
use crate::tool::{Apart, Tool};

pub(super) const TOOL: Tool = Tool { apart: Apart::Always, rules: RULES, ..Tool::named("lintrunner") };

const RULES: &[Rule] = &[Rule {
    name: "lint.lintrunner",
    pattern: r"^>>> Lint for (?P<f>\S+):$",
    effects: &[
        Effect::Problem(problem(ERROR, Kind::Lint, 88).follow(crate::rules::indented_or_blank)),
        Effect::Failure,
    ],
}];
