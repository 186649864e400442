//! Output of dart analyze.

use crate::rules::{Effect, Kind, Level, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("dart analyze") };

const RULES: &[Rule] = &[
    Rule {
        name: "dart.issue",
        pattern: r"^\s*(?P<s>error|warning|info) (?:\xe2\x80\xa2|-) (?:(?P<m>.*?) (?:\xe2\x80\xa2|-) )?(?P<f>[^\s:]+\.dart):(?P<l>\d+):(?P<c>\d+) (?:\xe2\x80\xa2|-) ",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Lint, 90))],
    },
    Rule {
        // `--format=machine`
        name: "dart.record",
        pattern: r"^(?P<s>ERROR|WARNING|INFO)\|[A-Z_]+\|(?P<k>[A-Z0-9_]+)\|(?P<f>[^|]+)\|(?P<l>\d+)\|(?P<c>\d+)\|\d+\|(?P<m>.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Lint, 90))],
    },
    Rule { name: "dart.found", pattern: r"^[1-9]\d* issues? found\.", effects: &[Effect::Summary] },
    Rule { name: "dart.good", pattern: r"^No issues found!", effects: &[Effect::Success, Effect::Summary] },
];
