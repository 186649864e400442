//! Output of phpcs.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Rule, problem};
use crate::tool::Tool;
use buildpool_protocol::report::Severity;

pub(super) const TOOL: Tool = Tool { lints: true, rules: RULES, ..Tool::named("phpcs") };

/// The table of a file: ` 12 | ERROR | [x] …`.
fn table(so_far: &[String], line: &str) -> Next {
    let row = line.starts_with("----") || line.starts_with("FOUND ") || line.contains(" | ");
    if row && so_far.len() < 100 { Next::Part } else { Next::Beyond }
}

/// The first row has the location; a table without rows does not count.
fn first_row(diagnostic: &mut Diagnostic) {
    diagnostic.lines.retain(|line| !line.starts_with("----"));
    diagnostic.line = diagnostic.lines.iter().find_map(|line| line.split_once(" | ")?.0.trim().parse().ok());
    diagnostic.spurious = diagnostic.line.is_none();
    if !diagnostic.lines.iter().any(|line| line.contains("| ERROR ")) {
        diagnostic.severity = Some(Severity::Warning);
    }
}

const RULES: &[Rule] = &[Rule {
    name: "phpcs.file",
    pattern: r"^FILE: (?P<f>\S.*)$",
    effects: &[Effect::Problem(problem(ERROR, Kind::Lint, 88).follow(table).owning().refine(first_row))],
}];
