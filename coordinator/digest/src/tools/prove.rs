//! Output of prove.

use crate::rules::{Act, Rule, Sign};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { drives: true, rules: RULES, ..Tool::named("prove") };

const RULES: &[Rule] = &[
    Rule {
        name: "prove.bad",
        pattern: r"^Result: FAIL$",
        acts: &[Act::Sign(Sign::Failure(ToolId::Prove)), Act::Summary],
    },
    Rule {
        name: "prove.good",
        pattern: r"^Result: PASS$",
        acts: &[Act::Sign(Sign::Success(ToolId::Prove)), Act::Summary],
    },
];
