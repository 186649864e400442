//! Output of stestr.

use crate::rules::{Effect, Rule, SORTS};
use crate::tool::Tool;

pub(super) const TOOL: Tool =
    Tool { runs_tests: true, totals_begin: true, rules: RULES, ..Tool::named("stestr") };

const RULES: &[Rule] = &[
    Rule {
        name: "stestr.ran",
        pattern: r"^Ran: \d+ tests? in [\d.]+ sec\.$",
        effects: &[Effect::Session, Effect::Partial(SORTS)],
    },
    Rule {
        name: "stestr.sorts",
        pattern: r"^ - (?:Passed: (?P<passed>\d+)|Skipped: (?P<skipped>\d+)|Expected Fail: (?P<expected>\d+)|(?:Unexpected Success|Failed): (?P<failed>\d+))$",
        effects: &[Effect::Adds(SORTS), Effect::Summary, Effect::Harmless],
    },
];
