//! Output of linter.

use crate::rules::{Act, Kind, Level, Rule, WARNING, problem};
use crate::tool::{Apart, Tool};

pub(super) const TOOL: Tool = Tool { apart: Apart::Always, rules: RULES, ..Tool::named("linter") };

const RULES: &[Rule] = &[
    Rule {
        name: "lint.bracketed_place",
        pattern: r"^(?P<f>[^\s:\[\]]+\.\w+)\[(?P<l>\d+), ?(?P<c>\d+)\]: (?P<m>.*)",
        acts: &[Act::Problem(problem(Level::Remark, Kind::Lint, 72))],
    },
    Rule {
        name: "lint.shellcheck",
        pattern: r"^In (?P<f>\S+) line (?P<l>\d+):$",
        acts: &[Act::Problem(problem(WARNING, Kind::Lint, 80).follow(crate::rules::paragraph))],
    },
    Rule {
        name: "lint.lintrunner_row",
        pattern: r"^\s+(?P<s>Error|Warning|Advice) \((?P<m>[A-Z][A-Z0-9_-]*)\) .*",
        acts: &[Act::Problem(problem(Level::Word, Kind::Lint, 88).follow(crate::rules::indented))],
    },
];
