//! Output of pyright.

use crate::rules::{Effect, Rule};
use crate::tool::{Apart, Tool};

pub(super) const TOOL: Tool = Tool { apart: Apart::Always, rules: RULES, ..Tool::named("pyright") };

const RULES: &[Rule] = &[
    Rule {
        name: "pyright.found",
        pattern: r"^[1-9]\d* errors?, \d+ warnings?, \d+ (?:informations?|notes?)",
        effects: &[Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "pyright.clean",
        pattern: r"^0 errors, \d+ warnings?, \d+ (?:informations?|notes?)",
        effects: &[Effect::Success, Effect::Summary],
    },
];
