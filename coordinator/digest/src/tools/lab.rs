//! Output of lab.

use crate::rules::{Count, Effect, Rule};
use crate::tally::Counts;
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { judges_more_than_tests: true, rules: RULES, ..Tool::named("lab") };

/// lab prints the number of skipped tests separately from the total.
const WITHOUT_SKIPPED: Count = |groups| {
    let (total, failed) = (groups.number("n") + groups.number("all"), groups.number("failed"));
    Some(Counts {
        passed: total.saturating_sub(failed),
        failed,
        skipped: groups.number("skipped"),
        expected: 0,
    })
};

const RULES: &[Rule] = &[
    Rule {
        name: "lab.total",
        pattern: r"^(?:(?P<failed>\d+) of (?P<n>\d+) tests? failed|(?P<all>\d+) tests? (?:passed|complete))(?: \((?:(?P<skipped>\d+) skipped|\d+ todo)(?:, \d+ todo)?\))?$",
        effects: &[Effect::Awaits(ToolId::Lab, WITHOUT_SKIPPED)],
    },
    Rule {
        name: "lab.duration",
        pattern: r"^Test duration: [\d.]+ ms$",
        effects: &[Effect::Confirms(ToolId::Lab)],
    },
];
