//! Output of ninja.

use crate::rules::{Act, ERROR, Kind, Rule, Sign, indented, problem};
use crate::tool::{Apart, Tool, ToolId};

pub(super) const TOOL: Tool =
    Tool { apart: Apart::WithoutCode, builds: true, rules: RULES, ..Tool::named("ninja") };

const RULES: &[Rule] = &[
    Rule {
        name: "ninja.failed",
        pattern: r"^FAILED: (?P<m>.*\.(?:o|obj|a|so|dylib|exe|d|stamp)\b.*|\[code=\d+\].*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Consequence, 40)), Act::Sign(Sign::Failure(ToolId::Ninja))],
    },
    Rule {
        name: "ninja.error",
        pattern: r"^ninja: (?:error|fatal): (?:(?P<f>[^\s:']+):(?P<l>\d+): )?(?P<m>.*)",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Build, 85).follow(indented)),
            Act::Sign(Sign::Failure(ToolId::Ninja)),
            Act::Summary,
        ],
    },
    Rule {
        name: "ninja.stopped",
        pattern: r"^ninja: build stopped: (?P<m>.*)",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Consequence, 45)),
            Act::Sign(Sign::Failure(ToolId::Ninja)),
            Act::Summary,
        ],
    },
];
