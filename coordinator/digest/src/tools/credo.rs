//! Output of credo.

use crate::rules::{Diagnostic, Effect, Kind, Rule, WARNING, one_more, problem, set_place};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { lints: true, rules: RULES, ..Tool::named("credo") };

/// The place in the line below.
fn place_below(diagnostic: &mut Diagnostic) {
    let words: Vec<String> =
        diagnostic.lines.iter().skip(1).flat_map(|line| line.split_whitespace()).map(str::to_owned).collect();
    let _found = words.iter().any(|word| set_place(diagnostic, word));
}

const RULES: &[Rule] = &[
    Rule {
        name: "credo.issue",
        pattern: r"^\xe2\x94\x83 \[[WRCFD]\] \S+ (?P<m>.*)",
        effects: &[Effect::Problem(problem(WARNING, Kind::Lint, 86).follow(one_more).refine(place_below))],
    },
    Rule {
        name: "credo.total",
        pattern: r"^\d+ mods/funs, found [1-9]",
        effects: &[Effect::Failure, Effect::Summary],
    },
];
