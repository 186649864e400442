//! Output of doctest.

use crate::rules::{Effect, Marker, Rule};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("doctest") };

const RULES: &[Rule] = &[Rule {
    name: "doctest.bad",
    pattern: r"^\*\*\*Test Failed\*\*\* \d+ failures?",
    effects: &[Effect::Marker(Marker::Failure(ToolId::Doctest)), Effect::Summary],
}];
