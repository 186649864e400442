//! Output of Lua.

use super::dotnet::stack;
use crate::rules::{ERROR, Effect, Kind, Rule, always, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Lua") };

const RULES: &[Rule] = &[Rule {
    name: "lua.error",
    pattern: r"^(?:lua[\w.]*|luajit\S*): (?P<f>[^\s:]+|\(command line\)):(?P<l>\d+): (?P<m>.*)",
    effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 90).follow(stack).owning().ended(always))],
}];
