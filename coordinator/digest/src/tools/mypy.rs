//! Output of mypy.

use crate::rules::{Effect, Marker, Rule};
use crate::tool::{Apart, Tool, ToolId};

pub(super) const TOOL: Tool = Tool { apart: Apart::Always, rules: RULES, ..Tool::named("mypy") };

const RULES: &[Rule] = &[
    Rule {
        name: "mypy.found",
        pattern: r"^Found \d+ errors? in \d+ files?",
        effects: &[Effect::Marker(Marker::Failure(ToolId::Mypy)), Effect::Summary, Effect::Alone],
    },
    Rule {
        name: "mypy.success",
        pattern: r"^Success: no issues found in \d+ source files?",
        effects: &[Effect::Marker(Marker::Success(ToolId::Mypy)), Effect::Summary],
    },
];
