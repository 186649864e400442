//! Output of ruff.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Marker, Rule, drawn, pointed, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { lints: true, rules: RULES, ..Tool::named("ruff") };

/// A message without an arrow under it is something else.
fn only_pointed(diagnostic: &mut Diagnostic) {
    pointed(diagnostic);
    diagnostic.spurious = diagnostic.file.is_none();
}

const RULES: &[Rule] = &[
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
        effects: &[Effect::Marker(Marker::Success(ToolId::Linter)), Effect::Summary, Effect::Alone],
    },
    Rule {
        name: "ruff.unformatted",
        pattern: r"^unformatted: File would be reformatted$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Lint, 88).follow(drawn).refine(pointed))],
    },
    Rule {
        name: "ruff.found",
        pattern: r"^Found (?P<n>[1-9]\d*) (?:errors?|diagnostics?|issues?|problems?|violations?|offenses?)\b.*$",
        effects: &[Effect::Marker(Marker::Failure(ToolId::Linter)), Effect::Summary],
    },
    Rule {
        name: "ruff.passed",
        pattern: r"^(?:All checks passed!|Found 0 errors?\.?)$",
        effects: &[Effect::Marker(Marker::Success(ToolId::Linter)), Effect::Summary],
    },
];
