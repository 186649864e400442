//! Output of terraform.

use crate::rules::{Diagnostic, Effect, Kind, Level, Marker, Next, Rule, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("terraform") };

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
        effects: &[Effect::Marker(Marker::Success(ToolId::Terraform)), Effect::Summary],
    },
];
