//! Output of Nix.

use crate::rules::{ERROR, Effect, Fails, Kind, Role, Rule, indented_or_blank, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Nix") };

/// The failure of a build. Other tools print lines that begin with the same word.
pub(super) const BUILD: Tool = Tool { rules: BUILD_RULES, ..Tool::named("nix build") };

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
    Rule {
        name: "nix.below_trace",
        pattern: r"^ {7}error: (?P<m>\S.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 86).fails(Fails::AtEnd))],
    },
];

const BUILD_RULES: &[Rule] = &[Rule {
    name: "nix.failed",
    pattern: r"^error: (?P<m>(?:builder for '/nix/store/|Cannot build '/nix/store/|build of '/nix/store/).*)",
    effects: &[Effect::Problem(
        problem(ERROR, Kind::Build, 88).follow(indented_or_blank).role(Role::Vague).fails(Fails::Always),
    )],
}];
