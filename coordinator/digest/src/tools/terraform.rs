//! Output of terraform and tflint.

use crate::rules::{Diagnostic, Effect, Kind, Level, Next, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("terraform") };

pub(super) const TFLINT: Tool = Tool { lints: true, rules: TFLINT_RULES, ..Tool::named("tflint") };

/// Lines of a box with a drawn left side.
fn in_box(_: &[String], line: &str) -> Next {
    if line.starts_with('│') { Next::Part } else { Next::Beyond }
}

/// `on main.tf line 12`.
fn on_line(diagnostic: &mut Diagnostic) {
    for line in &diagnostic.lines {
        if let Some((_, place)) = line.split_once("  on ")
            && let Some((file, rest)) = place.split_once(" line ")
        {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            diagnostic.file = Some(file.to_owned());
            diagnostic.line = digits.parse().ok();
            return;
        }
    }
}

/// tflint's place, `  on main.tf line 86:`, and its excerpt, below a blank line.
fn excerpt(so_far: &[String], line: &str) -> Next {
    if line.trim().is_empty() {
        if so_far.len() < 3 { Next::Maybe } else { Next::Beyond }
    } else if line.starts_with("  ") && so_far.len() < 12 {
        Next::Part
    } else {
        Next::Beyond
    }
}

fn placed(diagnostic: &mut Diagnostic) {
    on_line(diagnostic);
    diagnostic.spurious = diagnostic.file.is_none();
}

const RULES: &[Rule] = &[
    Rule {
        name: "terraform.error",
        pattern: r"^\xe2\x94\x82 (?P<s>Error|Warning): (?P<m>.*)",
        effects: &[Effect::Problem(
            problem(Level::Word, Kind::Build, 92).follow(in_box).owning().refine(on_line),
        )],
    },
    Rule {
        name: "terraform.good",
        pattern: r"^(?:Success! The configuration is valid|Apply complete!|No changes\. )",
        effects: &[Effect::Success, Effect::Summary],
    },
];

const TFLINT_RULES: &[Rule] = &[
    Rule {
        name: "tflint",
        pattern: r"^(?P<s>Error|Warning|Notice): (?P<m>.* \((?P<k>[a-z][a-z0-9]*_[a-z0-9_]+)\))$",
        effects: &[Effect::Problem(
            problem(Level::Word, Kind::Lint, 93).follow(excerpt).owning().refine(placed),
        )],
    },
    Rule {
        name: "tflint.total",
        pattern: r"^[1-9]\d* issue\(s\) found:$",
        effects: &[Effect::Failure, Effect::Summary, Effect::Harmless],
    },
];
