//! Output of tox.

use crate::rules::{ERROR, Effect, Kind, Role, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("tox") };

const RULES: &[Rule] = &[
    Rule {
        // The command of an environment that failed: `lint: exit 1 (0.26 seconds) /w> flake8 a.py pid=12`.
        name: "tox.command",
        pattern: r"^(?P<t>[\w.-]+): exit -?[1-9]\d* \([\d.]+ seconds\) \S+> (?P<m>\S.*?)(?: pid=\d+)?$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 60).role(Role::Vague))],
    },
    Rule {
        name: "tox.failed",
        pattern: r"^\s+(?P<t>\S+): FAIL(?: code \d+)? \(.*",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 70)), Effect::Failure],
    },
    Rule {
        name: "tox.evaluation",
        pattern: r"^ {2}evaluation failed :\( \([\d.]+ seconds\)$",
        effects: &[Effect::Harmless, Effect::Summary],
    },
];
