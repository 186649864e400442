//! Output of pylint.

use crate::rules::{ERROR, Effect, Fails, Kind, Level, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { lints: true, rules: RULES, ..Tool::named("pylint") };

const RULES: &[Rule] = &[
    Rule {
        // It exits with 32.
        name: "pylint.none",
        pattern: r"^No files to lint: exiting\.$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Lint, 85).fails(Fails::Always))],
    },
    Rule {
        name: "pylint.error",
        pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+):(?P<c>\d+): (?P<s>[EF])\d{4}: (?P<m>.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Lint, 85).fails(Fails::Always))],
    },
    Rule {
        // A level in the configuration may accept it.
        name: "pylint.remark",
        pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+):(?P<c>\d+): (?P<s>[CRW])\d{4}: (?P<m>.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Lint, 85).fails(Fails::AtEnd))],
    },
];
