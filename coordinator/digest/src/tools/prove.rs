//! Output of prove.

use crate::rules::{Effect, Marker, Rule};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { drives: true, rules: RULES, ..Tool::named("prove") };

const RULES: &[Rule] = &[
    Rule {
        name: "prove.bad",
        pattern: r"^Result: FAIL$",
        effects: &[Effect::Marker(Marker::Failure(ToolId::Prove)), Effect::Summary],
    },
    Rule {
        name: "prove.files",
        pattern: r"^Files=\d+, Tests=\d+, ",
        effects: &[Effect::Marker(Marker::Tool(ToolId::Prove))],
    },
    Rule {
        name: "prove.good",
        pattern: r"^Result: PASS$",
        effects: &[
            Effect::Summary,
            Effect::IfKnown(ToolId::Prove),
            Effect::Marker(Marker::Success(ToolId::Prove)),
        ],
    },
];
