//! Output of Erlang.

use super::compiler::DIED;
use crate::rules::{Effect, Indicator, Marker, Rule};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Erlang") };

const RULES: &[Rule] = &[Rule {
    name: "erlang.dump",
    pattern: r"^Crash dump is being written to: (?P<m>.*)",
    effects: &[Effect::Problem(DIED), Effect::Marker(Marker::Crash(Indicator::FatalError))],
}];
