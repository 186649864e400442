//! Output of Erlang.

use super::compiler::DIED;
use crate::rules::{Act, Indicator, Rule, Sign};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Erlang") };

const RULES: &[Rule] = &[Rule {
    name: "erlang.dump",
    pattern: r"^Crash dump is being written to: (?P<m>.*)",
    acts: &[Act::Problem(DIED), Act::Sign(Sign::Crash(Indicator::FatalError))],
}];
