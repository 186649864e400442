//! Output of mypy.

use crate::rules::{Act, Rule, Sign};
use crate::tool::{Apart, Tool, ToolId};

pub(super) const TOOL: Tool = Tool { apart: Apart::Always, rules: RULES, ..Tool::named("mypy") };

const RULES: &[Rule] = &[
    Rule {
        name: "mypy.found",
        pattern: r"^Found \d+ errors? in \d+ files?",
        acts: &[Act::Sign(Sign::Failure(ToolId::Mypy)), Act::Summary, Act::Alone],
    },
    Rule {
        name: "mypy.success",
        pattern: r"^Success: no issues found in \d+ source files?",
        acts: &[Act::Sign(Sign::Success(ToolId::Mypy)), Act::Summary],
    },
];
