//! Output of ninja.

use crate::rules::{ERROR, Effect, Kind, Rule, indented, problem};
use crate::tool::{Apart, Tool};

pub(super) const TOOL: Tool =
    Tool { apart: Apart::WithoutCode, builds: true, rules: RULES, ..Tool::named("ninja") };

const RULES: &[Rule] = &[
    Rule {
        name: "ninja.failed",
        pattern: r"^FAILED: (?P<m>.*\.(?:o|obj|a|so|dylib|exe|d|stamp)\b.*|\[code=\d+\].*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 40)), Effect::Failure],
    },
    Rule {
        name: "ninja.error",
        pattern: r"^ninja: (?:error|fatal): (?:(?P<f>[^\s:']+):(?P<l>\d+): )?(?P<m>.*)",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Build, 85).follow(indented)),
            Effect::Failure,
            Effect::Summary,
        ],
    },
    Rule {
        name: "ninja.stopped",
        pattern: r"^ninja: build stopped: (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 45)), Effect::Failure, Effect::Summary],
    },
];
