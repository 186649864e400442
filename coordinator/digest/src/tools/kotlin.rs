//! Output of Kotlin.

use crate::rules::{Effect, Kind, Level, Rule, indented, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Kotlin") };

fn kotlin_severity(diagnostic: &mut crate::rules::Diagnostic) {
    let error = diagnostic
        .lines
        .first()
        .is_some_and(|line| line.trim_start().contains("e: ") && !line.trim_start().starts_with("w: "));
    diagnostic.severity = Some(if error {
        buildpool_protocol::report::Severity::Error
    } else {
        buildpool_protocol::report::Severity::Warning
    });
}

const RULES: &[Rule] = &[Rule {
    name: "kotlin",
    pattern: r"^(?P<s>[ew]): (?:file://)?(?P<f>(?:[A-Za-z]:)?[^\s:]+):(?: \()?(?P<l>\d+)(?:, |:)(?P<c>\d+)\)?:? (?P<m>.*)",
    effects: &[Effect::Problem(
        problem(Level::Word, Kind::Build, 93).follow(indented).refine(kotlin_severity),
    )],
}];
