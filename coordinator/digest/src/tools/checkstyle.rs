//! Output of checkstyle.

use crate::rules::{Effect, Kind, Level, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("checkstyle") };

const RULES: &[Rule] = &[Rule {
    name: "checkstyle",
    pattern: r"^\[(?P<s>ERROR|WARN|INFO)\] (?P<f>(?:[A-Za-z]:)?[^\s:\[]+):(?P<l>\d+)(?::(?P<c>\d+))?: (?P<m>.*)",
    effects: &[Effect::Problem(problem(Level::Word, Kind::Lint, 88))],
}];
