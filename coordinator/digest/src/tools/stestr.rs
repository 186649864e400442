//! Output of stestr.

use crate::rules::{Act, Rule, SORTS};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { totals_begin: true, rules: RULES, ..Tool::named("stestr") };

const RULES: &[Rule] = &[
    Rule {
        name: "stestr.ran",
        pattern: r"^Ran: \d+ tests? in [\d.]+ sec\.$",
        acts: &[Act::Session(ToolId::Stestr), Act::Partial(ToolId::Stestr, SORTS)],
    },
    Rule {
        name: "stestr.sorts",
        pattern: r"^ - (?:Passed: (?P<passed>\d+)|Skipped: (?P<skipped>\d+)|Expected Fail: (?P<expected>\d+)|(?:Unexpected Success|Failed): (?P<failed>\d+))$",
        acts: &[Act::Adds(ToolId::Stestr, SORTS), Act::Summary, Act::Harmless],
    },
];
