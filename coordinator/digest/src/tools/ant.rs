//! Output of ant's junit.

use crate::rules::{Act, ERROR, Kind, Rule, Sign, problem};
use crate::tool::{Apart, Tool, ToolId};

pub(super) const TOOL: Tool = Tool { apart: Apart::Always, rules: RULES, ..Tool::named("ant's junit") };

const RULES: &[Rule] = &[
    Rule {
        name: "ant.test_failed",
        pattern: r"^\s*\[junit(?:launcher)?\] (?:Test|TEST) (?P<t>(?:[\w$]+\.)*[\w$]+) FAILED(?: \((?:crashed|timeout)\))?$",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Test, 90)),
            Act::Sign(Sign::Failure(ToolId::AntJUnit)),
            Act::Summary,
        ],
    },
    Rule {
        // Of Gradle before version 4, too.
        name: "ant.failed",
        pattern: r"^BUILD FAILED$",
        acts: &[Act::Sign(Sign::Failure(ToolId::GradleOrAnt)), Act::Summary],
    },
    Rule {
        // Of both. Ant prints it too if it is configured to ignore failures.
        name: "ant.success",
        pattern: r"^BUILD SUCCESSFUL$",
        acts: &[Act::Sign(Sign::TakesBack(ToolId::GradleOrAnt)), Act::Summary],
    },
];
