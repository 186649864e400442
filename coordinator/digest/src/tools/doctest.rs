//! Output of doctest.

use crate::rules::{Act, Rule, Sign};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("doctest") };

const RULES: &[Rule] = &[Rule {
    name: "doctest.bad",
    pattern: r"^\*\*\*Test Failed\*\*\* \d+ failures?",
    acts: &[Act::Sign(Sign::Failure(ToolId::Doctest)), Act::Summary],
}];
