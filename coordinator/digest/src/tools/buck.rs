//! Output of Buck.

use crate::rules::{ERROR, Effect, Fails, Kind, Level, Rule, indented, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { builds: true, rules: RULES, ..Tool::named("buck") };

const RULES: &[Rule] = &[
    Rule {
        // The first line that a compiler printed has a label.
        name: "buck.stderr",
        pattern: r"^stderr: (?P<f>[^\s:]+):(?P<l>\d+):(?:(?P<c>\d+):)? (?P<s>fatal error|error|warning): (?P<m>.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Build, 90).follow(indented))],
    },
    Rule {
        name: "buck.failed",
        pattern: r"^(?:BUILD FAILED|Build failed): (?P<m>//\S.*)",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Build, 80).fails(Fails::Always)),
            Effect::Failure,
            Effect::Summary,
        ],
    },
];
