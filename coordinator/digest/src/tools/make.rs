//! Output of make.

use crate::rules::{Act, ERROR, Indicator, Kind, Rule, Sign, problem};
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
        name: "make.syntax",
        pattern: r"^(?P<f>[^\s:]*[Mm]akefile[^\s:]*|[^\s:]+\.mk):(?P<l>\d+): \*\*\* (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 92)), Act::Sign(Sign::Failure(ToolId::Make))],
    },
    Rule {
        name: "make.ignored",
        pattern: r"^g?n?make(?:\[\d+\])?: (?:\*\*\* )?\[.*\] .*\(ignored\)$",
        acts: &[Act::Sign(Sign::IgnoresFailure), Act::Harmless, Act::Alone],
    },
    Rule {
        // It is no consequence of a recipe.
        name: "make.no_rule",
        pattern: r"^g?n?make(?:\[\d+\])?: \*\*\* (?P<m>No rule to make target .*|No targets.*|multiple target patterns.*|missing .*)",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Build, 85)),
            Act::Sign(Sign::Failure(ToolId::Make)),
            Act::Summary,
            Act::Alone,
        ],
    },
    Rule {
        name: "make.error",
        pattern: r"^g?n?make(?:\[\d+\])?: \*\*\* (?P<m>.*)",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Consequence, 40)),
            Act::Sign(Sign::Failure(ToolId::Make)),
            Act::Summary,
        ],
    },
    Rule {
        // The make of BSD.
        name: "make.bsd_error",
        pattern: r"^\*\*\* (?:\[.*\] )?Error (?:code )?\d+(?: \(ignored\))?$",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Consequence, 40)),
            Act::Sign(Sign::Failure(ToolId::Make)),
            Act::Summary,
        ],
    },
    Rule {
        name: "make.died",
        pattern: concat!(r"^g?n?make(?:\[\d+\])?: \*\*\* \[.*\] (?P<sig>", shell_words!(), r")\b"),
        acts: &[Act::Sign(Sign::Crash(Indicator::Died(""))), Act::Sign(Sign::Failure(ToolId::MakeRecipe))],
    },
];
