//! Output of ruff.

use crate::rules::{Act, Draft, ERROR, Kind, Rule, Sign, drawn, pointed, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { lints: true, rules: RULES, ..Tool::named("ruff") };

/// A message without an arrow under it is something else.
fn only_pointed(draft: &mut Draft) {
    pointed(draft);
    draft.spurious = draft.file.is_none();
}

const RULES: &[Rule] = &[
    Rule {
        name: "ruff.pointed",
        pattern: r"^(?P<k>[A-Z]{1,6}\d{3,4}|invalid-syntax:?) (?P<m>\S.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Lint, 86).follow(drawn).refine(only_pointed))],
    },
    Rule {
        name: "ruff.fixed",
        pattern: r"^Found \d+ errors? \(\d+ fixed, 0 remaining\)\.$",
        acts: &[Act::Sign(Sign::Success(ToolId::Linter)), Act::Summary, Act::Alone],
    },
    Rule {
        name: "ruff.unformatted",
        pattern: r"^unformatted: File would be reformatted$",
        acts: &[Act::Problem(problem(ERROR, Kind::Lint, 88).follow(drawn).refine(pointed))],
    },
    Rule {
        name: "ruff.found",
        pattern: r"^Found (?P<n>[1-9]\d*) (?:errors?|diagnostics?|issues?|problems?|violations?|offenses?)\b.*$",
        acts: &[Act::Sign(Sign::Failure(ToolId::Linter)), Act::Summary],
    },
    Rule {
        name: "ruff.passed",
        pattern: r"^(?:All checks passed!|Found 0 errors?\.?)$",
        acts: &[Act::Sign(Sign::Success(ToolId::Linter)), Act::Summary],
    },
];
