//! Output of mypy.

use crate::rules::{Effect, Rule};
use crate::tool::{Apart, Tool};

pub(super) const TOOL: Tool = Tool { apart: Apart::Always, rules: RULES, ..Tool::named("mypy") };

const RULES: &[Rule] = &[
    Rule {
        name: "mypy.found",
        pattern: r"^Found \d+ errors? in \d+ files?",
        effects: &[Effect::Failure, Effect::Summary, Effect::Alone],
    },
    Rule {
        name: "mypy.success",
        pattern: r"^Success: no issues found in \d+ source files?",
        effects: &[Effect::Success, Effect::Summary],
    },
];
