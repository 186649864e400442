//! Output of Sphinx.

use crate::rules::{Effect, RUNS, Rule};
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
        effects: &[Effect::Failure, Effect::Summary],
    },
    Rule { name: "sphinx.begun", pattern: r"^Running Sphinx v\d", effects: &[RUNS] },
    Rule {
        name: "sphinx.passed",
        pattern: r"^build succeeded(?:, \d+ warnings?)?\.$",
        effects: &[Effect::Summary, Effect::IfKnown(ToolId::Sphinx), Effect::Success],
    },
];
