//! Output of Nix.

use crate::rules::{ERROR, Effect, Kind, Role, Rule, indented_or_blank, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Nix") };

const RULES: &[Rule] = &[
    Rule {
        name: "nix.error",
        pattern: r"^error: (?P<m>.*)",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Build, 88).follow(indented_or_blank).role(Role::Vague),
        )],
    },
    Rule {
        name: "nix.trace",
        pattern: r"^error:$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 80).follow(indented_or_blank))],
    },
];
