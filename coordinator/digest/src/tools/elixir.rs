//! Output of Elixir.

use super::dotnet::stack;
use crate::rules::{Act, Draft, ERROR, Kind, Rule, problem, set_place};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Elixir") };

/// The first frame of the program's own: `(app 0.1.0) lib/app.ex:12: App.load/0`.
fn elixir_frame(draft: &mut Draft) {
    let places: Vec<String> = draft
        .lines
        .iter()
        .skip(1)
        .flat_map(|line| line.split_whitespace())
        .filter(|word| word.contains(".ex"))
        .map(str::to_owned)
        .collect();
    let _found = places.iter().any(|place| set_place(draft, place));
}

const RULES: &[Rule] = &[
    Rule {
        name: "elixir.logged",
        pattern: r"^\s{0,5}\*\* \(CompileError\) .*\(errors have been logged\)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Consequence, 60)), Act::Alone],
    },
    Rule {
        name: "elixir.exception",
        pattern: r"^\s{0,5}\*\* \([A-Z][\w. #<>]*\) (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 88).follow(stack).refine(elixir_frame))],
    },
];
