//! Output of Sphinx.

use crate::rules::{Act, Rule, Sign};
use crate::tool::{Apart, Tool, ToolId};

pub(super) const TOOL: Tool = Tool {
    apart: Apart::Always,
    commands: &["sphinx-build", "sphinx"],
    rules: RULES,
    ..Tool::named("Sphinx")
};

const RULES: &[Rule] = &[
    Rule {
        name: "sphinx.failed",
        pattern: r"^build finished with problems\b",
        acts: &[Act::Sign(Sign::Failure(ToolId::Sphinx)), Act::Summary],
    },
    Rule {
        name: "sphinx.passed",
        pattern: r"^build succeeded(?:, \d+ warnings?)?\.$",
        acts: &[Act::Sign(Sign::Success(ToolId::Sphinx)), Act::Summary],
    },
];
