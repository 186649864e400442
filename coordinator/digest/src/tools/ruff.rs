//! Output of ruff.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Rule, drawn, indented, pointed, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { lints: true, rules: RULES, ..Tool::named("ruff") };

/// A message without an arrow under it is something else.
fn only_pointed(diagnostic: &mut Diagnostic) {
    pointed(diagnostic);
    diagnostic.spurious = diagnostic.file.is_none();
}

/// The cause is the second line, which may name the place.
fn caused(diagnostic: &mut Diagnostic) {
    diagnostic.head = Some(1).filter(|head| *head < diagnostic.lines.len());
    super::places::worded(diagnostic);
}

const RULES: &[Rule] = &[
    Rule {
        name: "ruff.gave_up",
        pattern: r"^(?:ruff|ty) failed$",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Runtime, 88).follow(indented).refine(caused)),
            Effect::Failure,
        ],
    },
    Rule {
        name: "ruff.pointed",
        pattern: r"^(?P<k>[A-Z]{1,6}\d{3,4}|invalid-syntax:?) (?P<m>\S.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Lint, 86).follow(drawn).refine(only_pointed))],
    },
    Rule { name: "ruff.file", pattern: r"^(?P<f>\S+\.(?:pyi?|ipynb)):$", effects: &[Effect::File] },
    Rule {
        name: "ruff.row",
        pattern: r"^ {2}(?P<l>\d+):(?P<c>\d+) +(?P<k>[A-Z]{1,6}\d{3,4}) (?P<m>\S.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Lint, 88).in_file())],
    },
    Rule {
        name: "ruff.fixed",
        pattern: r"^Found \d+ errors? \(\d+ fixed, 0 remaining\)\.$",
        effects: &[Effect::Of(ToolId::Linter, &[Effect::Success]), Effect::Summary, Effect::Alone],
    },
    Rule {
        name: "ruff.unformatted",
        pattern: r"^unformatted: File would be reformatted$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Lint, 88).follow(drawn).refine(pointed))],
    },
    Rule {
        name: "ruff.found",
        pattern: r"^Found (?P<n>[1-9]\d*) (?:errors?|diagnostics?|issues?|problems?|violations?|offenses?)\b.*$",
        effects: &[Effect::Of(ToolId::Linter, &[Effect::Failure]), Effect::Summary],
    },
    Rule {
        name: "ruff.passed",
        pattern: r"^(?:All checks passed!|Found 0 errors?\.?)$",
        effects: &[Effect::Of(ToolId::Linter, &[Effect::Success]), Effect::Summary],
    },
];
