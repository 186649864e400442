//! Output of stestr.

use crate::rules::{Effect, Rule, SORTS};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { totals_begin: true, rules: RULES, ..Tool::named("stestr") };

const RULES: &[Rule] = &[
    Rule {
        name: "stestr.ran",
        pattern: r"^Ran: \d+ tests? in [\d.]+ sec\.$",
        effects: &[Effect::Session(ToolId::Stestr), Effect::Partial(ToolId::Stestr, SORTS)],
    },
    Rule {
        name: "stestr.sorts",
        pattern: r"^ - (?:Passed: (?P<passed>\d+)|Skipped: (?P<skipped>\d+)|Expected Fail: (?P<expected>\d+)|(?:Unexpected Success|Failed): (?P<failed>\d+))$",
        effects: &[Effect::Adds(ToolId::Stestr, SORTS), Effect::Summary, Effect::Harmless],
    },
];
