//! Output of test-unit.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("test-unit") };

/// A failure of test-unit, up to its rule.
fn test_unit(so_far: &[String], line: &str) -> Next {
    if line.starts_with("=====") || so_far.len() > 40 { Next::Beyond } else { Next::Part }
}

/// `a.rb:3:in `test_a'`.
fn test_unit_place(diagnostic: &mut Diagnostic) {
    let place = diagnostic.lines.iter().find_map(|line| Some(line.split_once(":in ")?.0.to_owned()));
    diagnostic.spurious = place.is_none();
    if let Some(place) = place {
        let _placed = crate::rules::set_place(diagnostic, &place);
    }
}

const RULES: &[Rule] = &[Rule {
    name: "test_unit.failed",
    pattern: r"^(?:Failure|Error): (?P<t>test[\w ]*\([A-Z][\w:]*\))(?::.*)?$",
    effects: &[Effect::Problem(
        problem(ERROR, Kind::Test, 92).follow(test_unit).owning().refine(test_unit_place),
    )],
}];
