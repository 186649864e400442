//! Output of pyright.

use crate::rules::{Act, Rule, Sign};
use crate::tool::{Apart, Tool, ToolId};

pub(super) const TOOL: Tool = Tool { apart: Apart::Always, rules: RULES, ..Tool::named("pyright") };

const RULES: &[Rule] = &[
    Rule {
        name: "pyright.found",
        pattern: r"^[1-9]\d* errors?, \d+ warnings?, \d+ (?:informations?|notes?)",
        acts: &[Act::Sign(Sign::Failure(ToolId::Pyright)), Act::Summary],
    },
    Rule {
        name: "pyright.clean",
        pattern: r"^0 errors, \d+ warnings?, \d+ (?:informations?|notes?)",
        acts: &[Act::Sign(Sign::Success(ToolId::Pyright)), Act::Summary],
    },
];
