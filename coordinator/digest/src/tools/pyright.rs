//! Output of pyright.

use crate::rules::{Effect, Marker, Rule};
use crate::tool::{Apart, Tool, ToolId};

pub(super) const TOOL: Tool = Tool { apart: Apart::Always, rules: RULES, ..Tool::named("pyright") };

const RULES: &[Rule] = &[
    Rule {
        name: "pyright.found",
        pattern: r"^[1-9]\d* errors?, \d+ warnings?, \d+ (?:informations?|notes?)",
        effects: &[Effect::Marker(Marker::Failure(ToolId::Pyright)), Effect::Summary],
    },
    Rule {
        name: "pyright.clean",
        pattern: r"^0 errors, \d+ warnings?, \d+ (?:informations?|notes?)",
        effects: &[Effect::Marker(Marker::Success(ToolId::Pyright)), Effect::Summary],
    },
];
