//! Output of rubocop.

use crate::rules::{Effect, Fails, Kind, Level, Rule, indented, problem};
use crate::tool::{Apart, Tool};

pub(super) const TOOL: Tool =
    Tool { lints: true, apart: Apart::Always, rules: RULES, ..Tool::named("rubocop") };

const RULES: &[Rule] = &[
    Rule {
        name: "rubocop.error_place",
        pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+):(?P<c>\d+): (?P<s>[EF]): (?P<m>.*)",
        effects: &[Effect::Problem(
            problem(Level::Word, Kind::Lint, 85).follow(indented).fails(Fails::Always),
        )],
    },
    Rule {
        // A level in the configuration may accept it.
        name: "rubocop.place",
        pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+):(?P<c>\d+): (?P<s>[CWRI]): (?P<m>.*)",
        effects: &[Effect::Problem(
            problem(Level::Word, Kind::Lint, 85).follow(indented).fails(Fails::AtEnd),
        )],
    },
    Rule { name: "rubocop.file", pattern: r"^== (?P<f>\S+) ==$", effects: &[Effect::File] },
    Rule {
        name: "rubocop.error_row",
        pattern: r"^(?P<s>[EF]): {1,4}(?P<l>\d+): {1,4}(?P<c>\d+): (?P<m>.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Lint, 85).in_file().fails(Fails::Always))],
    },
    Rule {
        name: "rubocop.row",
        pattern: r"^(?P<s>[CWRI]): {1,4}(?P<l>\d+): {1,4}(?P<c>\d+): (?P<m>.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Lint, 85).in_file().fails(Fails::AtEnd))],
    },
    Rule {
        name: "rubocop.total",
        pattern: r"^\d+ files? inspected, [1-9]\d* offenses? ",
        effects: &[Effect::Failure, Effect::Summary],
    },
];
