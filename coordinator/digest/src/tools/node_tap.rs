//! Output of node-tap.

use crate::rules::{Effect, Rule, SORTS};
use crate::tool::{Includes, Tool, ToolId};

pub(super) const TOOL: Tool = Tool {
    selections: &["--only"],
    includes: Includes::Only(ToolId::Tap),
    rules: RULES,
    ..Tool::named("node-tap")
};

const RULES: &[Rule] = &[Rule {
    // The files that it counts in TAP are not tests.
    name: "node_tap.total",
    pattern: r"^# \{ total: \d+(?:, (?:pass: (?P<passed>\d+)|fail: (?P<failed>\d+)|todo: (?P<skipped2>\d+)|skip: (?P<skipped>\d+)))* \}$",
    effects: &[Effect::Session, Effect::Counts(SORTS), Effect::Summary],
}];
