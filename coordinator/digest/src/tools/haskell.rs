//! Output of Haskell.

use crate::rules::{ERROR, Effect, Kind, Rule, indented, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Haskell") };

fn names_a_program(line: &str) -> bool {
    line.split_once(": ").is_some_and(|(program, _)| !program.is_empty() && !program.contains(' '))
}

const RULES: &[Rule] = &[Rule {
    name: "haskell.exception",
    pattern: r"^CallStack \(from HasCallStack\):$",
    effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 82).follow(indented).lead(names_a_program))],
}];
