//! Output of make.

use crate::rules::{ERROR, Effect, Indicator, Kind, Rule, problem};
use crate::tool::{Apart, Tool, ToolId};

pub(super) const TOOL: Tool =
    Tool { apart: Apart::WithoutCode, builds: true, rules: RULES, ..Tool::named("make") };

pub(super) const RECIPE: Tool = Tool {
    program: Some(ToolId::Make),
    apart: Apart::Always,
    outlives_invocation: true,
    ..Tool::named("make, of what it ran,")
};

const RULES: &[Rule] = &[
    Rule {
        // The message may have several lines.
        name: "make.syntax",
        pattern: r"^(?P<f>[^\s:]*[Mm]akefile[^\s:]*|[^\s:]+\.mk):(?P<l>\d+): \*\*\* (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 92)), Effect::Failure],
    },
    Rule {
        name: "make.syntax_of_any_name",
        pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+): \*\*\* (?P<m>.*\.  Stop\.)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 92)), Effect::Failure],
    },
    Rule {
        name: "make.ignored",
        pattern: r"^g?n?make(?:\[\d+\])?: (?:\*\*\* )?\[.*\] .*\(ignored\)$",
        effects: &[Effect::Own(|line| line.markers.ignored = line.order), Effect::Harmless, Effect::Alone],
    },
    Rule {
        // It is no consequence of a recipe.
        name: "make.no_rule",
        pattern: r"^g?n?make(?:\[\d+\])?: \*\*\* (?P<m>No rule to make target .*|No targets.*|multiple target patterns.*|missing .*)",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Build, 85)),
            Effect::Failure,
            Effect::Summary,
            Effect::Alone,
        ],
    },
    Rule {
        name: "make.error",
        pattern: r"^g?n?make(?:\[\d+\])?: \*\*\* (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 40)), Effect::Failure, Effect::Summary],
    },
    Rule {
        // The make of BSD.
        name: "make.bsd_error",
        pattern: r"^\*\*\* (?:\[.*\] )?Error (?:code )?\d+(?: \(ignored\))?$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 40)), Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "make.died",
        pattern: concat!(r"^g?n?make(?:\[\d+\])?: \*\*\* \[.*\] (?P<sig>", shell_words!(), r")\b"),
        effects: &[Effect::Crash(Indicator::Died("")), Effect::Of(ToolId::MakeRecipe, &[Effect::Failure])],
    },
];
