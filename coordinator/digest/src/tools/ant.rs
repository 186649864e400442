//! Output of ant's junit.

use crate::rules::{ERROR, Effect, Kind, Rule, problem};
use crate::tool::{Apart, Tool, ToolId};

pub(super) const TOOL: Tool = Tool { apart: Apart::Always, rules: RULES, ..Tool::named("ant's junit") };

const RULES: &[Rule] = &[
    Rule {
        name: "ant.test_failed",
        pattern: r"^\s*\[junit(?:launcher)?\] (?:Test|TEST) (?P<t>(?:[\w$]+\.)*[\w$]+) FAILED(?: \((?:crashed|timeout)\))?$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 90)), Effect::Failure, Effect::Summary],
    },
    Rule {
        // Of Gradle before version 4, too.
        name: "ant.failed",
        pattern: r"^BUILD FAILED$",
        effects: &[Effect::Of(ToolId::GradleOrAnt, &[Effect::Failure]), Effect::Summary],
    },
    Rule {
        // Of both. Ant prints it too if it is configured to ignore failures.
        name: "ant.success",
        pattern: r"^BUILD SUCCESSFUL$",
        effects: &[
            Effect::Of(ToolId::GradleOrAnt, &[Effect::Own(|line| line.markers.runs.takes_back(line.tool))]),
            Effect::Summary,
        ],
    },
];
