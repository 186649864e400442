//! Output of puppet-lint.

use crate::rules::{Effect, Kind, Level, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { lints: true, rules: RULES, ..Tool::named("puppet-lint") };

const RULES: &[Rule] = &[Rule {
    name: "puppet_lint.on_line",
    pattern: r"^(?:(?P<f>\S+) - )?(?P<s>ERROR|WARNING): (?P<m>.*) on line (?P<l>\d+)",
    effects: &[Effect::Problem(problem(Level::Word, Kind::Lint, 88))],
}];
