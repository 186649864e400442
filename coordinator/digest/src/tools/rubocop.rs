//! Output of rubocop.

use crate::rules::{Effect, Kind, Level, Marker, Rule, indented, problem};
use crate::tool::{Apart, Tool, ToolId};

pub(super) const TOOL: Tool =
    Tool { lints: true, apart: Apart::Always, rules: RULES, ..Tool::named("rubocop") };

const RULES: &[Rule] = &[
    Rule {
        name: "rubocop.place",
        pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+):(?P<c>\d+): (?P<s>[CWEFRI]): (?P<m>.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Lint, 85).follow(indented))],
    },
    Rule {
        name: "rubocop.total",
        pattern: r"^\d+ files? inspected, [1-9]\d* offenses? ",
        effects: &[Effect::Marker(Marker::Failure(ToolId::Rubocop)), Effect::Summary],
    },
];
