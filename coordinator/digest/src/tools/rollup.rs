//! Output of rollup.

use crate::rules::{Effect, Rule};
use crate::tool::{Apart, Tool};

pub(super) const TOOL: Tool =
    Tool { apart: Apart::WithoutCode, builds: true, rules: RULES, ..Tool::named("rollup") };

const RULES: &[Rule] = &[Rule {
    name: "rollup.failed",
    pattern: r"^\[!\] (?:\(plugin .*\) )?(?:[A-Z]\w*)?Error: ",
    effects: &[Effect::Failure],
}];
