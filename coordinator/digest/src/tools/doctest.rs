//! Output of doctest.

use crate::rules::{Effect, Rule};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("doctest") };

const RULES: &[Rule] = &[Rule {
    name: "doctest.bad",
    pattern: r"^\*\*\*Test Failed\*\*\* \d+ failures?",
    effects: &[Effect::Failure, Effect::Summary],
}];
