//! Output of signals.

use super::compiler::DIED;
use crate::rules::{Effect, Indicator, Rule};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("signals") };

const RULES: &[Rule] = &[Rule {
    name: "signal.told_number",
    pattern: r"^.*(?:terminated by|killed by|died of|died with|died from|crashed with|exited due to|exited with|exited on|failed due to|failed with) signal (?P<sig>4|5|6|8|11)\b",
    effects: &[Effect::Problem(DIED), Effect::Crash(Indicator::Died(""))],
}];
