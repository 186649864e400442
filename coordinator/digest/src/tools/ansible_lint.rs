//! Output of ansible-lint.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Rule, problem, set_place};
use crate::tool::Tool;
use buildpool_protocol::report::Severity;

pub(super) const TOOL: Tool = Tool { lints: true, rules: RULES, ..Tool::named("ansible-lint") };

/// The place is on the next line: `play.yml:3:7 Task/Handler: shell`.
fn place_below(_: &[String], line: &str) -> Next {
    let place = line.split(' ').next().unwrap_or_default();
    if place.contains(".yml:") || place.contains(".yaml:") { Next::Last } else { Next::Beyond }
}

/// Without a place it is a line of another program.
fn placed(diagnostic: &mut Diagnostic) {
    let place = diagnostic.lines.get(1).and_then(|line| line.split(' ').next()).map(str::to_owned);
    diagnostic.spurious = !place.is_some_and(|place| set_place(diagnostic, &place));
    if diagnostic.first().ends_with("(warning)") {
        diagnostic.severity = Some(Severity::Warning);
    }
}

const RULES: &[Rule] = &[Rule {
    name: "ansible_lint.rule",
    pattern: r"^(?P<k>[a-z]+(?:-[a-z]+)*\[[\w-]+\]|[a-z]+(?:-[a-z]+)+): (?P<m>[A-Z].*)",
    effects: &[Effect::Problem(problem(ERROR, Kind::Lint, 88).follow(place_below).owning().refine(placed))],
}];
